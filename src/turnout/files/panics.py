"""Panics of polars, which damaged Parquet files cause."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

from turnout.errors import UserError


@contextmanager
def refuse_panics(path: str) -> Generator[None]:
    """Turn a panic of polars inside into an error of one line, without the pages that Rust prints about it.

    Everything else that is printed meanwhile appears at the end.
    """
    import polars as pl

    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            yield
        except pl.exceptions.PanicException as error:
            printed.truncate(0)
            why = " ".join(str(error).split())[:100]
            raise UserError(f"{path}: is damaged, so that it cannot be read ({why}); write or get it again") from None
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            printed.seek(0)
            if content := printed.read():
                os.write(2, content)
