"""Names of client sides; apart, since a node greets without jax and a server is driven without Flower."""

from collections.abc import Collection, Mapping
from typing import Any

SIDE = "turnout.side"  # in the config: what a client does besides training, by name; its numbers stand beside it
SIDES = "turnout.sides"  # in the answer to a greeting: the sides that the node knows
KNOWN_SIDES = (  # of this version
    "last_update",
    "control_variate",
    "last_gradient",
    "proximal",
    "tilted",
    "windowed_control",
)


def check_side_known(config: Mapping[str, Any], own: Collection[str] = ()) -> None:
    """Raise a ValueError, if an order or a greeting wants a client side that this node does not know.

    `own` are the names of those that were given to the app; an order has the name of a class that is not shipped.
    """
    if (wanted := config.get(SIDE)) is None or wanted in KNOWN_SIDES or wanted in own:
        return
    known = ", ".join((*KNOWN_SIDES, *own))
    raise ValueError(
        f"the server's strategy wants the client side {wanted!r}, but this node knows only {known}: install the "
        "server's version of turnout here, or give the app a side of your own, greet(app, side=…)"
    )
