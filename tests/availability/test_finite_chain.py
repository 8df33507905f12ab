import numpy as np
import pytest

from turnout.availability import finite_chain, markov
from turnout.availability.mathematics.transition import stationary_law

ON_OFF = [[1], [0]]


def test_two_states_are_a_markov_client():
    chain = finite_chain(1, transition=[[0.95, 0.05], [0.05, 0.95]], masks=ON_OFF)
    client = markov(1, pi=0.5, lam=0.9)
    assert np.allclose(chain.stationary(), client.stationary())
    assert np.allclose(chain.correlation(), client.correlation())


def test_three_states_by_hand():
    # Birth and death: law (1, 2, 1)/4; client 0 is on in the last state, from which it stays with probability 1/2.
    chain = finite_chain(
        2, transition=[[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]], masks=[[0, 1], [0, 1], [1, 1]]
    )
    assert np.allclose(chain.law, [0.25, 0.5, 0.25])
    assert np.allclose(chain.stationary(), [0.25, 1.0])
    assert np.allclose(chain.correlation(), [(0.25 * 0.5 - 0.0625) / (0.25 * 0.75), 0.0])


def test_a_periodic_chain_is_allowed(play):
    chain = finite_chain(1, transition=[[0.0, 1.0], [1.0, 0.0]], masks=ON_OFF)
    assert np.allclose(chain.stationary(), 0.5)
    assert np.allclose(chain.correlation(), -1.0)
    masks = play(chain, rounds=20)[0, :, 0]
    assert (masks[1:] != masks[:-1]).all()


def test_law_of_a_random_chain_is_left_alone_by_a_step():
    matrix = np.random.default_rng(0).dirichlet(np.full(40, 0.1), size=40)
    law = stationary_law(matrix)
    assert np.abs(law @ matrix - law).max() < 1e-15
    assert law.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("transition", "masks", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], ON_OFF, "transition row 0 sums to 0.9: every row must sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], ON_OFF, "transition row 0 has -0.5: probabilities must not be negative"),
        ([[0.5, 0.5], [0.5]], ON_OFF, r"transition has rows of \[2, 1\] entries: must be square"),
        ([], [], "must be square"),
        ([[1.0, 0.0], [0.5, 0.5]], ON_OFF, r"not irreducible, its states fall into \[\[0\], \[1\]\]"),
        ([[0.5, 0.5], [0.5, 0.5]], [[1]], "masks has 1 rows for 2 states"),
        ([[0.5, 0.5], [0.5, 0.5]], [[1], [0, 1]], "masks row 1 has 2 entries: must have one for each of the 1 clients"),
        ([[0.5, 0.5], [0.5, 0.5]], [[1], [2]], r"masks row 1 is \[2\]: must hold only 0 and 1"),
    ],
)
def test_refuses(transition, masks, message):
    with pytest.raises(ValueError, match=message):
        finite_chain(1, transition=transition, masks=masks)
