"""The cells of an experiment as tasks of Ray; the driver keeps each as soon as it comes.

Only the driver writes to the run folder: workers need neither the folder nor a drive that they share.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import jax

from turnout.errors import UserError
from turnout.experiment.config import Experiment
from turnout.experiment.kept import KeptPoints, asked_of
from turnout.experiment.run import Progress, outcomes
from turnout.experiment.sweep import points
from turnout.experiment.trust import Code
from turnout.experiment.unfinished import Unfinished
from turnout.files.manifest import EditedError
from turnout.simulator.programs import keep_few_programs, use_compilation_cache

RETRIES = 3  # of a cell whose worker dies


def imported_ray() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import ray
    except ImportError as error:
        raise UserError("--on ray: Ray is not installed: pip install ray") from error
    return ray


def compute_on_ray(unfinished: Unfinished, address: str | None = None, progress: Progress | None = None) -> None:
    """Compute the cells that are not kept yet on a cluster, or on one of this machine alone without an address.

    A cell whose worker dies is computed again. If the driver dies, `--resume` goes on with the cells that it has kept.
    """
    ray, kept = imported_ray(), unfinished.kept
    labels = [point.label for point in points(unfinished.experiment)]
    missing = [label for label in labels if kept.find(label) is None]
    if not missing:
        return
    document, paths = json.dumps(unfinished.experiment.document()), list(sys.path)
    with redirect_stdout(sys.stderr), _cluster(ray, address):  # what Ray prints is no result
        needed = {"num_cpus": 1, "num_gpus": int(jax.default_backend() == "gpu")}
        task = ray.remote(computed_cell).options(max_retries=RETRIES, **needed)
        waiting = {task.remote(document, label, paths): label for label in missing}
        while waiting:
            (ready, *_), _ = ray.wait(list(waiting))
            label = waiting.pop(ready)
            _keep(kept, label, _result(ray, ready, label))
            if progress is not None:
                progress(1 - len(waiting) / len(labels))


def computed_cell(document: str, label: str, paths: list[str]) -> bytes:
    """What a worker does: compute the cell of this label, and return it as it is to be kept."""
    sys.path += [path for path in paths if path not in sys.path]
    use_compilation_cache()
    keep_few_programs()
    experiment = Experiment.read(json.loads(document), Code.IMPORTED)
    with tempfile.TemporaryDirectory(prefix="turnout-") as folder:
        kept = KeptPoints(Path(folder), asked_of(experiment))
        for _ in outcomes(experiment, points(experiment), kept=kept, labels=[label]):
            pass
        return kept.content(label)


@contextmanager
def _cluster(ray: Any, address: str | None) -> Iterator[None]:
    """Be connected to a cluster: the one at hand, that of the address, or a new one on this machine."""
    if ray.is_initialized():
        yield
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of jax about forks, though each is a new program at once; and Ray's tips
            ray.init(address=address, log_to_driver=False, logging_level="warning", include_dashboard=False)
    except (ConnectionError, ValueError) as error:
        raise UserError(f"--on ray:{address}: no cluster answers there ({error})") from error
    try:
        yield
    finally:
        ray.shutdown()


def _result(ray: Any, ready: Any, label: str) -> bytes:
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError as error:  # of the cell itself, which another worker would meet too
        raise error.cause from error
    except ray.exceptions.WorkerCrashedError as error:
        raise RuntimeError(f"{label}: its worker died {RETRIES + 1} times: see the logs of Ray") from error


def _keep(kept: KeptPoints, label: str, content: bytes) -> None:
    try:
        kept.keep_content(label, content)
    except EditedError as error:
        raise UserError(f"--on ray: {error}: workers must be like the machine of the driver") from error
