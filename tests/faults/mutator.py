"""Files with mistakes in them, made from good ones by a seeded generator, so that every case can be had again."""

from __future__ import annotations

import copy
import random
import re
from datetime import UTC, datetime
from typing import Any

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NUMBERS = (
    *("0", "-1", "-0.0", "1e-9", "0.5", "1.5", "1e16", "1e300", "1e400", "-1e300", "nan", "inf", "-inf"),
    *("2147483648", "4294967296", "9223372036854775808", "1" + "0" * 30, "1" + "0" * 5000),
)
WORDS = ("", " ", "\0", "\ufeff", "é", "nothing", "true", "never", "2020-01-01T00:00:00Z", '"', "'", ",", ";", "\r\n")
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 7, 2**31, 2**32, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "nothing", "run", "a" * 300, True, False, [], {}, [[]], [{}], [1, "x"], [1, 2], [0.5, -1.0]),
    *({"name": "nothing"}, {"name": 3}, {"sweep": [1, 2]}, {"sweep": []}, datetime(2020, 1, 1, tzinfo=UTC)),
)


def mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    """The content with one to four changes: of bits, of slices, of numbers, of words, or cut off."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice((_flip, _overwrite, _delete, _repeat, _insert, _cut, _number, _number, _word))(
            content, rng
        )
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    begin, end = _slice(content, rng)
    return content[:begin] + rng.randbytes(end - begin) + content[end:]


def _delete(content: bytes, rng: random.Random) -> bytes:
    begin, end = _slice(content, rng)
    return content[:begin] + content[end:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    begin, end = _slice(content, rng)
    return content[:end] + content[begin:end] * rng.choice((1, 2, 50)) + content[end:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    inserted = rng.choice((rng.randbytes(rng.randint(1, 9)), b"[" * rng.choice((1, 90, 5000)), b"{" * 5000, b"\n"))
    return content[:at] + inserted + content[at:]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def _number(content: bytes, rng: random.Random) -> bytes:
    places = list(NUMBER.finditer(content))
    if not places:
        return content
    place = rng.choice(places)
    return content[: place.start()] + rng.choice(NUMBERS).encode() + content[place.end() :]


def _word(content: bytes, rng: random.Random) -> bytes:
    words = list(re.finditer(rb"[^,;\s\"']+", content))
    if not words:
        return content
    place, other = rng.choice(words), rng.choice(words)
    word = rng.choice((other.group(), rng.choice(WORDS).encode()))
    return content[: place.start()] + word + content[place.end() :]


def _slice(content: bytes, rng: random.Random) -> tuple[int, int]:
    begin = rng.randint(0, len(content))
    return begin, min(len(content), begin + rng.choice((1, 2, 4, 16, 200)))


def mutated_document(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A document with one to three of its values replaced, removed, or moved to another key."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(changed))
        if not places:
            return changed
        numbers = [(place, key) for place, key in places if type(place[key]) in (int, float)]
        what = rng.random()
        place, key = rng.choice(numbers if numbers and what > 0.6 else places)
        if what > 0.6:
            place[key] = rng.choice([value for value in VALUES if type(value) in (int, float)])
        elif what < 0.15:
            del place[key]
        elif what < 0.3:
            other, theirs = rng.choice(places)
            place[key] = copy.deepcopy(other[theirs])
        elif what < 0.35 and isinstance(place, dict):
            place[rng.choice(("name", "seed", "label", "nothing", "sweep"))] = place.pop(key)
        else:
            place[key] = copy.deepcopy(rng.choice(VALUES))
    return changed


def _places(value: Any) -> Any:
    """Every table or list in a document, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield value, key
        yield from _places(inside)
