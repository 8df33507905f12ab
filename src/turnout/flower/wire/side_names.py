"""Names of client sides; apart, since a node greets without jax and a server is driven without Flower."""

from collections.abc import Mapping
from typing import Any

SIDE = "turnout.side"  # in the config: what a client does besides training, by name; its numbers stand beside it
SIDES = "turnout.sides"  # in the answer to a greeting: the sides that the node knows
KNOWN_SIDES = ("last_update",)  # of this version


def check_side_known(config: Mapping[str, Any]) -> None:
    """Raise a ValueError, if an order or a greeting wants a client side that this version does not know."""
    if (wanted := config.get(SIDE)) is not None and wanted not in KNOWN_SIDES:
        raise ValueError(
            f"the server's strategy wants the client side {wanted!r}, but this node knows only "
            f"{', '.join(KNOWN_SIDES)}: install the server's version of turnout here"
        )
