"""What it costs to simulate time: per client that trains, beside rounds; and a tick in which nothing is due.

    python benchmarks/slow_clients.py [--clients 100] [--ticks 600] [--repeats 5]

Linear models, five steps of batch 32. Rounds are those of a world without durations, with all clients. Each line is the
least of several repeats, which are taken in turn, since machines are noisy. `cpu` is the processor's time of whole
calls, over all threads, which a busy machine changes less than the wall's clock; ratios are to rounds, per client that
trains.

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
LOCAL = turnout.Local(learning_rate=0.005, batch_size=32)
BOTH = strategies.FedAvg(), strategies.LastWord()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=COUNT)
    parser.add_argument("--ticks", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    clients_that_train(given.clients, given.ticks, given.repeats)
    idle_ticks(given.clients, given.repeats)


def clients_that_train(count: int, ticks: int, repeats: int) -> None:
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
    best: dict[tuple[str, str], np.ndarray] = {}
    for turn in range(repeats + 1):
        for name, (pace, lasting) in settings.items():
            world = turnout.World(here, durations=lasting)
            for strategy in BOTH:
                began = time.process_time()
                run = turnout.simulate(
                    task, world, strategy, rounds=ticks, local=LOCAL, pace=pace, evaluate_every=ticks
                )
                taken = np.array([run.seconds, time.process_time() - began])
                trained = float(run.records["used" if "used" in run.records else "cohort"].sum())
                key = (name, type(strategy).__name__)
                if turn:  # the first compiles
                    best[key] = np.minimum(best.get(key, np.inf), [*taken, trained])
    head = f"{'ms per tick':>12}{'clients':>9}{'µs per client':>15}{'cpu':>9}{'ratio':>8}{'of cpu':>8}"
    print(f"{'':32}{'':10}{head}")
    for (name, strategy), (seconds, processor, trained) in best.items():
        rounds = best["rounds, no durations", strategy]
        each, of_rounds = np.array([seconds, processor]) / trained, rounds[:2] / rounds[2]
        ratio = each / of_rounds
        print(
            f"{name:32}{strategy:10}{1e3 * seconds / ticks:12.3f}{trained / ticks:9.1f}{1e6 * each[0]:15.1f}"
            f"{1e6 * each[1]:9.1f}{ratio[0]:8.2f}{ratio[1]:8.2f}"
        )


def idle_ticks(count: int, repeats: int) -> None:
    """Microseconds of the processor per tick, with models of two sizes: the longer of two runs less the shorter."""
    here, long = availability.bernoulli(count, 0.9), durations.fixed(count, LONG)
    world = turnout.World(here, durations=long)
    draws = eqx.filter_jit(count_crowd)
    ticks = 40 * LONG
    alone = min(_processor(lambda: jax.block_until_ready(draws(world, jr.key(0), jnp.int32(ticks)))) for _ in range(3))
    print(f"\n{'cpu per idle tick, µs':42}{'the world alone':>18}{1e6 * alone / ticks:9.1f}")
    for features in (60, 2000):
        task = tasks.synthetic_leaf(num_clients=count, num_features=features, samples_per_client=20)
        for pace in (turnout.Buffered(10), turnout.Buffered(10, count // 2), turnout.Clocked(LONG)):
            for strategy in BOTH:

                def play(ticks: int, task=task, pace=pace, strategy=strategy) -> None:
                    turnout.simulate(task, world, strategy, rounds=ticks, local=LOCAL, pace=pace, evaluate_every=ticks)

                play(4 * LONG)
                play(2 * LONG)
                taken = [
                    [_processor(lambda many=many: play(many)) for many in (4 * LONG, 2 * LONG)] for _ in range(repeats)
                ]
                least = np.min(taken, axis=0)
                name = f"{pace} {type(strategy).__name__}, {10 * (features + 1):,} numbers"
                print(f"{name:60}{1e6 * (least[0] - least[1]) / (2 * LONG):9.1f}", flush=True)


def _processor(call) -> float:
    call()
    began = time.process_time()
    call()
    return time.process_time() - began


if __name__ == "__main__":
    main()
