"""Results that a notebook shows, that pandas takes and that other programs read."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import polars as pl


class Presented:
    """A result that a notebook shows as a table and a chart."""

    # Name of the module that writes tables and charts. It lies above all results: `turnout` itself sets it.
    writer_name: ClassVar[str]

    @staticmethod
    def writer() -> Any:
        """The module that writes tables and charts; it is imported when it is needed, as it takes a second."""
        return importlib.import_module(Presented.writer_name)

    def _repr_html_(self) -> str:
        return self.writer().html(self)


class Tabular(Presented):
    """A result with a tidy table."""

    def frame(self) -> pl.DataFrame:
        """The tidy table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """`frame()` as a table of pandas; pyarrow is not needed."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas, or take frame(), a polars table") from None
        return pandas.DataFrame({column.name: column.to_list() for column in self.frame()})
