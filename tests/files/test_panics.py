import os

import polars as pl
import pytest

from turnout.errors import UserError
from turnout.files.integrity import refuse_panics


def read(printed, error):
    """A reader that prints and fails as polars does."""
    with refuse_panics("a.parquet"):
        os.write(2, printed)
        raise error


def test_a_panic_is_one_error_and_leaves_nothing_on_the_terminal(capfd):
    with pytest.raises(UserError, match=r"a.parquet: is damaged, so that it cannot be read \(no such bitmap\)"):
        read(b"thread panicked, and ninety lines of addresses", pl.exceptions.PanicException("no such\nbitmap"))
    assert capfd.readouterr().err == ""


def test_other_words_and_errors_come_through(capfd):
    with pytest.raises(OSError, match="disk"):
        read(b"a warning", OSError("disk"))
    assert capfd.readouterr().err == "a warning"
