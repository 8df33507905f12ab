"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from turnout.errors import UserError
from turnout.workbench.cli import completion

Size = Literal["quick", "full"]
DEMO = "demo"
Experiment = Annotated[
    str,
    Argument(
        metavar="[FILE.toml|NAME]",
        help="A TOML file, or the name of a shipped experiment.",
        autocompletion=completion.experiments,
    ),
]
Settings = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Change a key, such as task.gamma=1.")]
Trust = Annotated[
    bool, Option("--trust", help="Import code that a file names, though it is not in the present folder.")
]
Resume = Annotated[Path | None, Option("--resume", metavar="DIR", help="Go on with the unfinished run in this folder.")]
Cells = Annotated[
    str | None, Option("--cells", metavar="I/N", help="Compute the share of job I of N alone, into the folder of all.")
]
On = Annotated[
    str | None, Option("--on", metavar="ray[:ADDRESS]", help="Compute the cells on a cluster of Ray, or a local one.")
]
Quick = Annotated[bool, Option("--quick", help="In minutes on a laptop; this is the default.")]
Again = Annotated[bool, Option("--again", help="Run anew what was run before, wholly or in part.")]
LogTo = Annotated[
    str | None, Option("--log-to", metavar="mlflow|wandb|tensorboard", help="Tell a tracker of the finished run.")
]


def size_asked(quick: bool, full: bool) -> Size | None:
    """The one of two sizes that is asked for, if one is."""
    if quick and full:
        raise UserError("--quick and --full: choose one")
    return "full" if full else "quick" if quick else None
