"""What the tests of availability share: one example of every process, and a way to play it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import availability
from turnout.availability import ErgodicProcess

TWO_DAYS = "client_id,start_s,end_s,state\n" + "".join(
    f"{k},{3600 * k},{3600 * (k + 20)},1\n{k},{3600 * (k + 20)},172800,0\n" for k in range(10)
)


def ergodic_examples():
    # Examples of one class have one shape where they can, so that they share a compiled play.
    return {
        "bernoulli": availability.bernoulli(4, pi=[0.05, 0.3, 0.5, 1.0]),
        "markov": availability.markov(5, pi=[0.1, 0.5, 0.5, 0.9, 1.0], lam=[0.9, -1.0, 0.5, -0.1, 0.0]),
        "two_classes": availability.two_classes(5),
        "clustered": availability.clustered(7, clusters=3, pi=[0.2, 0.5, 0.8], lam=[0.7, 0.0, -0.2]),
        "finite_chain": availability.finite_chain(
            3, transition=[[0.0, 0.5, 0.5], [0.2, 0.8, 0.0], [0.9, 0.0, 0.1]], masks=[[1, 0, 1], [0, 1, 1], [1, 1, 1]]
        ),
        "separation_0": availability.minimum_separation(6, tail=1.0, batch=3),
        "separation_1": availability.minimum_separation(3, weights=[0.25, 0.25, 0.5], separation=1),
        "separation_product": availability.minimum_separation(8, tail=1.5, batch=2, separation=2),
        "separation_full": availability.minimum_separation(8, tail=1.5, batch=2, separation=3),
        "separation_groups": availability.minimum_separation(10, tail=1.5, groups=5, separation=2),
        "cyclic": availability.cyclic(6, groups=3, turn=2),
        "alternating": availability.alternating(6, t1=3, t2=1),
        "bounded_absence": availability.bounded_absence(
            6, chance=[0.0, 0.1, 0.5, 1.0, 0.3, 0.001], within=[4, 10, 3, 5, 1, 20]
        ),
    }


def other_examples(folder):
    path = folder / "two_days.csv"
    path.write_text(TWO_DAYS)
    return {
        "separation_successive": availability.minimum_separation(
            8, tail=1.5, batch=2, separation=2, sampling="successive"
        ),
        "separation_per_client": availability.minimum_separation(5, batch=2, separation=[0, 1, 2, 3, 4]),
        "diurnal": availability.diurnal(8, rounds_per_day=24, zones=4, sharpness=2.0, lam=0.6),
        "periodic": availability.periodic(4, rate=[0.1, 0.4, 0.9, 1.0], period=12, depth=0.4, cutoff=0.05),
        "trace": availability.trace(str(path), slot=600.0),
        "trace_aligned": availability.trace(str(path), slot=600.0, align=True, end="stop"),
    }


ERGODIC = list(ergodic_examples())
OTHER = ["separation_successive", "separation_per_client", "diurnal", "periodic", "trace", "trace_aligned"]


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    return ergodic_examples() | other_examples(tmp_path_factory.mktemp("traces"))


@pytest.fixture(params=ERGODIC + OTHER)
def process(request, examples):
    return examples[request.param]


@pytest.fixture(params=ERGODIC)
def ergodic(request, examples):
    assert isinstance(examples[request.param], ErgodicProcess)
    return examples[request.param]


@eqx.filter_jit
def play_all(process, keys, rounds):
    def play_one(key):
        start, steps = jr.split(key)

        def one_round(state, t):
            return process.step(state, t, jr.fold_in(steps, t))

        return jax.lax.scan(one_round, process.init(start), jnp.arange(rounds))[1]

    return jax.vmap(play_one)(keys)


@pytest.fixture(scope="session")
def play():
    """Masks of shape (seeds, rounds, clients)."""

    def masks(process, rounds, seeds=1, key=0):
        return np.asarray(play_all(process, jr.split(jr.key(key), seeds), rounds))

    return masks


@pytest.fixture(scope="session")
def played(play):
    """Masks of 1000 plays of ten 12-round periods and one round more, kept: compiling is most of the time."""
    kept = {}

    def masks(process):
        if id(process) not in kept:
            kept[id(process)] = play(process, 121, seeds=1000)
        return kept[id(process)]

    return masks


@pytest.fixture(scope="session")
def agree():
    """Check that the mean over independent plays (first axis) is what was expected, within five standard errors.

    The error is taken between plays, so correlation within a play is accounted for.
    """

    def check(samples, expected):
        samples = np.asarray(samples, np.float64)
        error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
        off = np.abs(samples.mean(axis=0) - np.asarray(expected, np.float64))
        assert (off <= 5 * error + 1e-6).all(), f"off by {off}, standard error {error}"

    return check
