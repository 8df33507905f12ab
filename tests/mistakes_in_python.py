"""Mistakes in programs: each is made twice, and what was said the second time is printed as JSON, by its name.

A program of its own, since tests check types at every call, which users do not.
"""

import json
import time

import numpy as np

import turnout
from turnout import availability, compute, links, strategies, tasks

CLIENTS = 6
TASK = tasks.quadratics(CLIENTS, 2)
PROCESS = availability.bernoulli(CLIENTS, pi=0.5)
WORLD = turnout.World(PROCESS)
FedAvg = strategies.FedAvg
INPUTS, LABELS, OWNERS = np.zeros((10, 3), np.float32), np.arange(10) % 2, np.arange(10) % 2
HISTORY = turnout.History(
    seeds=(0,),
    rounds=2,
    evaluated=np.arange(3),
    metrics={"train_loss": np.ones((1, 3))},
    records={},
    clients={},
    params=[],
)


def train(strategy=None, world=WORLD, task=TASK, rounds=2, **more):
    return turnout.simulate(task, world, FedAvg() if strategy is None else strategy, rounds=rounds, **more)


def arrays(inputs=INPUTS, labels=LABELS, owners=OWNERS, **more):
    return tasks.from_arrays((inputs, labels, owners), model=tasks.linear(3, 2), **more)


MISTAKES = {
    "the name of a strategy": lambda: train("fedavg"),
    "the class of a strategy": lambda: train(FedAvg),
    "a process for a world": lambda: train(world=PROCESS),
    "the name of a task": lambda: train(task="quadratics"),
    "a rate for local": lambda: train(local=0.1),
    "the name of facts": lambda: train(facts="oracle"),
    "the name of uploads": lambda: train(uploads="eight_bit"),
    "no rounds": lambda: train(rounds=0),
    "half a round": lambda: train(rounds=2.5),
    "no seeds": lambda: train(seeds=0),
    "a seed twice": lambda: train(seeds=[1, 1]),
    "an unknown metric": lambda: train(metrics=["accuracy"]),
    "a world of another size": lambda: train(world=turnout.World(availability.bernoulli(5, pi=0.5))),
    "a cohort above the fleet": lambda: train(FedAvg(cohort=7)),
    "a cohort of nobody": lambda: train(FedAvg(cohort=0)),
    "the word of a rate at the server": lambda: train(learning_rate="fast"),
    "a rate above one": lambda: availability.bernoulli(CLIENTS, pi=1.2),
    "too few rates": lambda: availability.bernoulli(CLIENTS, pi=[0.5, 0.5]),
    "a rate in words": lambda: availability.bernoulli(CLIENTS, pi="half"),
    "no clients": lambda: availability.markov(0, pi=0.5, lam=0.5),
    "a correlation above one": lambda: availability.markov(CLIENTS, pi=0.5, lam=1.5),
    "a negative learning rate": lambda: turnout.Local(learning_rate=-1.0),
    "a learning rate in words": lambda: turnout.Local(learning_rate="fast"),
    "an empty batch": lambda: turnout.Local(batch_size=0),
    "a misspelt option": lambda: FedAvg(normaliser="receivedd"),
    "the name of a process": lambda: turnout.World("bernoulli"),
    "a number for links": lambda: turnout.World(PROCESS, 0.5),
    "half a step": lambda: turnout.World(PROCESS, compute=2.5),
    "links of another fleet": lambda: turnout.World(PROCESS, links.bernoulli(5, success=0.5)),
    "a success above one": lambda: links.bernoulli(CLIENTS, success=2.0),
    "negative steps": lambda: compute.fixed(CLIENTS, steps=-1),
    "a metric that was not taken": lambda: HISTORY.final("accuracy"),
    "nothing to compare": lambda: turnout.compare(TASK, WORLD, [], rounds=2),
    "names to compare": lambda: turnout.compare(TASK, WORLD, ["fedavg"], rounds=2),
    "one strategy to compare": lambda: turnout.compare(TASK, WORLD, FedAvg(), rounds=2),
    "a name to audit": lambda: turnout.audit(WORLD, "fedavg"),
    "a class to audit": lambda: turnout.audit(WORLD, FedAvg),
    "an audit of a process": lambda: turnout.audit(PROCESS, FedAvg()),
    "an audit with too few weights": lambda: turnout.audit(WORLD, FedAvg(), importance=[1.0]),
    "a log that is not there": lambda: turnout.read_log("absent.csv"),
    "a table that is not there": lambda: tasks.from_csv("absent.csv"),
    "labels that are too few": lambda: arrays(labels=LABELS[:5]),
    "a loss misspelt": lambda: arrays(loss="cross_entropie"),
    "an owner below zero": lambda: arrays(owners=OWNERS - 1),
    "numbers for the name of a discount": lambda: strategies.FedAsync(discount=np.ones(3)),
    "numbers for the name of a partition": lambda: tasks.digits(5, partition=np.ones(3)),
    "a world for the name of a partition": lambda: tasks.digits(5, partition=WORLD),
    "sizes of another fleet": lambda: compute.fixed(CLIENTS, 1, "epochs", np.ones(2, int), 2),
    "a size below zero": lambda: compute.fixed(CLIENTS, 1, "epochs", np.full(CLIENTS, -1), 2),
    "numbers for samples": lambda: tasks.from_arrays((1.0, 1.0, 1.0), model=tasks.linear(3, 2)),
    "a figure of no history": lambda: turnout.plots(WORLD),
}


def answer(mistake):
    """What was said, and the processor time that it took."""
    begun = time.process_time()
    try:
        mistake()
    except Exception as error:
        return str(error), time.process_time() - begun
    return "", 0.0


if __name__ == "__main__":
    answers = {}
    for name, mistake in MISTAKES.items():
        answer(mistake)  # imports
        answers[name] = answer(mistake)
    print(json.dumps(answers))
