"""The circumstances of a result: command, device, versions, commit."""

from __future__ import annotations

import functools
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from turnout import __version__

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "polars", "altair", "flwr")
KEYS = ("command", "device", "versions", "platform", "commit")


@functools.cache
def circumstances() -> dict[str, Any]:
    """What is needed, beside the experiment, to get the same numbers again."""
    device = jax.devices()[0]
    values = (
        shlex.join([Path(sys.argv[0]).name.replace("__main__.py", "turnout"), *sys.argv[1:]]),
        {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        {"python": platform.python_version(), "turnout": __version__} | {name: _version(name) for name in PACKAGES},
        f"{platform.system()} {platform.machine()}",
        _commit(),
    )
    return dict(zip(KEYS, values, strict=True))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Commit of the repository in which the run was started, marked if files had changed since."""

    def git(*arguments: str) -> str:
        answer = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=5, check=True)
        return answer.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None
