"""FEMNIST: handwritten digits and letters, one writer per client, 62 classes (LEAF, Caldas et al. 2018)."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from turnout.declarations import Count, NotNegative, Seed, Share, checked
from turnout.files.downloads import Remote, given, local_copy
from turnout.files.integrity import keep_npz, read_members, read_npz, reading, verify, verify_file
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.augmentation import Augment
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.image_task import Colours, Pixels, smaller
from turnout.tasks.data.partition import TEST, by_id, divide, names_of
from turnout.tasks.models.adapters import Adapt, on_base
from turnout.tasks.models.networks import ModelName, model_named

COLOURS = Colours((0.9612,), (0.1655,))  # of the sample of 105 writers: dark on white
NUM_CLASSES, NUM_DIGITS = 62, 10
SAMPLE = "femnist_leaf_sample.npz"
SAMPLE_CHECKSUMS = (
    "sha256:9a2f24152bdcac6140ff26374153bc16e710b32066d66a48ea8c8193175a91ad",
    "sha256:8b7a8891eff92f21cf7284abba5ab0ef4fb13362f724fb17f24f1acf72f986d1",
    "sha256:d12332a12017fe727a0b3ed643b6365f1753452b0bbdd70cf5aa01eb2511dd47",
    "sha256:a6f028474962b36b3d0cca73e7f71c72434f37bc3a8e3dc1d62d6ea31d0ca2e5",
)
FOLDER = "femnist"  # with the folders train and test that LEAF's own script writes
CONVERTED = "femnist.npz"
ARCHIVE = Remote(  # 3,400 writers, LEAF's data as TensorFlow Federated packs them
    "fed_emnist.tar.bz2",
    "sha256:fe1ed5a502cea3a952eb105920bff8cffb32836b5173cb18a57a32c3606f3ea0",
    (
        "https://storage.googleapis.com/tff-datasets-public/fed_emnist.tar.bz2",
        "https://fedml.s3-us-west-1.amazonaws.com/fed_emnist.tar.bz2",
    ),
)
SIDE = 28


class Writing(NamedTuple):
    """Images as bytes, white being 255, with class, writer, and whether LEAF tests on them (1) or not (0)."""

    images: np.ndarray
    labels: np.ndarray
    writer: np.ndarray
    split: np.ndarray


# Long: a third of it are its options.
@checked
def femnist(  # noqa: PLR0913 (the keys of a task's table)
    num_clients: Count | None = None,
    min_size: Count = 10,
    classes: Literal["all", "digits"] = "all",
    model: ModelName = "linear",
    hidden: Sequence[int] = (200, 200),
    ridge: NotNegative = 0.01,
    importance: Literal["size", "uniform"] = "size",
    validation: Share = 0.2,
    pixels: Pixels = "standard",
    shrink: Count = 1,
    seed: Seed = 0,
    augment: Augment | None = None,
    adapt: Adapt | None = None,
) -> DataTask:
    """Classify characters, with one writer per client and LEAF's own split into training and test images.

    Writers with fewer than `min_size` training images are left out; of the others `num_clients` are drawn, all if not
    given. The data have 105 writers if only LEAF's sample is at hand, 3,400 when downloaded.
    """
    written = of_classes(load(), classes)
    trained = written.split == 0
    chosen = by_id(written.writer[trained], num_clients, min_size, seed)
    numbers = np.full(int(written.writer.max()) + 1, -1, np.int64)
    numbers[written.writer[trained]] = chosen
    owners = numbers[written.writer]
    (kept,) = np.nonzero(owners >= 0)
    images, labels, _, split = (array[kept] for array in written)
    images = smaller(images, shrink)
    parts = np.full(kept.size, TEST, np.int8)
    parts[split == 0] = divide(owners[kept][split == 0], validation, 0.0, seed)
    scale, shift = COLOURS.reading(pixels)
    num_classes = NUM_DIGITS if classes == "digits" else NUM_CLASSES
    return from_pool(
        images,
        labels.astype(np.int64),
        owners[kept],
        parts,
        model=on_base(model_named(model, images.shape[1:], num_classes, tuple(hidden)), adapt),
        ridge=ridge,
        importance=importance,
        scale=scale,
        shift=shift,
        names=names_of(written.writer, owners),
        augment=augment,
    )


def of_classes(written: Writing, classes: str) -> Writing:
    if classes == "all":
        return written
    if classes != "digits":
        raise ValueError(f"classes is {classes!r}; it must be 'all' or 'digits'")
    return Writing(*(array[written.labels < NUM_DIGITS] for array in written))


def load() -> Writing:
    """All writers of TURNOUT_DATA: arrays, LEAF's folders or the archive, its sample at least; or else downloaded."""
    if (path := given(CONVERTED)) is not None:
        return read_arrays(path)
    if (path := given(FOLDER)) is not None:
        return gather_pages(read_leaf(path))
    if (path := given(SAMPLE)) is not None and given(ARCHIVE.path) is None:
        written = read_arrays(path)
        with reading(path):
            for array, checksum in zip(written, SAMPLE_CHECKSUMS, strict=True):
                verify(array, checksum)
        return written
    archive = local_copy(ARCHIVE, __name__)
    converted = archive.with_name(CONVERTED)
    return read_arrays(converted) if converted.exists() else convert(archive, converted)


