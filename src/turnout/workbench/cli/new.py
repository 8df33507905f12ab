"""`turnout new`: a folder to start from, with an experiment, a strategy, a process and a test of them."""

from __future__ import annotations

import os
import shlex
import shutil
import uuid
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from turnout.workbench.cli.command import Output, command


@command()
def new_command(
    name: Annotated[Path, Argument(metavar="NAME", help="The folder to write; it must not exist.")], *, output: Output
) -> None:
    """Write a folder with an experiment, a strategy and a process of your own, and a test that runs."""
    files = write_starter(name)
    lines = f"Folder: {name} ({', '.join(files)})\nNext: {shlex.join(['cd', str(name)])} && turnout run experiment.toml"
    output.tell(name, lambda: {"folder": str(name), "files": files}, lambda: typer.echo(lines))


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
