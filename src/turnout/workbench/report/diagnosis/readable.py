"""Numbers as people read them."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def percent(share: float) -> str:
    """A share for reading: two digits where it is small."""
    value = 100 * share
    return f"{value:z.0f} %" if value >= 9.95 or value < 0.005 else f"{value:.2g} %"


def duration(seconds: float, form: str = ".3g") -> str:
    """A length of time in the unit that suits it."""
    for unit, name in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:{form}} {name}"
    return f"{seconds:{form}} seconds"