def read_arrays(path: Path) -> Writing:
    """Writing from an npz file."""
    with reading(path):
        written = Writing(*read_npz(path, Writing._fields))
        count = written.labels.size
        if written.images.shape != (count, SIDE, SIDE) or written.images.dtype != np.uint8:
            raise ValueError(f"its images are {written.images.dtype} of shape {written.images.shape}")
        if {written.writer.shape, written.split.shape} != {(count,)}:
            raise ValueError("its arrays differ in length")
    return written


Page = tuple[int, str, np.ndarray, np.ndarray]  # split, writer, images, classes


def gather_pages(pages: Iterable[Page]) -> Writing:
    """One array of each; writers are numbered by name."""
    splits, names, pixels, labels = zip(*pages, strict=True)
    sizes = [len(classes) for classes in labels]
    _, numbers = np.unique(names, return_inverse=True)
    return Writing(
        np.concatenate(pixels),
        np.concatenate(labels).astype(np.uint8),
        np.repeat(numbers.reshape(-1), sizes),
        np.repeat(np.array(splits, np.uint8), sizes),
    )


def as_bytes(pixels: object) -> np.ndarray:
    """Images of one writer, whose pixels go from 0 to 1."""
    shares = np.asarray(pixels, np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("it holds pixels that do not lie between 0 and 1")
    return np.rint(255 * shares.astype(np.float32)).astype(np.uint8).reshape(-1, SIDE, SIDE)


def read_leaf(folder: Path) -> Iterator[Page]:
    """Pages from the JSON files that LEAF's script writes under `train` and `test`."""
    for split, part in enumerate(("train", "test")):
        files = sorted((folder / part).glob("*.json"))
        if not files:
            raise FileNotFoundError(f"{folder / part} has no JSON file; LEAF's preprocess.sh writes them there")
        for file in files:
            with reading(file):
                for writer, page in json.loads(file.read_text(encoding="utf-8"))["user_data"].items():
                    if page["y"]:
                        yield split, writer, as_bytes(page["x"]), np.asarray(page["y"])


def convert(archive: Path, converted: Path) -> Writing:
    """Writing from TensorFlow Federated's archive, kept as arrays beside it."""
    with reading(archive):
        verify_file(archive, ARCHIVE.checksum)
        written = gather_pages(read_federated(archive))
    keep_npz(converted, **written._asdict())
    return written


def read_federated(archive: Path) -> Iterator[Page]:
    """Pages from the two HDF5 files of the archive, with one group per writer."""
    try:
        import h5py  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise FileNotFoundError("the whole of FEMNIST comes as HDF5 files: pip install h5py") from error
    with tempfile.TemporaryDirectory() as folder:
        for name, content in read_members(archive, lambda name: name.endswith(".h5")):
            file = Path(folder) / Path(name).name
            file.write_bytes(content)
            with h5py.File(file, "r") as opened:
                for writer, page in opened["examples"].items():
                    yield int("test" in file.stem), writer, as_bytes(page["pixels"]), np.asarray(page["label"])
            file.unlink()
