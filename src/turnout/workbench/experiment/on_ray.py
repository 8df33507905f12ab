"""The cells of an experiment as tasks of Ray; the driver keeps each as soon as it comes.

Only the driver writes to the run folder: workers need neither the folder nor a drive that they share.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import jax

from turnout.errors import UserError
from turnout.files.manifest import EditedError
from turnout.simulator.programs import keep_few_programs, use_compilation_cache
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.inputs import in_folder
from turnout.workbench.experiment.kept import KeptPoints, identity_of_document
from turnout.workbench.experiment.run import Progress, outcomes
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.trust import Code

RETRIES = 3  # of a cell whose worker dies


def import_ray() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import ray
    except ImportError as error:
        raise UserError("--on ray: Ray is not installed: pip install ray") from error
    return ray


class RayCells:
    """Cells that a cluster computes, to which it connects for the first of them.

    Whatever comes is kept at once, whichever experiment is waited for.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connected = functools.cache(connect)
        self._waiting: dict[Any, tuple[KeptPoints, str]] = {}  # the place and the label of each task
        self._failed: dict[Path, Exception] = {}  # by the folder of the experiment's points

    def begin(self, experiment: Experiment, kept: KeptPoints) -> None:
        """Hand out the cells of an experiment that are neither kept nor on their way."""
        on_their_way = {label for place, label in self._waiting.values() if place.folder == kept.folder}
        labels = [point.label for point in points(experiment) if point.label not in on_their_way]
        document, paths = json.dumps(experiment.document()), list(sys.path)
        for label in [label for label in labels if kept.find(label) is None]:
            needed = {"num_cpus": 1, "num_gpus": int(jax.default_backend() == "gpu")}
            task = self._connected().remote(compute_cell).options(max_retries=RETRIES, **needed)
            self._waiting[task.remote(document, label, paths, str(kept.place or Path.cwd()))] = kept, label

    def finish(self, experiment: Experiment, kept: KeptPoints, progress: Progress | None = None) -> None:
        """Wait until all cells of an experiment are kept.

        A cell whose worker dies is computed again. If the driver dies, a later call goes on with what it has kept.
        """
        if kept.folder not in self._failed:
            self.begin(experiment, kept)
        total = len(points(experiment))
        while kept.folder not in self._failed and (left := self._num_left(kept)):
            self._keep_next()
            if progress is not None:
                progress(1 - (left - 1) / total)
        if error := self._failed.get(kept.folder):
            raise error

    def _num_left(self, kept: KeptPoints) -> int:
        return sum(place.folder == kept.folder for place, _ in self._waiting.values())

    def _keep_next(self) -> None:
        """Keep the next cell that comes; or the error that it ended with, and let the rest of its experiment go."""
        ray = self._connected()
        (ready, *_), _ = ray.wait(list(self._waiting))
        kept, label = self._waiting.pop(ready)
        try:
            _keep(kept, label, _result(ray, ready, label))
        except Exception as error:
            self._failed[kept.folder] = error
            self._waiting = {task: cell for task, cell in self._waiting.items() if cell[0].folder != kept.folder}


def compute_cell(document: str, label: str, paths: list[str], place: str) -> bytes:
    """What a worker does: compute the cell of this label, and return it as it is to be kept.

    Relative paths begin at the place where the driver's do, if the worker has such a folder.
    """
    sys.path += [path for path in paths if path not in sys.path]
    use_compilation_cache()
    keep_few_programs()
    with in_folder(Path(place)):
        experiment = Experiment.read(json.loads(document), Code.IMPORTED)
    with tempfile.TemporaryDirectory(prefix="turnout-") as folder:
        kept = KeptPoints(Path(folder), identity_of_document(json.loads(document)), Path(place))
        for _ in outcomes(experiment, points(experiment), kept=kept, labels=[label]):
            pass
        return kept.content(label)


@contextmanager
def cells_on_ray(address: str | None = None) -> Iterator[RayCells]:
    """Cells on a cluster: the one at hand, that of the address, or a new one on this machine."""
    ray = import_ray()
    with redirect_stdout(sys.stderr), ExitStack() as until_the_end:  # what Ray prints is no result

        def connect() -> Any:
            if not ray.is_initialized():
                _connect(ray, address)
                until_the_end.callback(ray.shutdown)
            return ray

        yield RayCells(connect)


def _connect(ray: Any, address: str | None) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of jax about forks, though each is a new program at once; and Ray's tips
            ray.init(address=address, log_to_driver=False, logging_level="warning", include_dashboard=False)
    except (ConnectionError, ValueError) as error:
        raise UserError(f"--on ray:{address}: no cluster answers there ({error})") from error


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
