"""Leaving for good: how a client says so on its node, and what takes its word along."""

from flwr.app import ConfigRecord, Context

LEFT = "turnout.left"  # in the node's own state


def leave(context: Context) -> None:
    """Let this client leave the fleet for good; call it in any function of an app from `client_app` or `greet`.

    The client does no more work: it answers its order of now, or else its next one, by a goodbye. Then nothing of it
    counts any more. A goodbye that is lost is said again at the next order. A node that starts again is a new client.
    """
    if not isinstance(context, Context):
        raise TypeError(f"leave takes the context of a function of the app, not an object of {type(context).__name__}")
    context.state[LEFT] = ConfigRecord({LEFT: True})


def has_left(context: Context) -> bool:
    """Whether the client wants to leave, or has left."""
    return LEFT in context.state.config_records
