"""A number for each name, millions of rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int32, UInt64

if TYPE_CHECKING:
    import polars as pl


class Numbering:
    """Names numbered in order of first appearance.

    Names are told apart by a hash of 64 bits: among a million names two clash with probability 3e-8. A row costs a look
    into a table that is indexed by the low bits of the hash; names that lost their place in it to another are searched.
    """

    def __init__(self) -> None:
        import polars as pl

        self.names = pl.Series([], dtype=pl.String)
        self._hashes = np.zeros(0, np.uint64)
        self._index()

    def codes(self, text: pl.Series) -> Int32[np.ndarray, " rows"]:
        """The number of each text, -1 where there is none; new texts are given the next numbers."""
        import polars as pl

        hashes = text.hash().to_numpy()
        codes = self._find(hashes)
        if text.null_count():
            codes[text.is_null().to_numpy()] = -1
        lost = (codes < 0) & text.is_not_null().to_numpy()
        if lost.any():
            fresh = text.filter(pl.Series(lost)).unique(maintain_order=True)
            self.names = pl.concat([self.names, fresh])
            self._hashes = np.r_[self._hashes, fresh.hash().to_numpy()]
            self._index()
            codes[lost] = self._find(hashes[lost])
        return codes

    def _index(self) -> None:
        count = len(self._hashes)
        self._mask = np.uint64((1 << (4 * count + 1024).bit_length()) - 1)
        self._table = np.zeros(int(self._mask) + 1, np.int32)
        self._table[self._hashes & self._mask] = np.arange(count, dtype=np.int32)
        self._order = np.argsort(self._hashes).astype(np.int32)
        self._sorted = self._hashes[self._order]

    def _find(self, hashes: UInt64[np.ndarray, " rows"]) -> Int32[np.ndarray, " rows"]:
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int32)
        codes = self._table[hashes & self._mask]
        rest = np.flatnonzero(self._hashes[codes] != hashes)
        place = np.minimum(np.searchsorted(self._sorted, hashes[rest]), len(self._sorted) - 1)
        codes[rest] = np.where(self._sorted[place] == hashes[rest], self._order[place], -1)
        return codes
