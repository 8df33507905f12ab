import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg
from turnout.tasks import Augment, from_arrays, linear
from turnout.testing import check_task
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import read_part

IMAGES = jr.normal(jr.key(0), (64, 5, 4, 3))
BLACK = (-1.0, -2.0, -3.0)


def every_crop(image, border):
    """All that can come of an image, mirrored or not, with the place of each."""
    for mirrored in (False, True):
        given = np.asarray(image)[:, ::-1] if mirrored else np.asarray(image)
        padded = np.broadcast_to(np.float32(BLACK), (5 + 2 * border, 4 + 2 * border, 3)).copy()
        padded[border : border + 5, border : border + 4] = given
        for y in range(2 * border + 1):
            for x in range(2 * border + 1):
                yield (mirrored, y, x), padded[y : y + 5, x : x + 4]


@pytest.mark.parametrize("images", [IMAGES, IMAGES[..., 0]], ids=["colours", "grey"])
def test_every_sample_is_cropped_and_mirrored_by_itself(images):
    augment, colours = Augment(crop=2), images.ndim == 4
    black = BLACK if colours else -1.0
    found = np.asarray(jax.jit(lambda seed: augment.apply(images, black, seed))(jnp.uint32(7)))
    assert found.shape == images.shape
    places = []
    for image, outcome in zip(IMAGES, found, strict=True):
        crops = ((place, crop if colours else crop[..., 0]) for place, crop in every_crop(image, 2))
        places.append(next(place for place, crop in crops if np.allclose(crop, outcome, atol=1e-5)))
    mirrored, down, across = (np.array(column) for column in zip(*places, strict=True))
    assert 20 <= mirrored.sum() <= 44
    assert set(down) == set(across) == set(range(5))
    assert abs(np.corrcoef(down, across)[0, 1]) < 0.5
    again, other = (np.asarray(augment.apply(images, black, jnp.uint32(seed))) for seed in (7, 8))
    np.testing.assert_allclose(again, found, atol=1e-6)
    assert not np.allclose(other, found)


def test_each_part_can_be_left_out():
    np.testing.assert_array_equal(Augment(crop=0, flip=False).apply(IMAGES, BLACK, jnp.uint32(1)), IMAGES)
    flipped = np.asarray(Augment(crop=0).apply(IMAGES, BLACK, jnp.uint32(1)))
    either = [
        np.array_equal(one, image) or np.array_equal(one, image[:, ::-1])
        for one, image in zip(flipped, IMAGES, strict=True)
    ]
    assert all(either)
    halves = IMAGES.astype(jnp.bfloat16)
    assert Augment().apply(halves, BLACK, jnp.uint32(1)).dtype == jnp.bfloat16


BYTES = np.random.default_rng(0).integers(0, 256, (60, 6, 6)).astype(np.uint8)


def test_clients_train_on_augmented_images_and_evaluations_see_them_as_they_are():
    samples = BYTES, np.arange(60) % 3, np.arange(60) % 4
    plain, augmented = (
        from_arrays(samples, model=linear(36, 3), augment=augment, validation_share=0.0)
        for augment in (None, Augment(2))
    )
    check_task(augmented)
    params = jax.tree.map(lambda leaf: leaf + jr.normal(jr.key(1), leaf.shape), plain.init(jr.key(0)))
    batch, present = plain.batch(jnp.int32(0), jnp.arange(8)), jnp.ones(8)
    assert augmented.loss(params, batch, present) == plain.loss(params, batch, present)
    noisy = [float(augmented.training_loss(params, batch, present, jnp.uint32(seed))) for seed in (1, 2)]
    assert len({*noisy, float(plain.training_loss(params, batch, present, jnp.uint32(1)))}) == 3
    world, local = World(availability.bernoulli(4, 0.7), compute=2), Local(learning_rate=0.1, batch_size=4)
    runs = [
        simulate(task, world, FedAvg(), rounds=3, seeds=1, local=local).final("train_loss")
        for task in (plain, augmented)
    ]
    assert np.isfinite(runs).all()
    assert runs[0] != runs[1]
    with pytest.raises(ValueError, match=r"augment is for images, .* inputs are \(36,\)"):
        from_arrays((BYTES.reshape(60, 36), *samples[1:]), model=linear(36, 3), augment=Augment())


def test_experiments_give_it_as_a_table():
    part = read_part("tasks", {"name": "mnist", "augment": {"crop": [0, 2]}}, "task")
    assert list(part.axes()) == [(("augment", "crop"), [0, 2])]
    assert part.arguments["augment"] == {"crop": [0, 2], "flip": True}
    assert "augment" not in read_part("tasks", {"name": "mnist"}, "task").arguments
    with pytest.raises(ExperimentError, match="augment"):
        read_part("tasks", {"name": "mnist", "augment": {"crp": 2}}, "task")
    with pytest.raises(ExperimentError, match="expected a table with some of crop, flip"):
        read_part("tasks", {"name": "mnist", "augment": True}, "task")
