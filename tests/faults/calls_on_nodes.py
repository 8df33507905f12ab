"""Public calls of the Flower adapter that are right; a campaign of its own, since they need `flwr`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp
from flwr.common import Context, RecordDict
from flwr.serverapp import Grid
from public_calls import PROCESS, Call

import turnout
from turnout import flower, strategies, uploads


class NoGrid(Grid):
    """A grid without nodes."""

    def set_run(self, run: Any) -> None: ...
    def create_message(self, *_: Any, **__: Any) -> Any: ...
    def get_node_ids(self) -> Any:
        return []

    def push_messages(self, messages: Any) -> Any:
        return []

    def pull_messages(self, message_ids: Any) -> Any:
        return []

    def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
        return []

    @property
    def run(self) -> Any: ...


def train(arrays: Any, settings: Any, context: Any) -> Any:
    return arrays, {}


def node() -> Context:
    return Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})


def serve(**groups: Any) -> Any:
    return flower.FlowerStrategy(strategies.FedAvg(), **groups)


GUARD = {"clip": 4.0, "reach": 10.0, "size": 4.0, "window": 10, "rollback": True, "robust": "median", "strikes": 3}
STRATEGY = {"strategy": strategies.LastWord(), "target": "uniform", "local": turnout.Local(), "seed": 0}
STRATEGY |= {"server": turnout.ServerSettings(), "members": flower.Members(), "waiting": flower.Waiting()}
STRATEGY |= {"guard": flower.Guard(), "limits": flower.Limits(), "files": flower.Files(), "evaluate_every": 1}
STRATEGY |= {"quorum": 1.0, "stretch": 2.0, "fraction_train": 1.0, "fraction_evaluate": 1.0, "min_train_nodes": 0}
STRATEGY |= {"min_evaluate_nodes": 0, "min_available_nodes": 0, "weighted_by_key": "num-examples"}
STRATEGY |= {"arrayrecord_key": "arrays", "configrecord_key": "config", "train_metrics_aggr_fn": print}
APP = {"name": lambda context: "a", "size": lambda context: 3, "loss": lambda arrays, settings, context: 0.5}
ON_NODES = {
    "Waiting": Call(
        flower.Waiting, {"greeting": 3.0, "probe": 6.0, "poll": 1.0, "patience": 60.0}, lambda one: serve(waiting=one)
    ),
    "Members": Call(
        flower.Members,
        {"identity": "declared", "retire_after": 9.0, "listed": "unknown"},
        lambda one: serve(members=one),
    ),
    "Files": Call(
        flower.Files,
        {"checkpoint": "state.npz", "record": Path("record"), "participation": "log.csv", "every": 1},
        lambda one: serve(files=one),
    ),
    "Limits": Call(flower.Limits, {"norm": 9.0, "loss": 1e9, "reach": 1e9}, lambda one: serve(limits=one)),
    "Guard": Call(flower.Guard, GUARD | {"rest": 10}, lambda one: serve(guard=one)),
    "Rules": Call(flower.Rules, {"least": 3, "majority": 0.5}, lambda one: flower.greet(ClientApp(), secure=one)),
    "SecureSums": Call(
        flower.SecureSums,
        {"neighbours": 4, "dropouts": 0.1, "least": 3, "quantum": 0.5, "room": 64, "metrics": ("loss",)},
        lambda one: flower.FlowerStrategy(
            strategies.LastWord(memory="clients"), secure=one, guard=None, evaluate_every=0
        ),
    ),
    "FlowerStrategy": Call(flower.FlowerStrategy, STRATEGY),
    "Driver": Call(
        flower.Driver,
        {"strategy": strategies.FedAvg(), "arrays": {"w": np.ones(2)}, "local": turnout.Local(), "seed": 0}
        | {"settings": turnout.ServerSettings()},
    ),
    "ImposedGrid": Call(
        flower.ImposedGrid, {"grid": NoGrid(), "process": PROCESS, "seed": 0, "waiting": flower.Waiting()}
    ),
    "client_app": Call(
        flower.client_app,
        {"train": train, "evaluate": lambda arrays, settings, context: {}, "uploads": uploads.Plain(), "state": "kept"}
        | {name: APP[name] for name in ("size", "loss")},
    ),
    "greet": Call(flower.greet, {"app": ClientApp(), "reach": lambda metrics: 5.0, "state": "kept"} | APP),
    "leave": Call(flower.leave, {"context": node()}),
}
