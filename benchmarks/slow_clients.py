"""What it costs to simulate time: milliseconds per tick and per client that trains, beside rounds, in one run.

    python benchmarks/slow_clients.py [--clients 100] [--ticks 600] [--repeats 5]

Linear models, five steps of batch 32. Rounds are those of a world without durations, with all clients and with few.
Each line is the fastest of several repeats, which are taken in turn, since machines are noisy. The last column compares
with rounds of all clients, per client that trains.
"""

import argparse

import numpy as np

import turnout
from turnout import availability, durations, strategies, tasks

COUNT, MEDIAN, SIGMA, LONGEST = 100, 4.0, 1.0, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=COUNT)
    parser.add_argument("--ticks", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    count = given.clients
    task = tasks.synthetic_leaf(num_clients=count)
    here = availability.bernoulli(count, 0.9)
    slow = durations.drawn(count, MEDIAN, SIGMA, 1, LONGEST)
    settings = {
        "rounds, no durations": (None, None),
        "rounds, all answer": (turnout.Rounds(), slow),
        "rounds, first half, late kept": (turnout.Rounds(quorum=0.5, late="keep"), slow),
        "buffer of 10": (turnout.Buffered(10), slow),
        "buffer of 10, 50 at work": (turnout.Buffered(10, 50), slow),
        "every 5 ticks": (turnout.Clocked(5), slow),
    }
    best: dict[tuple[str, str], tuple[float, float]] = {}
    local = turnout.Local(learning_rate=0.005, batch_size=32)
    for _ in range(given.repeats):
        for name, (pace, lasting) in settings.items():
            world = turnout.World(here, durations=lasting)
            for strategy in (strategies.FedAvg(), strategies.LastWord()):
                run = turnout.simulate(
                    task, world, strategy, rounds=given.ticks, local=local, pace=pace, evaluate_every=given.ticks
                )
                trained = run.records["used" if "used" in run.records else "cohort"].sum()
                key = (name, type(strategy).__name__)
                best[key] = min(best.get(key, (np.inf, 0.0)), (run.seconds, float(trained)))
    print(f"{'':32}{'':10}{'ms per tick':>12}{'clients':>9}{'µs per client':>15}{'ratio':>7}")
    for (name, strategy), (seconds, trained) in best.items():
        each = seconds / trained
        rounds, all_trained = best["rounds, no durations", strategy]
        ratio = each / (rounds / all_trained)
        print(
            f"{name:32}{strategy:10}{1e3 * seconds / given.ticks:12.3f}{trained / given.ticks:9.1f}"
            f"{1e6 * each:15.1f}{ratio:7.2f}"
        )


if __name__ == "__main__":
    main()
