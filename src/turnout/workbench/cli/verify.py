"""`turnout verify`: whether files are as they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from turnout.errors import UserError
from turnout.workbench.cli.options import AsJson, Debug
from turnout.workbench.cli.terminal import one_line_errors


def verify_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FOLDER…", help="Folders of results, or above them; or checkpoints.")
    ],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is wrong.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check that files are as they were written, and name those that were edited or damaged since."""
    with one_line_errors(debug):
        from turnout.files.verification import verify_results

        results = [one for path in paths for one in verify_results(path)]
        if as_json:
            tables = [{"path": str(one.path), "manifest": one.has_manifest, "files": one.files} for one in results]
            typer.echo(json.dumps(tables, indent=2))
        elif not quiet:
            for one in results:
                typer.echo(f"{one.path}: {f'{one.num_ok} as written' if one.has_manifest else 'no manifest'}")
        if wrong := [line for one in results for line in one.complaints]:
            raise UserError("; ".join(wrong))
