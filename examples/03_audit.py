"""Which clients would each strategy train for? Played without data or model, in seconds.

A fleet in two halves: mains-powered devices that are nearly always available, and battery-powered ones that come
for a while, stay away for long, do fewer local steps and lose every fifth upload.
"""

import turnout
from turnout import availability, compute, links, strategies

turnout.use_compilation_cache()  # keep what is compiled for the next run
HALF = 10
world = turnout.World(
    availability.markov(2 * HALF, pi=[0.9] * HALF + [0.2] * HALF, lam=0.8),
    links.bernoulli(2 * HALF, success=[1.0] * HALF + [0.8] * HALF),
    compute.per_client(2 * HALF, [5] * HALF + [2] * HALF),
)
audit = turnout.audit(
    world,
    {
        "FedAvg": strategies.FedAvg(),
        "Unbiased": strategies.Unbiased(),  # knows how often clients come, not that uploads fail
        "FedNova": strategies.FedNova(),  # corrects only for unequal work
        "FedAU": strategies.FedAU(cutoff=200.0),  # counts arrivals, so it also corrects for lost uploads
        "MIFA": strategies.MIFA(),
        "LastWord": strategies.LastWord(),  # remembers as MIFA does, per unit of work
    },
    rounds=4000,
)
print("strategy   off target   the battery half has, should have")
for entry in audit.ranked():
    share, wanted = entry.best[HALF:].sum(), entry.target[HALF:].sum()
    print(f"{entry.label:9}  {entry.total_variation:9.1%}   {share:.0%}, {wanted:.0%}")
print("The rest for FedAU and MIFA comes from unequal work: an update of two steps is shorter than one of five.")
