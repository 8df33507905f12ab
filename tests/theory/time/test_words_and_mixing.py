import numpy as np
import pytest
from played_in_ticks import Buffered, play
from random_worlds import clients_of_the_page, random_world

from turnout.theory import buffered_arrivals, fedasync_model, word_ages


@pytest.mark.parametrize(("seed", "cap", "leaving"), [(1, None, "continue"), (2, 15, "pause"), (3, None, "abort")])
def test_ages_of_words_as_played(seed, cap, leaving):
    pi, lam, table = random_world(seed, 30, longest=5 if leaving == "abort" else 15)
    mean, square = word_ages(buffered_arrivals(pi, lam, table, size=3, concurrency=cap, leaving=leaving))
    played = play(Buffered(3, cap), pi, lam, table, leaving, ticks=2500, settle=600)
    ticks = played.ticks * len(played.word)
    assert mean.mean() == pytest.approx(played.word.sum() / ticks / 30, rel=0.03 if leaving != "abort" else 0.06)
    assert square.mean() == pytest.approx(
        played.word_square.sum() / ticks / 30, rel=0.1 if leaving != "abort" else 0.25
    )


def test_words_of_who_is_always_there_are_between_d_and_2d_old():
    """With a buffer of one: d ticks old when used, and then 0 … d more: mean 3/2 d, mean square about 7/3 d²."""
    durations = np.array([10, 20, 40])
    mean, square = word_ages(buffered_arrivals(1.0, 0.0, durations, size=1))
    assert mean == pytest.approx(1.5 * durations, rel=3e-3)
    assert square == pytest.approx(7 / 3 * durations**2 + durations / 6, rel=1e-2)


def test_words_of_large_buffers_are_refused():
    pi, lam, table = random_world(1, 10)
    with pytest.raises(ValueError, match="at most a sixth of the clients"):
        word_ages(buffered_arrivals(pi, lam, table, size=5))


def played_model(durations, cap, mixing, exponent, ticks, settle=500, seed=0):
    """FedAsync with models that are vectors of every client's share, all updates being unit vectors."""
    draw, count = np.random.default_rng(seed), durations.size
    model, moved = np.zeros(count), np.zeros(count)
    starts, left, version = np.zeros((count, count)), np.zeros(count, int), np.zeros(count, int)
    working, steps, mixes, begun = np.zeros(count, bool), 0, [], 0.0
    for tick in range(ticks):
        if tick == settle:
            mixes, begun = [], model.sum()
        idle = draw.permutation(np.flatnonzero(~working))[: cap - int(working.sum())]
        working[idle], left[idle], version[idle], starts[idle] = True, durations[idle] + 1, steps, model
        left[working] -= 1
        here = np.flatnonzero(working & (left == 0))
        if here.size:
            share = mixing * (1.0 + steps - version[here]) ** -exponent
            mixes.extend(share)
            share *= (1 - np.prod(1 - share)) / share.sum()  # several in a tick share one mix
            target = starts[here] + np.eye(count)[here]
            model = (1 - share.sum()) * model + share @ target
            working[here] = False
            steps += 1
        if tick >= settle:
            moved = model
    return moved, (moved.sum() - begun) / np.sum(mixes)


def test_fedasync_damps_itself():
    """An update moves the model twelve times less than its mixing rate says, with 50 clients of the page at work."""
    durations, _ = clients_of_the_page()
    found = fedasync_model(buffered_arrivals(1.0, 0.0, durations, size=1, concurrency=50, exponent=0.5), 0.6)
    assert found.damping == pytest.approx(1 / 12, rel=0.02)
    model, damping = played_model(durations, 50, 0.6, 0.5, ticks=6000)
    assert damping == pytest.approx(found.damping, rel=0.05)
    share = model / model.sum()
    assert 0.5 * np.abs(share - found.weights).sum() < 0.05


def test_fedasync_by_hand():
    """One client that is always there: it starts from the model that it updates, age 0, and is never pulled back."""
    arrivals = buffered_arrivals(1.0, 0.0, [3], size=1, exponent=0.5)
    found = fedasync_model(arrivals, 0.5)
    assert found.weights == pytest.approx([1])
    assert found.mixing == pytest.approx(0.5)
    assert found.held == pytest.approx(3)
    assert found.damping == pytest.approx(1 / (1 + 0.25 * 0.5 * 3), rel=1e-3)
    for mixing in (0.0, 1.5):
        with pytest.raises(ValueError, match=r"mixing (=|must be)"):
            fedasync_model(arrivals, mixing)
