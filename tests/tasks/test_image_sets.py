import copy

import numpy as np
import pytest

from turnout.tasks.data.image_task import Colours, ImageOptions, Images, image_task

GREY = Colours((0.5,), (0.25,))
OPTIONS = ImageOptions(num_clients=5, partition="iid", min_size=2, hidden=(), ridge=0.0, pixels="unit")


def options_with(**changes):
    """Also such that the checks of types would refuse, which are on in tests only."""
    options = copy.copy(OPTIONS)
    for name, value in changes.items():
        object.__setattr__(options, name, value)
    return options


def some_images(count, classes=4, seed=0):
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (count, 6, 6), dtype=np.uint8)
    return Images(pixels, generator.permutation(np.arange(count) % classes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition": "by_hand"}, "partition is 'by_hand'; it must be one of iid, dirichlet, one_class_a_client"),
        ({"test_set": "all"}, "test_set is 'all'; it must be 'by_client' or 'common'"),
        ({"groups": "thirds", "swapped_pairs": 1}, "groups is 'thirds'; it must be 'random' or 'halves'"),
        ({"num_images": 0}, "num_images is 0; there are 100"),
        ({"shrink": 4}, "shrink is 4; it must divide 6 and 6"),
        ({"clusters": 2}, "clusters is 2; it must be a divisor of the 5 clients"),
        ({"swapped_pairs": 3}, "3 disjoint pairs were asked of 4 classes"),
        ({"pixels": "raw"}, "pixels is 'raw'; it must be 'standard'"),
        ({"model": "cnn"}, "model is 'cnn'; it must be one of linear, mlp, mlp_batch_norm, mlp_debiased, cnn_ca_fed"),
        ({"model": "cnn_ca_fed"}, "a convolution of size 5 does not fit into an image of 1 × 1"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        image_task(some_images(100), some_images(20), options_with(**changes), GREY)


def test_shrunk_images_have_the_means_of_squares():
    train, test = some_images(40), some_images(20, seed=1)
    task = image_task(train, test, options_with(shrink=3, validation=0.0), GREY)
    means = np.asarray(train.pixels, np.float64).reshape(40, 2, 3, 2, 3).mean(axis=(2, 4))
    found = np.asarray(task.train.inputs)[np.asarray(task.train.rows)]
    np.testing.assert_allclose(np.sort(found.reshape(40, 4), axis=0), np.sort(means.reshape(40, 4), axis=0), atol=0.5)


def test_clients_of_a_cluster_share_its_law():
    options = options_with(num_clients=8, partition="one_class_a_client", clusters=4, validation=0.0)
    task = image_task(some_images(96), some_images(20), options, GREY)
    classes = [set(task.train.labels[task.train.owners == client].tolist()) for client in range(8)]
    assert classes == [{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}]
    assert task.sizes.tolist() == [12] * 8


def test_a_validation_set_of_its_own_takes_the_place_of_a_share():
    train, test, validation = (some_images(count, seed=count) for count in (100, 20, 30))
    task = image_task(train, test, OPTIONS, GREY, validation)
    assert [int(split.sizes.sum()) for split in (task.train, task.validation, task.test)] == [100, 30, 20]
    held = np.asarray(task.validation.inputs)[np.asarray(task.validation.rows)]
    assert sorted(map(bytes, held)) == sorted(map(bytes, validation.pixels))


def test_pixels_are_read_channel_by_channel():
    scale, shift = Colours((0.25, 0.5), (0.5, 0.125)).reading("standard")
    np.testing.assert_allclose(np.array([255, 0]) * scale + shift, [1.5, -4.0])
    assert GREY.reading("unit") == (1 / 255, 0.0)
    assert GREY.reading("standard") == ((1 / (255 * 0.25),), (-2.0,))
