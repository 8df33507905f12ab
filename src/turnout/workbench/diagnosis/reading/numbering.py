"""One number per name, for millions of rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int32, UInt64

if TYPE_CHECKING:
    import polars as pl


class Numbering:
    """Names numbered in order of first appearance.

    Names are identified by a hash of 64 bits: among a million names two collide with probability 3e-8. A row costs one
    lookup in a table indexed by the low bits of the hash; names whose entry another name took are found by bisection.
    """

    def __init__(self) -> None:
        import polars as pl

        self.names = pl.Series([], dtype=pl.String)
        self._hashes = np.zeros(0, np.uint64)
        self._index()

    def codes(self, text: pl.Series) -> Int32[np.ndarray, " rows"]:
        """The number of each text, -1 if there is none; new texts get the next numbers."""
        import polars as pl

        hashes = text.hash().to_numpy()
        codes = self._find(hashes)
        if text.null_count():
            codes[text.is_null().to_numpy()] = -1
        unseen = (codes < 0) & text.is_not_null().to_numpy()
        if unseen.any():
            new = text.filter(pl.Series(unseen)).unique(maintain_order=True)
            self.names = pl.concat([self.names, new])
            self._hashes = np.r_[self._hashes, new.hash().to_numpy()]
            self._index()
            codes[unseen] = self._find(hashes[unseen])
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
