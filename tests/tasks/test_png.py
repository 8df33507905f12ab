import struct
import zlib

import numpy as np
import pytest

from turnout.tasks.cinic10 import read_pngs


def piece(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(image, kind, filters, palette=None, depth=8, interlaced=0):
    """An image (height, width, channels) as a PNG whose lines are filtered as told, pixel by pixel as in the norm."""
    height, width, channels = image.shape
    lines = []
    for y in range(height):
        line = bytearray([filters[y]])
        for x in range(width):
            for c in range(channels):
                a = int(image[y, x - 1, c]) if x else 0
                b = int(image[y - 1, x, c]) if y else 0
                d = int(image[y - 1, x - 1, c]) if x and y else 0
                nearest = min((abs(b - d), 0, a), (abs(a - d), 1, b), (abs(a + b - 2 * d), 2, d))[2]
                guess = (0, a, b, (a + b) // 2, nearest)[min(filters[y], 4)]
                line.append((int(image[y, x, c]) - guess) % 256)
        lines.append(bytes(line))
    body = zlib.compress(b"".join(lines))
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    begin = b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", header)
    if palette is not None:
        begin += piece(b"PLTE", palette.tobytes())
    return begin + piece(b"IDAT", body[:7]) + piece(b"IDAT", body[7:]) + piece(b"IEND", b"")


def some_image(height, width, channels, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def test_every_filter_and_every_colour_type():
    colour, grey, both, clear = (some_image(6, 5, channels, channels) for channels in (3, 1, 2, 4))
    palette = np.random.default_rng(9).integers(0, 256, (7, 3), dtype=np.uint8)
    places = some_image(6, 5, 1) % 7
    files = [
        png(colour, 2, [0, 1, 2, 3, 4, 4]),
        png(grey, 0, [4, 3, 2, 1, 0, 2]),
        png(colour, 2, [4, 4, 3, 3, 1, 2]),
        png(both, 4, [1, 4, 2, 3, 0, 4]),
        png(clear, 6, [2, 4, 1, 3, 4, 0]),
        png(places, 3, [0, 0, 1, 2, 3, 4], palette),
    ]
    found = read_pngs(files, 6, 5)
    flat = np.repeat(grey, 3, axis=-1)
    expected = [colour, flat, colour, np.repeat(both[..., :1], 3, axis=-1), clear[..., :3], palette[places[..., 0]]]
    np.testing.assert_array_equal(found, np.stack(expected))


GOOD = png(some_image(6, 5, 3), 2, [4] * 6)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (b"GIF89a", "no PNG"),
        (png(some_image(5, 5, 3), 2, [0] * 5), "other than 6 × 5"),
        (png(some_image(6, 5, 3), 2, [0] * 6, interlaced=1), "not interlaced"),
        (png(some_image(6, 5, 3), 2, [0] * 6, depth=16), "8 bits per channel"),
        (png(some_image(6, 5, 3), 2, [7] * 6), "unknown filter 7"),
        (png(some_image(6, 5, 1), 3, [0] * 6), "palette"),
        (GOOD[:33] + piece(b"IDAT", zlib.compress(b"few")), "incomplete"),
    ],
)
def test_other_files_are_refused(file, told):
    with pytest.raises(ValueError, match=told):
        read_pngs([file], 6, 5)


HEADER = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
LINES = zlib.compress(bytes(14))


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([(b"IHDR", HEADER[:9])], "header has 9 bytes, not 13"),
        ([(b"IDAT", LINES)], "without a header"),
        ([(b"IHDR", HEADER), (b"PLTE", b"abcd")], "palette has 4 bytes, no multiple of 3"),
        ([(b"IHDR", HEADER), (b"IDAT", b"no lines")], "lines cannot be unpacked"),
        ([(b"IHDR", HEADER), (b"IDAT", zlib.compress(bytes(10**8)))], "incomplete, or too many"),
    ],
)
def test_damaged_images_are_refused(pieces, message):
    with pytest.raises(ValueError, match=message):
        read_pngs([b"\x89PNG\r\n\x1a\n" + b"".join(piece(*each) for each in pieces)], 2, 2)
