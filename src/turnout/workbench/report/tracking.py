"""Runs told to an experiment tracker: one of its runs per strategy and seed, and one with the table and the figures."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.errors import UserError
from turnout.metrics import COSTS
from turnout.workbench.experiment.run import Run
from turnout.workbench.report.run.run_table import run_table

PROJECT = "turnout"
MODULES = {"mlflow": "mlflow", "wandb": "wandb", "tensorboard": "tensorboardX"}  # packages have the same names
FILES = ("experiment.toml", "report.html", "learning.png", "attention.png")  # of a run folder
MOST_AT_ONCE = 1000  # values in one message to MLflow


@dataclass(frozen=True)
class TrackedRun:
    """One strategy with one seed."""

    name: str
    settings: dict[str, Any]  # strategy, seed, rounds and the swept keys
    curves: dict[str, list[tuple[int, float]]]  # round and value, by metric
    totals: dict[str, float]  # what was spent in all rounds


def log_to(tracker: str, run: Run, folder: Path) -> str:
    """Tell a tracker of a finished run in its folder; where to look for it."""
    try:
        return {"mlflow": _to_mlflow, "wandb": _to_wandb, "tensorboard": _to_tensorboard}[tracker](run, folder)
    except Exception as error:  # a server that does not answer, a key that is wrong: whatever the library raises
        again = f"the run itself is whole; once it is mended: turnout report {folder} --log-to {tracker}"
        raise UserError(f"--log-to {tracker}: {type(error).__name__}: {error}: {again}") from error


def tracked_runs(run: Run) -> Iterator[TrackedRun]:
    """Every strategy, or point of a sweep, with every seed."""
    costs = [cost.name for cost in COSTS]
    for outcome in run.points:
        history = outcome.history
        for row, seed in enumerate(history.seeds):
            yield TrackedRun(
                f"{outcome.label}, seed {seed}",
                {"strategy": outcome.strategy, "label": outcome.label, "seed": seed, "rounds": history.rounds}
                | outcome.settings,
                {
                    name: [(int(t), float(value)) for t, value in zip(history.evaluated, values[row], strict=True)]
                    for name, values in history.metrics.items()
                },
                {name: float(history.records[name][row].sum()) for name in costs if name in history.records},
            )


def import_tracker(tracker: str) -> Any:
    """The library of a tracker, or an error that says how to get it."""
    module = MODULES[tracker]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"--log-to {tracker}: {module} is not installed: pip install {module}") from error


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in FILES if (folder / name).is_file()]


def _rows(run: Run) -> tuple[list[str], list[list[Any]]]:
    """The final table: names of its columns, and rows of plain values."""
    records = [_flat(record) for record in run_table(run).records()]
    columns = list(dict.fromkeys(name for record in records for name in record))
    return columns, [[record.get(name) for name in columns] for record in records]


def _flat(record: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Tables inside tables as one, with dotted names; lists as text."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[above + name] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _to_mlflow(run: Run, folder: Path) -> str:
    """To where MLFLOW_TRACKING_URI says, or MLflow's own default, a file here; strategies are below their run."""
    mlflow = import_tracker("mlflow")
    client = mlflow.MlflowClient()
    known = client.get_experiment_by_name(PROJECT)
    experiment = client.create_experiment(PROJECT) if known is None else known.experiment_id
    whole = client.create_run(experiment, run_name=folder.absolute().name).info.run_id
    for tracked in tracked_runs(run):
        one = client.create_run(experiment, run_name=tracked.name, tags={"mlflow.parentRunId": whole}).info.run_id
        now, entities = int(1000 * time.time()), mlflow.entities
        values = [(name, t, value) for name, curve in tracked.curves.items() for t, value in curve]
        values += [(name, tracked.settings["rounds"], value) for name, value in tracked.totals.items()]
        params = [entities.Param(name, str(value)) for name, value in tracked.settings.items()]
        client.log_batch(one, params=params)
        for first in range(0, len(values), MOST_AT_ONCE):
            piece = values[first : first + MOST_AT_ONCE]
            client.log_batch(one, [entities.Metric(name, value, now, t) for name, t, value in piece])
        client.set_terminated(one)
    columns, rows = _rows(run)
    client.log_text(whole, "\n".join(map(json.dumps, [columns, *rows])), "results.jsonl")
    for file in _files(folder):
        client.log_artifact(whole, str(file))
    client.set_terminated(whole)
    return f"MLflow: {mlflow.get_tracking_uri()}"


def _to_wandb(run: Run, folder: Path) -> str:
    """Into a project, the runs of one run folder as a group; WANDB_MODE=offline keeps them in the folder `wandb`."""
    wandb = import_tracker("wandb")
    name = folder.absolute().name
    common = {"project": os.environ.get("WANDB_PROJECT", PROJECT), "group": name, "reinit": "finish_previous"}
    for tracked in tracked_runs(run):
        with wandb.init(**common, name=tracked.name, job_type="strategy", config=tracked.settings) as one:
            by_round: dict[int, dict[str, float]] = {}
            for metric, curve in tracked.curves.items():
                for t, value in curve:
                    by_round.setdefault(t, {})[metric] = value
            for t, values in sorted(by_round.items()):
                one.log(values, step=t)
            one.summary.update(tracked.totals)
    with wandb.init(**common, name=name, job_type="results") as whole:
        columns, rows = _rows(run)
        whole.log({"results": wandb.Table(columns=columns, data=rows)})
        artefact = wandb.Artifact(re.sub(r"[^\w.-]+", "_", name), type="run")
        for file in _files(folder):
            artefact.add_file(str(file))
        whole.log_artifact(artefact)
    return f"W&B: project {common['project']}, group {name}"


def _to_tensorboard(run: Run, folder: Path) -> str:
    """Into `tensorboard/` of the run folder, in the place of what was logged there before."""
    board = import_tracker("tensorboard")
    place = folder / "tensorboard"
    shutil.rmtree(place, ignore_errors=True)
    for number, tracked in enumerate(tracked_runs(run)):
        with board.SummaryWriter(str(place / f"{number}-{re.sub(r'[^a-zA-Z0-9.=_-]+', '_', tracked.name)}")) as writer:
            writer.add_text("settings", json.dumps(tracked.settings, default=str))
            for metric, curve in tracked.curves.items():
                for t, value in curve:
                    writer.add_scalar(metric, value, t)
            for cost, value in tracked.totals.items():
                writer.add_scalar(f"total/{cost}", value, tracked.settings["rounds"])
    with board.SummaryWriter(str(place / "results")) as writer:
        writer.add_text("results", "\n".join(run_table(run).markdown()))
        writer.add_text("experiment", f"```\n{run.toml}\n```")
        for file in _files(folder):
            if file.suffix == ".png":
                _add_png(writer, file)
    return f"TensorBoard: tensorboard --logdir {place}"


def _add_png(writer: Any, file: Path) -> None:
    """Add a picture as it is; the usual way would need a library that reads it."""
    proto = importlib.import_module("tensorboardX.proto.summary_pb2")
    content = file.read_bytes()
    width, height = struct.unpack(">II", content[16:24])  # where every PNG has them
    image = proto.Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=content)
    writer.file_writer.add_summary(proto.Summary(value=[proto.Summary.Value(tag=file.stem, image=image)]), 0)
