"""`turnout verify`: whether files are as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from turnout.errors import UserError
from turnout.workbench.cli.command import Output, command


@command(quiet="Print only what is wrong.")
def verify_command(
    paths: Annotated[
        list[Path], Argument(metavar="FOLDER…", help="Folders of results, or above them; or checkpoints.")
    ],
    *,
    output: Output,
) -> None:
    """Check that files are as they were written, and name those that were edited or damaged since."""
    from turnout.files.verification import verify_results

    results = [one for path in paths for one in verify_results(path)]
    tables = [{"path": str(one.path), "manifest": one.has_manifest, "files": one.files} for one in results]
    lines = [f"{one.path}: {f'{one.num_ok} as written' if one.has_manifest else 'no manifest'}" for one in results]
    output.tell(None, lambda: tables, lambda: typer.echo("\n".join(lines)))
    if wrong := [line for one in results for line in one.complaints]:
        raise UserError("; ".join(wrong))
