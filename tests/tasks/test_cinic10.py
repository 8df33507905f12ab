import importlib
import io
import tarfile

import numpy as np
import pytest
from test_png import png

from turnout.testing import check_task

cinic10 = importlib.import_module("turnout.tasks.cinic10")


@pytest.fixture
def archive(data_folder, expect):
    """Two images a class and set, some of them grey, in an order of the archive's own."""
    generator = np.random.default_rng(0)
    made, path = {}, data_folder / "CINIC-10.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for part in ("test", "train", "valid"):
            for place in generator.permutation(20).tolist():
                grey = place % 7 == 0
                image = generator.integers(0, 256, (32, 32, 1 if grey else 3), dtype=np.uint8)
                made[part, place] = np.repeat(image, 3, axis=-1) if grey else image
                content = png(image, 0 if grey else 2, (generator.integers(0, 5, 32)).tolist())
                name = f"./{part}/{cinic10.CLASSES[place // 2]}/n{place:02}.png"
                member = tarfile.TarInfo(name)
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
        file.addfile(tarfile.TarInfo("./README.md"), io.BytesIO(b""))
    expect(cinic10, path)
    return path, made


def test_images_come_class_by_class_and_are_kept_as_arrays(archive):
    path, made = archive
    first = cinic10.load()
    path.write_bytes(b"")  # not read again
    again = cinic10.load()
    for sets in (first, again):
        for part, images in zip(("train", "valid", "test"), sets, strict=True):
            np.testing.assert_array_equal(images.pixels, np.stack([made[part, place] for place in range(20)]))
            np.testing.assert_array_equal(images.labels, np.arange(20) // 2)


def test_the_task_validates_on_the_set_made_for_it(archive):
    task = cinic10.cinic10(num_clients=3, min_size=2, partition="iid", model="linear")
    assert [int(split.sizes.sum()) for split in (task.train, task.validation, task.test)] == [20, 20, 20]
    check_task(task)


def test_a_damaged_archive_is_told_and_nothing_is_kept(archive, expect):
    path, _ = archive
    path.write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(ValueError, match=r"CINIC-10.tar.gz is damaged .*the sha256 of what it holds"):
        cinic10.load()
    expect(cinic10, path)  # as if it had been so in the first place
    with pytest.raises(ValueError, match=r"CINIC-10.tar.gz is damaged"):
        cinic10.load()
    assert [file.name for file in path.parent.iterdir()] == ["CINIC-10.tar.gz"]


def test_a_missing_archive_says_both_ways(data_folder):
    with pytest.raises(
        FileNotFoundError, match=r"CINIC-10.tar.gz is missing .*set TURNOUT_DATA .*turnout.tasks.cinic10"
    ):
        cinic10.cinic10()
