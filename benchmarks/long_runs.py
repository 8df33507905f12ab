"""How far sums that are kept by differences drift in 32 bits, over up to 100,000 rounds.

    python benchmarks/long_runs.py                                # two seeds, some minutes
    python benchmarks/long_runs.py --rounds 1000 10000 --seeds 1
    python benchmarks/long_runs.py --only SCAFFOLD

A hundred clients, of which each is there in a tenth of the rounds, send vectors of 50 numbers about a mean of their
own. Printed is |S - Σ w_k y_k| in units of Σ w_k |y_k|: S as the server has it in 32 bits, y_k as the server's rows or
the clients have them, summed in 64 bits. Sums of the server's own rows are made anew every 1,000 rounds; those of
clients' rows cannot be.
"""

from __future__ import annotations

import argparse
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.strategies import FOCUS, MIFA, SCAFFOLD, FedDyn, FedVARP, LastWord, Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Sums, Words
from turnout.types import Fleet, Known, Reports, Work

CLIENTS, DIMENSION, RATE, SHARE = 100, 50, 0.1, 0.1
ROUNDS, SEEDS = (1_000, 10_000, 100_000), 2
STRATEGIES: dict[str, Strategy[Any]] = {
    "MIFA": MIFA(),
    "FedVARP": FedVARP(),
    "LastWord": LastWord(),
    "MIFA, on clients": MIFA(memory="clients"),
    "LastWord, on clients": LastWord(memory="clients"),
    "SCAFFOLD": SCAFFOLD(),
    "FOCUS": FOCUS(),
    "FedDyn": FedDyn(),
}


def drifts(strategy: Strategy[Any], rounds: tuple[int, ...], seed: int) -> list[float]:
    """How far the sum is from its words after so many rounds, in units of the length of all words."""
    ones, side = jnp.ones(CLIENTS), strategy.client_side or ClientSide()
    server = Server.of(Fleet(ones), strategy, ServerSettings(), CLIENTS)
    params = jnp.zeros(DIMENSION)
    own = jr.normal(jr.key(seed), (CLIENTS, DIMENSION))  # what the client's vectors are about
    none = jax.vmap(lambda _: side.init(params))(ones)

    def one_round(carry: Any, t: Any) -> tuple[Any, None]:
        state, kept = carry
        noise, who, lot = jr.split(jr.fold_in(jr.key(seed), t), 3)
        available = jr.uniform(who, (CLIENTS,)) < SHARE
        view = server.view(state, t, available, RATE, Known(ones, ones, ones, ones), None)
        cohort, state = server.ask(state, view, lot)
        rows, gradients = cohort.read(kept), cohort.take(own) + jr.normal(noise, own.shape)
        shared = strategy.shared(state.strategy, view)

        def client(row: Any, gradient: jax.Array) -> Any:
            one, now = jnp.ones(()), jnp.asarray(t, jnp.float32)
            work = Work(-RATE * gradient, RATE * one, one, now, shared, gradient, gradient)
            sent = side.say(row, work)
            return sent, side.keep(row, work, sent)

        sent, after = jax.vmap(client)(rows, gradients)
        cohort = server.admit(state, view, cohort, ones, lot)
        cohort = eqx.tree_at(lambda cohort: cohort.arrived, cohort, cohort.uploading)
        reports = Reports.of(cohort, sent, ones, ones)
        kept = cohort.write(kept, rows, after, cohort.arrived)
        return (server.close(state, view, cohort, reports, Tally.empty(CLIENTS)).state, kept), None

    @eqx.filter_jit
    def play(carry: Any, first: jax.Array, count: int) -> Any:
        return jax.lax.scan(one_round, carry, first + jnp.arange(count))[0]

    carry, done, found = (server.init(params), none), 0, []
    for number in rounds:
        carry = play(carry, jnp.asarray(done), number - done)
        done = number
        found.append(drift(carry[0].strategy, carry[1], side))
    return found


def drift(state: Any, kept: Any, side: ClientSide[Any]) -> float:
    words: Words | Sums = state if isinstance(state, Words) else state.words
    if isinstance(words, Sums):  # clients weigh their words themselves, and take along just what is in the sum
        held, counts = -jax.vmap(side.goodbye)(kept).update, np.ones(CLIENTS)
    else:
        held, counts = getattr(kept, "word", kept) if words.rows is None else words.rows, words.weight
    rows, weight = np.asarray(held, np.float64), np.asarray(counts, np.float64)
    gap = np.asarray(words.total, np.float64) - weight @ rows
    return float(np.linalg.norm(gap) / (weight @ np.linalg.norm(rows, axis=1)))


def main() -> None:
    parser = argparse.ArgumentParser(description="How far do sums that are kept by differences drift?")
    parser.add_argument("--rounds", type=int, nargs="+", default=ROUNDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", choices=tuple(STRATEGIES))
    options = parser.parse_args()
    rounds = tuple(sorted(options.rounds))
    print(f"{'':24}{'seed':>4}" + "".join(f"{number:>12,}" for number in rounds) + " rounds")
    for name, strategy in STRATEGIES.items():
        for seed in range(options.seeds if options.only in (None, name) else 0):
            found = drifts(strategy, rounds, seed)
            print(f"{name:24}{seed:4}" + "".join(f"{number:12.1e}" for number in found), flush=True)


if __name__ == "__main__":
    main()
