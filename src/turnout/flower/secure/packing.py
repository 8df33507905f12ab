"""Numbers and rows by name as bytes; whatever does not fit is a ValueError."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_NUMBER = 8


def number(value: int) -> bytes:
    return value.to_bytes(_NUMBER, "big")


def to_number(content: bytes) -> int:
    if len(content) != _NUMBER:
        raise ValueError(f"a number has {_NUMBER} bytes, not {len(content)}")
    return int.from_bytes(content, "big")


def rows(by_name: Mapping[int, bytes]) -> bytes:
    """Rows of one length, each after its name."""
    return b"".join(number(name) + row for name, row in by_name.items())


def to_rows(content: bytes, length: int) -> dict[int, bytes]:
    """The rows, each of this length; a name may come once."""
    step = _NUMBER + length
    if len(content) % step:
        raise ValueError(f"{len(content)} bytes are no rows of {step}")
    parts = [content[i : i + step] for i in range(0, len(content), step)]
    found = {to_number(part[:_NUMBER]): part[_NUMBER:] for part in parts}
    if len(found) != len(parts):
        raise ValueError("a name comes twice")
    return found


def names(members: Iterable[int]) -> bytes:
    return rows(dict.fromkeys(members, b""))


def secret(content: bytes, length: int) -> bytes:
    """A secret of this length, or none where it was forgotten."""
    if len(content) not in (0, length):
        raise ValueError(f"a secret has {length} bytes, not {len(content)}")
    return content


def cut(row: bytes, lengths: Sequence[int]) -> list[bytes]:
    """The parts of a row, one after another."""
    parts, begin = [], 0
    for length in lengths:
        parts.append(row[begin : begin + length])
        begin += length
    return parts
