"""CINIC-10: 270,000 colour images of the classes of CIFAR-10, most of them from ImageNet (Darlow et al. 2018)."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from turnout.declarations import NotNegative
from turnout.files.downloads import Remote, given, local_copy
from turnout.files.integrity import keep_npz, read_members, read_npz, reading, verify_file
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.image_task import Colours, ImageOptions, Images, image_task
from turnout.tasks.data.shared_arguments import with_arguments_of
from turnout.tasks.models.networks import ModelName

COLOURS = Colours((0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587))
ARCHIVE = Remote(
    "CINIC-10.tar.gz",
    "md5:6ee4d0c996905fe93221de577967a372",
    (
        "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
        "https://datashare.is.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
        "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
    ),
)
CONVERTED = "cinic10.npz"  # the archive as arrays, made once: undoing 270,000 PNG files takes a minute
PARTS = ("train", "valid", "test")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, colour, palette, grey and colour with opacity


@dataclass(frozen=True)
class CINIC10Options(ImageOptions):
    """Defaults for colour images: a network, without a penalty."""

    model: ModelName = "cnn_fedacs_cinic10"
    ridge: NotNegative = 0.0
    validation: float = field(init=False, default=0.0)  # these images have a validation set of their own


@with_arguments_of(CINIC10Options)
def cinic10(options: CINIC10Options) -> DataTask:
    """Classify images: 90,000 to train on, 90,000 to validate, 90,000 to test, a third each as the authors cut them.

    FedACS has 20 clients with α = 0.1. The arguments are explained in the docs on tasks.
    """
    train, validation, test = load()
    return image_task(train, test, options, COLOURS, validation)


def load() -> tuple[Images, Images, Images]:
    """Training, validation and test images: TURNOUT_DATA's arrays or archive, or the archive downloaded."""
    converted = given(CONVERTED)
    if converted is None:
        archive = local_copy(ARCHIVE, __name__)
        converted = archive.with_name(CONVERTED)
        if not converted.exists():
            return convert(archive, converted)
    with reading(converted):
        names = tuple(f"{part}_{what}" for part in PARTS for what in ("images", "labels"))
        arrays = read_npz(converted, names)
    train, validation, test = (Images(*arrays[i : i + 2]) for i in (0, 2, 4))
    return train, validation, test


def convert(archive: Path, converted: Path) -> tuple[Images, Images, Images]:
    """The three sets from the archive, sorted by class and name; they are also stored as arrays beside it."""
    files: dict[str, list[tuple[int, str, bytes]]] = {part: [] for part in PARTS}
    with reading(archive):
        verify_file(archive, ARCHIVE.checksum)
        for name, content in read_members(archive, lambda name: name.endswith(".png")):
            *_, part, kind, file = PurePosixPath(name).parts
            files[part].append((CLASSES.index(kind), file, content))
        sets = {part: _images(sorted(members)) for part, members in files.items()}
    arrays = {f"{part}_images": images.pixels for part, images in sets.items()}
    keep_npz(converted, **arrays, **{f"{part}_labels": images.labels for part, images in sets.items()})
    return sets["train"], sets["valid"], sets["test"]


def _images(members: list[tuple[int, str, bytes]]) -> Images:
    if not members:
        raise ValueError("one of the folders train, valid and test has no images")
    labels = np.array([label for label, _, _ in members], np.int64)
    return Images(read_pngs([content for _, _, content in members], SIDE, SIDE), labels)


def read_pngs(files: Sequence[bytes], height: int, width: int) -> np.ndarray:
    """Colours (images, height, width, 3) of PNG files of one size, 8 bits per channel; opacity is left out.

    Files of one colour type are decoded together, so that the loop over pixels, which the filters need, runs once for
    all images.
    """
    pixels = np.empty((len(files), height, width, 3), np.uint8)
    groups: dict[int, list[tuple[int, bytes, np.ndarray | None]]] = {}
    for place, file in enumerate(files):
        kind, lines, palette = _open(file, height, width)
        groups.setdefault(kind, []).append((place, lines, palette))
    for kind, members in groups.items():
        lines = np.frombuffer(b"".join(content for _, content, _ in members), np.uint8)
        plain = unfilter(lines.reshape(len(members), height, 1 + width * CHANNELS[kind]), CHANNELS[kind])
        for (place, _, palette), image in zip(members, plain, strict=True):
            pixels[place] = _colours(kind, image, palette)
    return pixels


