"""Which transforms fit an algorithm; one check for simulations and for real nodes."""

from __future__ import annotations

from typing import Any

from turnout.uploads.base import Upload, all_parts


def check_fit(name: str, upload: Upload[Any], *, by_lengths: bool, keeps: bool, sends_changes: bool) -> None:
    """Raise a ValueError that says why, if a strategy of this name cannot work with a transform.

    `by_lengths`: it chooses uploads by the lengths of updates. `keeps`: its clients keep what they have sent.
    `sends_changes`: they send changes of it.
    """
    for part in all_parts(upload):
        kind = type(part).__name__
        if by_lengths and part.adds_noise:
            raise ValueError(
                f"{name} chooses uploads by the lengths of updates, which {kind} hides: take one or the other"
            )
        if keeps and part.has_memory:
            raise ValueError(
                f"{kind} cannot be used with {name}, whose clients keep what they have sent already: "
                "give the compressor alone"
            )
        if sends_changes and part.adds_noise:
            raise ValueError(
                f"{kind} cannot be used with {name}, whose clients send what has changed: the next "
                "upload would take the noise out again"
            )
