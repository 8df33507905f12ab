"""What it costs to simulate time: per client that trains, beside rounds; and a tick in which nothing is due.

    python benchmarks/slow_clients.py [--clients 100] [--repeats 5] [--idle | --training]

Linear models, five steps of batch 32. Rounds are those of a world without durations, with all clients. Times are those
of the processor over all threads, which a busy machine changes less than the wall's clock: a long run less a short one,
so that calls and rehearsals do not count, and the least of several repeats, which are taken in turn. `ratio` is to
rounds, per client that trains.

The second table has work of 1,000 ticks, so that in all but a few ticks nobody starts or answers, and the draws of the
same world without a server.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import turnout
from turnout import availability, durations, strategies, tasks
from turnout.simulator.loop import count_crowd

COUNT, MEDIAN, SIGMA, LONGEST = 100, 4.0, 1.0, 20
LONG = 1000  # ticks of the second table's work
MANY, FEW = 1000, 550  # ticks of the first table's runs; both are rehearsed over 1,024
LOCAL = turnout.Local(learning_rate=0.005, batch_size=32)
BOTH = strategies.FedAvg(), strategies.LastWord()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=COUNT)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--idle", action="store_true", help="the second table alone")
    parser.add_argument("--training", action="store_true", help="the first table alone")
    given = parser.parse_args()
    if not given.idle:
        clients_that_train(given.clients, given.repeats)
    if not given.training:
        idle_ticks(given.clients, given.repeats)


def clients_that_train(count: int, repeats: int) -> None:
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
    taken: dict[tuple[str, str], list[np.ndarray]] = {}
    for turn in range(repeats + 1):
        for name, (pace, lasting) in settings.items():
            world = turnout.World(here, durations=lasting)
            for strategy in BOTH:
                runs = []
                for ticks in (MANY, FEW):
                    began = time.process_time()
                    options = dict(rounds=ticks, local=LOCAL, pace=pace, evaluate_every=ticks)
                    run = turnout.simulate(task, world, strategy, **options)
                    trained = run.records["used" if "used" in run.records else "cohort"].sum()
                    runs.append((time.process_time() - began, float(trained)))
                if turn:  # the first compiles
                    taken.setdefault((name, type(strategy).__name__), []).append(np.array(runs))
    print(f"{'cpu':42}{'µs per tick':>12}{'clients':>9}{'µs per client':>15}{'ratio':>8}")
    of_rounds = {}
    for (name, strategy), repeated in taken.items():
        seconds, trained = -np.diff(np.min(repeated, axis=0), axis=0)[0]
        each = seconds / trained
        ratio = each / of_rounds.setdefault(strategy, each)
        per_tick = 1e6 * seconds / (MANY - FEW)
        print(f"{name:32}{strategy:10}{per_tick:12.1f}{trained / (MANY - FEW):9.1f}{1e6 * each:15.1f}{ratio:8.2f}")


def idle_ticks(count: int, repeats: int) -> None:
    """Microseconds of the processor per tick, with models of two sizes: the longer of two runs less the shorter."""
    world = turnout.World(availability.bernoulli(count, 0.9), durations=durations.fixed(count, LONG))
    draws, ticks = eqx.filter_jit(count_crowd), 40 * LONG
    alone = min(_processor(lambda: jax.block_until_ready(draws(world, jr.key(0), jnp.int32(ticks)))) for _ in range(3))
    print(f"\n{'cpu per idle tick, µs: the world alone':62}{1e6 * alone / ticks:9.1f}")
    short, long = 2 * LONG + 100, 4 * LONG  # rehearsed over equally many ticks
    for features in (60, 2000):
        task = tasks.synthetic_leaf(num_clients=count, num_features=features, samples_per_client=20)
        for pace in (turnout.Buffered(10), turnout.Clocked(LONG)):
            for strategy in BOTH:

                def play(ticks: int, task=task, pace=pace, strategy=strategy) -> float:
                    options = dict(rounds=ticks, local=LOCAL, pace=pace, evaluate_every=ticks)
                    return _processor(lambda: turnout.simulate(task, world, strategy, **options))

                least = np.min([(play(long), play(short)) for _ in range(repeats)], axis=0)
                name = f"{pace} {type(strategy).__name__}, {10 * (features + 1):,} numbers"
                print(f"{name:62}{1e6 * (least[0] - least[1]) / (long - short):9.1f}", flush=True)


def _processor(call) -> float:
    call()
    began = time.process_time()
    call()
    return time.process_time() - began


if __name__ == "__main__":
    main()