def _open(file: bytes, height: int, width: int) -> tuple[int, bytes, np.ndarray | None]:
    """Colour type, filtered lines and palette."""
    if file[:8] != SIGNATURE:
        raise ValueError("it holds an image that is no PNG")
    packed, palette, kind = b"", None, -1
    for name, content in _pieces(file):
        if name == b"IHDR":
            if len(content) != 13:
                raise ValueError(f"it holds a PNG whose header has {len(content)} bytes, not 13")
            across, down, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", content)
            if (down, across, depth, interlaced) != (height, width, 8, 0) or kind not in CHANNELS:
                raise ValueError(f"it holds a PNG other than {height} × {width} of 8 bits per channel, not interlaced")
        elif name == b"PLTE":
            if not content or len(content) % 3:
                raise ValueError(f"it holds a PNG whose palette has {len(content)} bytes, no multiple of 3")
            palette = np.frombuffer(content, np.uint8).reshape(-1, 3)
        elif name == b"IDAT":
            packed += content
    if kind < 0:
        raise ValueError("it holds a PNG without a header")
    return kind, _unpack(packed, height * (1 + width * CHANNELS[kind])), palette


def _unpack(packed: bytes, size: int) -> bytes:
    """The lines, and never more of them than there should be."""
    try:
        lines = zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(f"it holds a PNG whose lines cannot be unpacked ({error})") from error
    if len(lines) != size:
        raise ValueError("it holds a PNG whose lines are incomplete, or too many")
    return lines


def _pieces(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(file):
        (size,) = struct.unpack(">I", file[at : at + 4])
        yield file[at + 4 : at + 8], file[at + 8 : at + 8 + size]
        at += 12 + size


def unfilter(lines: np.ndarray, channels: int) -> np.ndarray:
    """Images (images, height, width, channels) of lines that begin with the number of their filter."""
    count, height, length = lines.shape
    width = (length - 1) // channels
    coded = lines[:, :, 1:].reshape(count, height, width, channels).astype(np.int16)
    # A border of zeros above and to the left, as the format has it.
    out = np.zeros((count, height + 1, width + 1, channels), np.int16)
    for y in range(height):
        used = lines[:, y, 0]
        if used.max() > 4:
            raise ValueError(f"it holds a PNG with the unknown filter {used.max()}")
        for x in range(width):
            left, up, corner = out[:, y + 1, x], out[:, y, x + 1], out[:, y, x]
            guesses = [np.zeros_like(left), left, up, (left + up) // 2, _nearest(left, up, corner)]
            guess = np.choose(used[:, None], guesses)
            out[:, y + 1, x + 1] = (coded[:, y, x] + guess) & 255
    return out[:, 1:, 1:].astype(np.uint8)


def _nearest(left: np.ndarray, up: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """Paeth's guess: of the three neighbours the one nearest to left + up − corner; ties go in this order."""
    target = left + up - corner
    far_left, far_up, far_corner = (abs(target - guess) for guess in (left, up, corner))
    return np.where((far_left <= far_up) & (far_left <= far_corner), left, np.where(far_up <= far_corner, up, corner))


def _colours(kind: int, image: np.ndarray, palette: np.ndarray | None) -> np.ndarray:
    if kind == 3:
        if palette is None or image.max() >= len(palette):
            raise ValueError("it holds a PNG without the palette it needs")
        return palette[image[..., 0]]
    return image[..., :3] if CHANNELS[kind] >= 3 else np.repeat(image[..., :1], 3, axis=-1)
