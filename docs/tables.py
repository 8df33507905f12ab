"""Where stored numbers lie, and how tables of pages are written."""

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
NUMBERS = ROOT / "docs" / "results"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])
