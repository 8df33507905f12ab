"""Public calls of the workbench that are right: experiments, diagnoses, reports, claims and figures."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from public_calls import TASK, WEIGHTS, WORLD, Call

sys.path.insert(0, str(Path(__file__).parents[1]))
import turnout
from made_up import made_up_run
from tiny_experiment import TINY
from turnout import strategies, tasks, workbench
from turnout.auditor.calibrate import mean_step
from turnout.workbench.experiment import toml

LOG, CLIENT_LIST, EXPERIMENT, FOLDER = "log.csv", "clients.csv", "tiny.toml", "made_up"  # in the working folder
PRESENT = np.random.default_rng(0).random((8, 60)) < np.linspace(0.2, 0.9, 8)[:, None]
OF_LOG = {"slot_seconds": 60.0, "num_rounds": 60, "clients": CLIENT_LIST, "columns": {"client": "who"}, "zone": None}
OF_LOG |= {"shows": "availability"}


def write_files() -> None:
    """The files that the calls read."""
    rows = "".join(f"{t},c{k}\n" for t in range(60) for k in range(8) if PRESENT[k, t])
    Path(LOG).write_text("round,who\n" + rows)
    Path(CLIENT_LIST).write_text("client,size\n" + "".join(f"c{k},{k + 1}\n" for k in range(8)))
    Path(EXPERIMENT).write_text(toml.write(TINY))
    workbench.save(RUN, FOLDER)


FRESH = "a folder that is not there yet"
_numbers = itertools.count()


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which writes to another folder at each call."""

    def write(out: Any, **more: Any) -> Any:
        return function(out=f"new{next(_numbers)}" if out is FRESH else out, **more)

    return write


RUN = made_up_run(2, 3, 5, 6)
EXPERIMENTS = {"experiment": workbench.Experiment.read(TINY)}
POINTS = {"points": RUN}
MATRIX = workbench.Log.from_matrix(PRESENT)
CLASSES = tasks.from_arrays(
    (np.zeros((12, 3), np.float32), np.arange(12) % 2, np.arange(12) % 3), model=tasks.linear(3, 2)
)
AUDIT = turnout.audit(WORLD, [strategies.FedAvg()], importance=WEIGHTS, rounds=9)
DIAGNOSIS = turnout.diagnose(MATRIX, seeds=2, rounds=0)
CHART = workbench.plot(RUN, "curves")
LOOK = {"size": (300, 200), "labels": {"FedAvg": "mine"}, "order": ("FedAvg",), "x_range": (1.0, 3.0), "y_range": None}
LOOK |= {"log": "x", "from_round": 1, "over": "round"}
WORKBENCH = {
    "diagnose": Call(turnout.diagnose, {"log": MATRIX, "shows": "availability", "seeds": 2, "rounds": 0}),
    "diagnose a file": Call(turnout.diagnose, {"log": LOG, "seeds": 2, "rounds": 9, "progress": print} | OF_LOG),
    "read_log": Call(turnout.read_log, {"path": LOG} | OF_LOG),
    "plots": Call(turnout.plots, {"history": RUN.points[0].history, "label": "mine"}),
    "audit_experiment": Call(
        workbench.audit_experiment, EXPERIMENTS | {"rounds": 9, "seeds": 1, "progress": lambda share: None}
    ),
    "diagnosis_words": Call(workbench.diagnosis_words, {"diagnosis": DIAGNOSIS}),
    "examine": Call(workbench.examine, {"log": MATRIX}),
    "label_counts_figure": Call(
        workbench.label_counts_figure, {"task": CLASSES, "split": "train", "title": "who has what"}
    ),
    "load": Call(workbench.load, {"folder": FOLDER}),
    "plot": Call(workbench.plot, POINTS | {"kind": "curves", "metric": "test_loss", "look": workbench.Look()}),
    "Look": Call(workbench.Look, LOOK, lambda look: workbench.plot(RUN, "curves", None, look)),
    "Log.from_matrix": Call(
        workbench.Log.from_matrix,
        {"present": PRESENT, "names": list("abcdefgh"), "watched": np.ones_like(PRESENT), "slot_seconds": 3600.0}
        | {"clock_start": 0.0, "dated": True, "sizes": np.ones(8)},
        workbench.examine,
    ),
    "read_claim": Call(
        workbench.read_claim,
        {"source": "ca_fed_fig1a", "profile": "quick", "settings": ("experiment.rounds=5",), "only_panels": ()},
    ),
    "read_experiment": Call(
        workbench.read_experiment, {"source": EXPERIMENT, "settings": ("rounds=3",), "trust": False}
    ),
    "reproduce": Call(
        workbench.reproduce,
        {"claim": workbench.read_claim("ca_fed_fig1a"), "out": None, "progress": print, "again": False}
        | {"draw": print}
        | {"cells": None},
    ),
    "run": Call(workbench.run, EXPERIMENTS | {"out": None, "progress": print, "watch": print}),
    "run_table": Call(workbench.run_table, POINTS),
    "run_words": Call(workbench.run_words, {"run": RUN}),
    "save": Call(written(workbench.save), {"run": RUN, "out": FRESH, "extra": lambda run, folder: None}),
    "save_audit": Call(
        written(workbench.save_audit), {"audit": AUDIT, "out": FRESH, "experiment": "rounds = 9", "title": "t"}
    ),
    "save_diagnosis": Call(written(workbench.save_diagnosis), {"diagnosis": DIAGNOSIS, "out": FRESH}),
    "save_plot": Call(workbench.save_plot, {"chart": CHART, "out": Path("figure.svg"), "form": "svg"}),
    "tune": Call(
        workbench.tune,
        EXPERIMENTS | {"metric": "train_loss", "keep": (), "among": ("strategy",), "progress": print, "kept": None},
    ),
    "write_report": Call(workbench.write_report, {"folders": [Path(FOLDER)], "out": Path("report.html")}),
    "mean_step": Call(
        mean_step,
        {"strategy": strategies.FedAvg(), "world": WORLD, "fleet": TASK.fleet, "local": turnout.Local(), "rounds": 9}
        | {"seeds": 1, "learning_rate": 0.5},
    ),
}
