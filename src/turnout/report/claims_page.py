"""A page of claims and what came of them, from stored results."""

from __future__ import annotations

from pathlib import Path


def claims_page(folder: Path, beside: Path) -> str:
    """Markdown: claim, file, paper's number, ours, verdict."""
    return ""
