"""`turnout new`: a folder to start from, with an experiment, a strategy, a process and a test of them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import uuid
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from turnout.workbench.cli.options import AsJson, Debug, Quiet
from turnout.workbench.cli.terminal import one_line_errors


def new_command(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to write; it must not exist.")],
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a folder with an experiment, a strategy and a process of your own, and a test that runs."""
    with one_line_errors(debug):
        files = write_starter(name)
        if as_json:
            typer.echo(json.dumps({"folder": str(name), "files": files}, indent=2))
        elif quiet:
            typer.echo(str(name))
        else:
            typer.echo(f"Folder: {name} ({', '.join(files)})")
            typer.echo(f"Next: {shlex.join(['cd', str(name)])} && turnout run experiment.toml")


def write_starter(folder: Path) -> list[str]:
    """Write the files of a new study into a folder, all or none of them; their names."""
    from turnout.errors import FolderError
    from turnout.files.whole import create_folder, free_folder

    files = [
        file
        for file in (resources.files("turnout") / "workbench" / "experiment" / "starter").iterdir()
        if file.is_file()
    ]
    if folder.exists():
        raise FolderError(f"{folder}: exists already: choose another name")
    free_folder(folder)
    draft = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        with create_folder(draft):
            for file in files:
                (draft / file.name).write_bytes(file.read_bytes())
            os.replace(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return sorted(file.name for file in files)
