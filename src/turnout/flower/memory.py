"""What a client remembers of what it has sent: in a file, or in Flower's own state of the node.

An upload may be lost, and then the memory of it must not count. The next order of the server says which upload was the
last that arrived; until then the states before and after it are both kept.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context

from turnout.files import archive
from turnout.files.manifest import EditedError
from turnout.files.whole import durable_file
from turnout.flower.wire import layout
from turnout.flower.wire.messages import ACKNOWLEDGED, DURABLE, RUN_ID, client_name

log = logging.getLogger("turnout.flower")

Place = str | Path | Callable[[Context], Path]
States = dict[int, Any]  # by the round of the upload after which they hold

REMEMBERED, _CONTENT = "turnout.memory", "npz"  # in the node's own state, where there is no file
_FORMAT = 3
_BEFORE = 2  # the format before, which is still read


class Memory:
    """Keeps the states of a client, of its transform and of the algorithm, that may still count.

    A server that goes back to a checkpoint asks for the state of an older round. So all states since its last
    checkpoint are kept, and the one at the checkpoint. Where a state is lost, or belongs to another run, the client
    starts afresh: the remainder of its earlier uploads is never sent then, which does no harm.
    """

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def recall(self, fresh: Any, config: Mapping[str, Any], context: Context) -> States:
        """The states that may still count; none if the one after the last upload that arrived is lost.

        `fresh` is the state of a client that has sent nothing yet; the others have its form.
        """
        arrived, durable = int(config[ACKNOWLEDGED]), int(config[DURABLE])
        states = self._read(fresh, str(config[RUN_ID]), context)
        if arrived and arrived not in states:
            log.info("what is remembered of the upload of round %d is lost", arrived)
            return {}
        oldest = max((t for t in states if t <= min(arrived, durable)), default=0)
        return {t: state for t, state in states.items() if oldest <= t <= arrived}

    def rounds(self, run: str, context: Context) -> list[int]:
        """The rounds whose states are kept, none if they are of another run or cannot be read; loads no jax."""
        content = self._content(context)
        if content is None:
            return []
        try:
            header, _ = archive.from_bytes(content, self.path(context) or "the state of the node")
            return list(header["rounds"]) if header["run"] == run else []
        except (EditedError, ValueError, KeyError, TypeError):
            return []

    def keep(self, states: States, config: Mapping[str, Any], context: Context) -> None:
        """Replace the memory; it is on the disk when this returns."""
        named = {t: layout.named_leaves(state) for t, state in states.items()}
        header = {"format": _FORMAT, "run": config[RUN_ID], "client": client_name(context), "rounds": list(states)}
        rows = {f"{t} {path}": leaf for t, leaves in named.items() for path, leaf in leaves.items()}
        content = archive.to_bytes(header, rows)
        path = self.path(context)
        if path is None:
            context.state[REMEMBERED] = ConfigRecord({_CONTENT: content})
            return
        with durable_file(path) as file:
            file.write(content)

    def _read(self, fresh: Any, run: str, context: Context) -> States:
        content = self._content(context)
        if content is None:
            return {}
        try:
            header, rows = archive.from_bytes(content, self.path(context) or "the state of the node")
            if header["format"] not in (_FORMAT, _BEFORE) or header["run"] != run:
                log.info("the memory of earlier uploads belongs to another run: starting afresh")
                return {}
            if header["format"] == _BEFORE:
                rows = {_path_now(path): leaf for path, leaf in rows.items()}
            states = {t: layout.with_leaves(fresh, _of_round(t, rows)) for t in header["rounds"]}
        except (EditedError, ValueError, KeyError, TypeError) as error:
            log.info("the memory of earlier uploads cannot be read: %s; starting afresh", error)
            return {}
        if header["client"] != client_name(context):
            raise ValueError(
                f"{self.path(context)} holds the memory of client {header['client']!r}, but this is "
                f"{client_name(context)!r}: give each client a file of its own, by a function of its context"
            )
        return states

    def _content(self, context: Context) -> bytes | None:
        path = self.path(context)
        if path is not None:
            return path.read_bytes() if path.exists() else None
        content = context.state.config_records.get(REMEMBERED, ConfigRecord()).get(_CONTENT)
        return content if isinstance(content, bytes) else None

    def path(self, context: Context) -> Path | None:
        """The file of the memory, None where the node's own state has it."""
        place = self._place(context) if callable(self._place) else self._place
        return None if place is None else Path(place)


def _path_now(path: str) -> str:
    """The path of an array in a file of the format before, where a client had one state: of transform or algorithm."""
    t, _, leaf = path.partition(" ")
    if leaf == ".t" or leaf.startswith(".rows"):
        return f"{t} .algorithm{leaf.replace('.rows', '.word', 1)}"
    return f"{t} .uploads{leaf}"


def _of_round(t: int, rows: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{t} "
    return {path.removeprefix(prefix): leaf for path, leaf in rows.items() if path.startswith(prefix)}
