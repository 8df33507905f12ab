"""The server in one secure sum: it hands on what clients say to each other, and learns the sum or nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from turnout.flower.secure.ciphers import mask_from, public_bytes
from turnout.flower.secure.neighbours import groups_of, neighbours_for, threshold_of
from turnout.flower.secure.party import Keys, mask_key, own_mask_key, pair_mask_key, promise
from turnout.flower.secure.rules import LostError, RefusedError
from turnout.flower.secure.sharing import SHARE_BYTES, combine, weights_at_zero


@dataclass
class Summer:
    """One round, in this order: take_keys, take_shares, add for every upload, to_unmask, result."""

    tag: str
    size: int  # of the vectors
    neighbours: int | None = None  # of each client; by the number of clients and dropouts if not given
    dropouts: float = 0.1  # share of the clients that is expected to drop out in each exchange
    least: int = 2  # uploads in a sum
    shuffle: random.Random = field(default_factory=random.SystemRandom, repr=False)
    arrived: set[int] = field(default_factory=set, init=False)
    threshold: int = field(default=0, init=False)
    _keys: dict[int, Keys] = field(default_factory=dict, init=False, repr=False)
    _groups: dict[int, frozenset[int]] = field(default_factory=dict, init=False, repr=False)
    _shared: frozenset[int] = field(default=frozenset(), init=False, repr=False)

    def __post_init__(self) -> None:
        self._total = np.zeros(self.size, np.uint32)

    def take_keys(self, keys: Mapping[int, Keys]) -> dict[int, dict[int, Keys]]:
        """The keys of its group for every client."""
        count = neighbours_for(len(keys), self.dropouts) if self.neighbours is None else self.neighbours
        self._keys, self._groups = dict(keys), groups_of(list(keys), count, self.shuffle)
        self.threshold = threshold_of(len(next(iter(self._groups.values()), ())))
        return {name: {other: keys[other] for other in group} for name, group in self._groups.items()}

    def take_shares(self, boxes: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """The boxes for every client that goes on, from those of its group that have sent some for all of theirs."""
        whole = (
            name for name in boxes if name in self._groups and frozenset(boxes[name]) == self._groups[name] - {name}
        )
        sent = frozenset(whole)
        mail = {name: {other: boxes[other][name] for other in self._groups[name] & sent - {name}} for name in sent}
        left = {name: own for name, own in mail.items() if len(own) + 1 >= self.threshold}
        self._shared = sent
        return left

    def add(self, name: int, vector: np.ndarray) -> bool:
        """Take in an upload; whether it counts, the first of a client only."""
        fits = vector.dtype == np.uint32 and vector.shape == (self.size,)
        if name not in self._shared or name in self.arrived or not fits:
            return False
        self._total += vector
        self.arrived.add(name)
        return True

    def to_unmask(self) -> dict[int, tuple[frozenset[int], frozenset[int]]]:
        """For every client whose upload arrived: those of its group that arrived, and those that did not."""
        gone = self._shared - self.arrived  # who was gone before has masks in common with nobody
        return {name: (self._groups[name] & self.arrived, self._groups[name] & gone) for name in self.arrived}

    def result(self, answers: Mapping[int, Mapping[int, bytes]]) -> np.ndarray:
        """The exact sum modulo 2³² of the uploads that arrived; a LostError if it cannot be known."""
        if len(self.arrived) < self.least:
            raise LostError(f"{len(self.arrived)} uploads arrived, {self.least} are needed")
        shares = self._by_owner(answers)
        gone = {name for name in self._shared - self.arrived if self._groups[name] & self.arrived}
        weights: dict[tuple[int, ...], dict[int, int]] = {}
        total = self._total.copy()
        for name in sorted(self.arrived | gone):
            found = shares.get(name, {})
            if len(found) < self.threshold:
                raise LostError(f"{len(found)} shares of one client are there, {self.threshold} are needed")
            points = tuple(sorted(found)[: self.threshold])
            if points not in weights:
                weights[points] = weights_at_zero(points)
            secret = combine(found, weights[points])
            total = (
                self._without_own(total, name, secret)
                if name in self.arrived
                else self._without_pairs(total, name, secret)
            )
        return total

    def _by_owner(self, answers: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """Shares by owner and holder, of those only that were asked for them."""
        shares: dict[int, dict[int, bytes]] = {}
        for holder, own in answers.items():
            if holder in self.arrived:
                for owner, share in own.items():
                    if owner in self._groups[holder] and len(share) == SHARE_BYTES:
                        shares.setdefault(owner, {})[holder] = share
        return shares

    def _without_own(self, total: np.ndarray, name: int, secret: bytes) -> np.ndarray:
        if promise(secret, self.tag) != self._keys[name].promise:
            raise LostError("the shares of one client give another mask than it promised")
        total -= mask_from(own_mask_key(secret, self.tag), self.size)
        return total

    def _without_pairs(self, total: np.ndarray, name: int, secret: bytes) -> np.ndarray:
        """Without the masks that clients in the sum have in common with one that is gone."""
        key = mask_key(secret)
        if public_bytes(key) != self._keys[name].mask:
            raise LostError("the shares of one client give another key than it sent")
        for other in self._groups[name] & self.arrived:
            try:
                mask = mask_from(pair_mask_key(key, self._keys[other].mask, self.tag, name, other), self.size)
            except RefusedError as error:
                raise LostError(str(error)) from error
            total = total - mask if other < name else total + mask
        return total
