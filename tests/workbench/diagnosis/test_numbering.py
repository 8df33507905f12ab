"""Names are numbered in order of first appearance, however they come."""

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.workbench.diagnosis.reading.numbering import Numbering

texts = st.none() | st.text(max_size=3)


@settings(deadline=None)
@given(st.lists(st.lists(texts, max_size=12), max_size=4))
def test_numbers_stand_for_the_texts(pieces):
    numbering = Numbering()
    codes = [numbering.codes(pl.Series(piece, dtype=pl.String)).tolist() for piece in pieces]
    flat = [text for piece in pieces for text in piece]
    expected = list(dict.fromkeys(text for text in flat if text is not None))
    assert numbering.names.to_list() == expected
    place = {text: index for index, text in enumerate(expected)} | {None: -1}
    assert codes == [[place[text] for text in piece] for piece in pieces]


def test_many_names_share_places_in_the_table():
    """With as many names as here, thousands lose their place to another and must be searched."""
    names = pl.Series([f"client-{k}" for k in range(50_000)])
    numbering = Numbering()
    np.testing.assert_array_equal(numbering.codes(names), np.arange(50_000))
    np.testing.assert_array_equal(numbering.codes(names.reverse()), np.arange(50_000)[::-1])
    assert (np.bincount((numbering._hashes & numbering._mask).astype(np.int64)) > 1).sum() > 1000
