"""What absence does to a model: FedAvg and Unbiased under exactly the same absences.

Half of the clients are available 90 % of the time, half 10 %. FedAvg averages what comes: the rare half hardly counts.
Unbiased divides by how often a client comes. All strategies meet the same absences, so differences are paired by seed.
"""

import numpy as np

import turnout
from turnout import availability, strategies, tasks

turnout.use_compilation_cache()  # keep what is compiled for the next run
task = tasks.synthetic_leaf(num_clients=40, samples_per_client=80)
world = turnout.World(availability.two_classes(40, lam=0.5))
local = turnout.Local(learning_rate=0.02, batch_size=32)
rare = np.asarray(world.availability.stationary()) < 0.5

accuracy = {}
for strategy in (strategies.FedAvg(), strategies.Unbiased()):
    name = type(strategy).__name__
    history = turnout.simulate(task, world, strategy, rounds=100, seeds=4, local=local, learning_rate=2.0)
    accuracy[name] = 100 * history.final("test_accuracy")
    weight = history.clients["weight"].sum(axis=0)
    share = 100 * weight[rare].sum() / weight.sum()
    print(f"{name:9} test accuracy {accuracy[name].mean():.1f} %, rare half has {share:.0f} % of the weight, not 50 %")

gain = accuracy["Unbiased"] - accuracy["FedAvg"]
print(f"Unbiased over FedAvg, paired by seed: {gain.mean():+.1f} points, from {gain.min():+.1f} to {gain.max():+.1f}")
