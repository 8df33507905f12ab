"""Small PNG images, many at once and with numpy alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, colour, palette, grey and colour with opacity


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
