"""A client in one secure sum: what it sends in each of the four exchanges, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from turnout.flower.secure import packing
from turnout.flower.secure.ciphers import (
    KEY_BYTES,
    PrivateKey,
    agree,
    derive,
    mask_from,
    new_secret,
    private_key,
    public_bytes,
    seal,
    unseal,
)
from turnout.flower.secure.rules import RefusedError, Rules
from turnout.flower.secure.sharing import SECRET_BYTES, SHARE_BYTES, split


class Keys(NamedTuple):
    """What a client makes public in a round."""

    mask: bytes  # key of the masks that it shares with its neighbours
    box: bytes  # key of the boxes in which they send each other shares
    promise: bytes  # fixes its own mask, so that wrong shares of it are found out


class SharePair(NamedTuple):
    """What one client holds of another's two secrets."""

    key: bytes  # of the secret of its mask key, to be told if its upload does not come
    own: bytes  # of the secret of its own mask, to be told if its upload comes


@dataclass
class Party:
    """One client in one round, in this order: keys, shares, masked, unmask, each once; fresh secrets every time.

    `name` is a number above 0, and `tag` says of which run and round the sum is.
    """

    name: int
    tag: str
    rules: Rules = field(default_factory=Rules)
    stage: str = field(default="new", init=False)
    _key_secret: bytes = field(default=b"", init=False, repr=False)
    _own_secret: bytes = field(default=b"", init=False, repr=False)
    _box_secret: bytes = field(default=b"", init=False, repr=False)
    _group: dict[int, Keys] = field(default_factory=dict, init=False, repr=False)
    _threshold: int = field(default=0, init=False)
    _held: dict[int, SharePair] = field(default_factory=dict, init=False, repr=False)

    def keys(self) -> Keys:
        """The first exchange."""
        self._go("new", "keys")
        self._key_secret, self._own_secret = os.urandom(SECRET_BYTES), os.urandom(SECRET_BYTES)
        self._box_secret = new_secret()
        return self._publics()

    def shares(self, group: Mapping[int, Keys], threshold: int) -> dict[int, bytes]:
        """The second: a box with shares for every other member of the group, of which this client is one."""
        self._go("keys", "shares")
        if group.get(self.name) != self._publics():
            raise RefusedError("the keys that stand for this client are not its own")
        public = [key for keys in group.values() for key in keys]
        if len(set(public)) != len(public):
            raise RefusedError("the same key stands for two clients")
        self.rules.check_group(len(group), threshold)
        names = sorted(group)
        secrets = (split(secret, threshold, names) for secret in (self._key_secret, self._own_secret))
        shares = dict(zip(names, map(SharePair, *secrets), strict=True))
        self._group, self._threshold = dict(group), threshold
        self._held = {self.name: shares.pop(self.name)}
        return {
            name: seal(self._box_key(name), b"".join(own), self._about(self.name, name)) for name, own in shares.items()
        }

    def masked(self, boxes: Mapping[int, bytes], vector: np.ndarray) -> np.ndarray:
        """The third: the vector of 32-bit numbers under masks, and the boxes that came are opened."""
        self._go("shares", "masked")
        if not boxes.keys() <= self._group.keys() - {self.name}:
            raise RefusedError("a box is of somebody who is no neighbour")
        self.rules.check_sum(len(boxes) + 1, self._threshold)
        for name, box in boxes.items():
            content = unseal(self._box_key(name), box, self._about(name, self.name))
            if len(content) != 2 * SHARE_BYTES:
                raise RefusedError("a box does not hold two shares")
            self._held[name] = SharePair(content[:SHARE_BYTES], content[SHARE_BYTES:])
        total = vector + mask_from(own_mask_key(self._own_secret, self.tag), len(vector))
        key = mask_key(self._key_secret)
        for name in boxes:
            mask = mask_from(pair_mask_key(key, self._group[name].mask, self.tag, self.name, name), len(vector))
            total = total + mask if self.name < name else total - mask
        return total

    def unmask(self, arrived: Collection[int], gone: Collection[int]) -> dict[int, bytes]:
        """The fourth: a share of the own mask of those whose upload arrived, of the key of those whose did not."""
        self._go("masked", "unmasked")
        held, self._held = self._held, {}
        self._key_secret = self._own_secret = self._box_secret = b""
        here, away = set(arrived), set(gone)
        if here & away:
            raise RefusedError("both secrets of one client are asked for")
        if not here | away <= held.keys():
            raise RefusedError("a share is asked for of somebody who is no neighbour, or was gone before")
        if self.name not in here:
            raise RefusedError("this client is asked to help in a sum without its own upload")
        self.rules.check_sum(len(here), self._threshold)
        return {name: held[name].own for name in here} | {name: held[name].key for name in away}

    def to_bytes(self) -> dict[str, bytes]:
        """All of it by name, to be kept between two exchanges."""
        return {
            "tag": self.tag.encode(),
            "stage": self.stage.encode(),
            "name": packing.number(self.name),
            "threshold": packing.number(self._threshold),
            "key-secret": self._key_secret,
            "own-secret": self._own_secret,
            "box-secret": self._box_secret,
            "group": packing.rows({name: b"".join(keys) for name, keys in self._group.items()}),
            "held": packing.rows({name: b"".join(shares) for name, shares in self._held.items()}),
        }

    @classmethod
    def from_bytes(cls, kept: Mapping[str, bytes], rules: Rules) -> Party:
        """The client as it was kept; refused if anything of it is missing or of another length."""
        try:
            party = cls(packing.to_number(kept["name"]), kept["tag"].decode(), rules)
            party.stage, party._threshold = kept["stage"].decode(), packing.to_number(kept["threshold"])
            party._key_secret = packing.secret(kept["key-secret"], SECRET_BYTES)
            party._own_secret = packing.secret(kept["own-secret"], SECRET_BYTES)
            party._box_secret = packing.secret(kept["box-secret"], KEY_BYTES)
            groups = packing.to_rows(kept["group"], sum(_KEYS)).items()
            party._group = {name: Keys(*packing.cut(row, _KEYS)) for name, row in groups}
            held = packing.to_rows(kept["held"], sum(_SHARES)).items()
            party._held = {name: SharePair(*packing.cut(row, _SHARES)) for name, row in held}
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise RefusedError(f"what this client has kept of the sum is not whole: {error}") from error
        return party

    def _go(self, before: str, after: str) -> None:
        """From one exchange to the next; said again, or out of order, it is refused."""
        if self.stage != before:
            raise RefusedError(
                f"this client is past {self.stage!r} in this sum, and answers {after!r} after {before!r} only"
            )
        self.stage = after

    def _publics(self) -> Keys:
        box = private_key(self._box_secret)
        return Keys(public_bytes(mask_key(self._key_secret)), public_bytes(box), promise(self._own_secret, self.tag))

    def _box_key(self, other: int) -> bytes:
        both = sorted((self.name, other))
        return agree(private_key(self._box_secret), self._group[other].box, "box", self.tag, *both)

    def _about(self, source: int, to: int) -> bytes:
        """What a box is bound to."""
        return packing.number(source) + packing.number(to) + self.tag.encode()


_KEYS, _SHARES = (32, 32, 32), (SHARE_BYTES, SHARE_BYTES)


def mask_key(secret: bytes) -> PrivateKey:
    """The key behind the masks that a client has in common with its neighbours."""
    return private_key(derive(secret, "mask key"))


def own_mask_key(secret: bytes, tag: str) -> bytes:
    return derive(secret, "own mask", tag)


def promise(secret: bytes, tag: str) -> bytes:
    return derive(secret, "promise", tag)


def pair_mask_key(own: PrivateKey, other: bytes, tag: str, *names: int) -> bytes:
    return agree(own, other, "mask", tag, *sorted(names))
