import numpy as np
import pytest

from turnout.availability import clustered


def test_a_cluster_moves_as_one(played, examples):
    masks = played(examples["clustered"])  # seven clients in clusters of three, two and two
    assert (masks[..., [0, 1]] == masks[..., [1, 2]]).all()
    assert (masks[..., 3] == masks[..., 4]).all()
    assert (masks[..., 5] == masks[..., 6]).all()


def test_clusters_are_independent(played, examples, agree):
    masks = played(examples["clustered"])
    agree((masks[..., 0] & masks[..., 3]).mean(axis=1), 0.2 * 0.5)


def test_assignment_by_client():
    process = clustered(4, clusters=[1, 0, 1, 0], pi=[0.2, 0.8], lam=[0.0, 0.5])
    assert np.allclose(process.stationary(), [0.8, 0.2, 0.8, 0.2])
    assert np.allclose(process.correlation(), [0.5, 0.0, 0.5, 0.0], atol=1e-6)


def test_the_clusters_of_the_paper():
    process = clustered(100, clusters=10, pi=[0.9] * 5 + [0.1] * 5, lam=[0.0] * 5 + [0.5, 0.6, 0.7, 0.8, 0.9])
    assert np.bincount(process.cluster).tolist() == [10] * 10
    assert np.allclose(process.correlation()[90:], 0.9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clusters": 5, "pi": 0.5}, "clusters = 5 for 4 clients: some groups would be empty"),
        ({"clusters": 0, "pi": 0.5}, "clusters must be a whole number of 1 or more, not 0"),
        ({"clusters": [0, 2, 0, 2], "pi": 0.5}, "no client is in group 1, but one is in 2"),
        ({"clusters": [0, 1, 0], "pi": 0.5}, "clusters has 3 values for 4 clients"),
        ({"clusters": [0, 1, 0, -1], "pi": 0.5}, "client 3 has clusters = -1"),
        ({"clusters": 2, "pi": [0.5, 0.5, 0.5]}, "pi has 3 values for 2 clusters"),
        ({"clusters": 2, "pi": [0.5, 0.9], "lam": -0.5}, r"cluster 1 has lam = -0.5 with pi = 0.9.*\[-0.1111, 1\)"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        clustered(4, **arguments)
