"""Public calls that are right, by name: each is a function with its arguments, of which a campaign makes some wrong.

A simulation ends where the compiled program would begin, and counts as accepted there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import jax
import numpy as np

import turnout
from turnout import availability, compute, links, strategies, tasks, theory, uploads
from turnout.auditor import auditing
from turnout.auditor import calibrate as calibrating
from turnout.optimizers import InverseTime
from turnout.server.facts import Online

simulating = importlib.import_module("turnout.simulator.simulate")  # `turnout.simulator.simulate` is the function
running = importlib.import_module("turnout.workbench.experiment.run")  # so is that of the workbench
CLIENTS = 6
WEIGHTS = [0.1, 0.2, 0.3, 0.2, 0.1, 0.1]
TASK = tasks.quadratics(CLIENTS, 2)
PROCESS = availability.markov(CLIENTS, pi=0.5, lam=0.2)
WORLD = turnout.World(PROCESS)
CHAIN = [[0.9, 0.1], [0.3, 0.7]]


@dataclass(frozen=True)
class Call:
    """A function, arguments with which it works, and what is done with its result."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    use: Callable[[Any], Any] = field(default=lambda result: result)


class Reached(Exception):
    """The compiled program would begin here."""


def stop(*_: Any, **__: Any) -> Any:
    raise Reached


def stub() -> None:
    """Compile nothing from now on."""
    simulating.run_group = running.run_group = stop
    auditing.play_trials = calibrating.play_trials = stop


def train(strategy: Any = None, **more: Any) -> Any:
    return turnout.simulate(TASK, WORLD, strategy or strategies.FedAvg(), rounds=2, **more)


def play(process: Any) -> Any:
    key = jax.random.key(0)
    return jax.eval_shape(lambda: process.step(process.init(key), 0, key))


RUNS = {"rounds": 2, "seeds": [0, 1], "local": turnout.Local(learning_rate=0.1)}
SERVER = {"learning_rate": 0.5, "radius": 2.0, "rest": 1, "facts": Online(), "optimizer": None}
SIMULATED = {"evaluate_every": 1, "metrics": ["train_loss"], "segment": 1, "progress": lambda done, total: None}
ENGINE = {
    "simulate": Call(
        turnout.simulate,
        {
            "task": TASK,
            "world": WORLD,
            "strategy": strategies.LastWord(),
            "uploads": uploads.Clip(1.0),
            "spread": "lanes",
        }
        | {**RUNS, **SIMULATED, **{name: value for name, value in SERVER.items() if value is not None}},
    ),
    "simulate_trials": Call(
        turnout.simulate_trials,
        {"task": TASK, "trials": [turnout.Trial(strategies.FedAvg(), WORLD)], "rounds": 2, "seeds": 2, **SIMULATED}
        | {"watch": None, "spread": "lanes"},
    ),
    "audit": Call(
        turnout.audit,
        {"world": WORLD, "strategies": [strategies.FedAvg()], "importance": WEIGHTS, **RUNS, "progress": None}
        | {"names": list("abcdef"), "rest": 1},
    ),
    "effective_weights": Call(
        turnout.effective_weights,
        {"strategy": strategies.LastWord(), "world": WORLD, "importance": WEIGHTS, **RUNS, "learning_rate": 0.5},
    ),
    "compare": Call(
        turnout.compare,
        {"task": TASK, "world": WORLD, "strategies": {"mine": strategies.FedAvg()}, **RUNS, "metrics": ["train_loss"]}
        | {"evaluate_every": 1, "title": "t", "spread": "lanes", "uploads": uploads.Plain(), "radius": 2.0},
    ),
    "World": Call(
        turnout.World,
        {"availability": PROCESS, "links": links.bernoulli(CLIENTS, 0.5), "compute": 2},
        lambda world: turnout.simulate(TASK, world, strategies.FedAvg(), rounds=2),
    ),
    "Trial": Call(
        turnout.Trial,
        {"strategy": strategies.FedAvg(), "world": WORLD, "local": turnout.Local(), "server": turnout.ServerSettings()}
        | {"uploads": uploads.Plain()},
        lambda trial: turnout.simulate_trials(TASK, [trial], rounds=2),
    ),
    "Local": Call(
        turnout.Local,
        {"learning_rate": 0.1, "proximal": 0.1, "decay": 0.1, "batch_size": 2, "batches": "drawn", "probed": "batch"}
        | {"lasting": False, "precision": "float32", "optimizer": None},
        lambda local: train(local=local),
    ),
    "ServerSettings": Call(
        turnout.ServerSettings,
        {name: value for name, value in SERVER.items() if value is not None},
        lambda settings: turnout.Server.of(TASK.fleet, strategies.FedAvg(), settings, 3),
    ),
    "Server.of": Call(
        turnout.Server.of,
        {"fleet": TASK.fleet, "strategy": strategies.FedAvg(), "settings": turnout.ServerSettings(), "slots": 3},
    ),
    "Online": Call(
        Online,
        {"prior_on": 1.0, "prior_off": 1.0, "prior_success": 1.0, "prior_failure": 0.0, "past": 3},
        lambda facts: train(facts=facts),
    ),
    "InverseTime": Call(InverseTime, {"first": 0.1, "half": 3.0}, lambda rate: train(learning_rate=rate)),
}
GIVEN = {"odds": WEIGHTS, "clusters": [0, 0, 1, 1, 2, 2], "optimum": 0.1, "batch": 3.0, "effective_steps": 2.0}
PARTS = {"parts": (uploads.Clip(1.0),), "inner": uploads.TopK(0.5), "norm": 1.0, "scale": 0.1, "share": 0.5}


def fields_of(kind: Any) -> dict[str, Any]:
    """A value for every field: its default, or one that is given here where that is None or missing."""
    given = GIVEN | PARTS | {"cohort": 2}
    return {one.name: given.get(one.name, one.default) for one in fields(kind)}


STRATEGIES = {
    name: Call(getattr(strategies, name), fields_of(getattr(strategies, name)), train)
    for name in strategies.__all__
    if name not in ("Strategy", "ClientSide", "Words")
}
UPLOADS = {
    name: Call(getattr(uploads, name), fields_of(getattr(uploads, name)), lambda upload: train(uploads=upload))
    for name in uploads.__all__
    if name not in ("Upload", "UploadContext", "WireSize")
}
N = {"num_clients": CLIENTS}
PROCESSES = {
    "alternating": N | {"t1": 2, "t2": 3, "groups": [0, 0, 0, 1, 1, 1]},
    "bernoulli": N | {"pi": WEIGHTS},
    "bounded_absence": N | {"chance": 0.5, "within": 3},
    "clustered": N | {"clusters": 2, "pi": 0.5, "lam": 0.1},
    "cyclic": N | {"period": 4, "offset": 1, "duration": [1, 2, 1, 2, 1, 2]},
    "diurnal": N
    | {"rounds_per_day": 8, "mean": 0.3, "amplitude": 0.1, "peak_hour": 4.0, "sharpness": 0.5, "zones": 2}
    | {"lam": 0.1},
    "finite_chain": {"num_clients": 2, "transition": CHAIN, "masks": [[1, 0], [0, 1]]},
    "inclusion_probabilities": {"p": WEIGHTS, "n": 2},
    "periodic": N | {"rate": 0.5, "period": 4, "depth": 0.2, "cutoff": 0.1},
    "markov": N | {"pi": 0.5, "lam": 0.1},
    "minimum_separation": N | {"weights": WEIGHTS, "batch": 1, "separation": 1, "sampling": "product"},
    "two_classes": N
    | {"mean": 0.5, "gap": 0.3, "lam": 0.8, "lam_noise": 0.01, "split": "both", "seed": 0, "shuffle": False},
}
AVAILABILITY = {
    name: Call(
        getattr(availability, name), arguments, play if name != "inclusion_probabilities" else lambda result: result
    )
    for name, arguments in PROCESSES.items()
} | {
    "Markov": Call(availability.Markov, {"wake": np.full(CLIENTS, 0.3), "sleep": np.full(CLIENTS, 0.2)}, play),
    "Bernoulli": Call(availability.Bernoulli, {"pi": np.full(CLIENTS, 0.3)}, play),
}
LINKS = {
    "perfect": N,
    "bernoulli": N | {"success": 0.5},
    "drawn": N | {"low": 0.2, "high": 0.5, "seed": 0},
    "redrawn": N | {"low": 0.1, "high": [0.5] * CLIENTS},
    "bursty": N | {"good": 0.9, "bad": 0.1, "fail": 0.1, "heal": 0.5},
}
COMPUTE = {
    "fixed": N | {"steps": 3},
    "per_client": N | {"steps": [1, 2, 3, 1, 2, 3], "unit": "epochs", "sizes": np.arange(1, 7), "batch_size": 2},
    "drawn": N | {"low": 1, "high": 3, "seed": 0},
    "redrawn": N | {"low": 1, "high": 3, "unit": "steps"},
}
WORLDS = {f"links.{name}": Call(getattr(links, name), arguments) for name, arguments in LINKS.items()} | {
    f"compute.{name}": Call(getattr(compute, name), arguments) for name, arguments in COMPUTE.items()
}
SAMPLES = (np.zeros((12, 3), np.float32), np.arange(12) % 2, np.arange(12) % 3)
HELD_OUT = {"importance": "size", "validation": 0.2, "test": 0.2, "seed": 0, "ridge": 0.01}
TASKS = {
    "quadratics": {"num_clients": 4, "dimension": 2, "curvature": 1.0, "condition": 2.0, "spread": 1.0, "noise": 0.1}
    | {"num_samples": 5, "importance": "uniform", "seed": 0},
    "robust_regression": {"num_clients": 4, "dimension": 2, "samples_per_client": 5, "seed": 0},
    "synthetic_binary": {"num_clients": 4, "num_features": 3, "samples_per_client": 5, "validation_per_client": 2}
    | {"test_per_client": 2, "flip": 0.2, "groups": "random", "ridge": 0.01, "importance": "size", "seed": 0},
    "synthetic_leaf": {"num_clients": 4, "gamma": 0.5, "delta": 0.5, "samples_per_client": 9, "num_features": 4}
    | {"num_classes": 3, "iid": False, **HELD_OUT},
    "two_clients": {"first": 0.0, "second": 1.0, "start": 0.5},
    "digits": {"num_clients": 4, "partition": "dirichlet", "alpha": 0.5, "samples_per_client": 5, "swapped_pairs": 1}
    | {"model": "linear", "hidden": (4,), "per_client": 2, "exponent": 1.0, **HELD_OUT},
    "from_arrays": {"train": SAMPLES, "test": SAMPLES, "model": tasks.linear(3, 2), "loss": "cross_entropy"}
    | {
        "ridge": 0.1,
        "importance": "size",
        "num_clients": 3,
        "validation_share": 0.2,
        "seed": 0,
        "scale": 0.1,
        "shift": 0.0,
    },
    "linear": {"num_inputs": 3, "num_outputs": 2, "bias": True},
    "mlp": {"num_inputs": 3, "hidden": (4,), "num_outputs": 2},
    "lstm": {"vocabulary": 5, "width": 4},
    "transformer": {"vocabulary": 5, "context": 4, "width": 4, "heads": 2, "layers": 1},
    "model_named": {"name": "mlp", "image": (4, 4), "num_classes": 3, "hidden": (4,)},
}
BUILDERS = {name: Call(getattr(tasks, name), arguments) for name, arguments in TASKS.items()}
SMOOTH = {"smoothness": 1.0, "gap": 1.0, "dissimilarity": 0.5}
LEARNT = {"learning_rate": 1e-6, **SMOOTH}
TWO = {"target": WEIGHTS, "effective": WEIGHTS[::-1]}
LONG_RUN = {"rates": [0.5] * CLIENTS, "weights": WEIGHTS, "reach": [1.0] * CLIENTS}
PAIR = {"pi": [0.3, 0.5], "lam": 0.2}
BATCHES = {"p": WEIGHTS, "batch": 1, "separation": 1}
THEORY = {
    "alternating_limit": {"learning_rate": 0.1, "first_stay": 2, "second_stay": 3, "centres": (0.0, 1.0)},
    "bias_bound_chi_square": TWO | {"condition": 2.0, "heterogeneity": 0.5, "sharp": False},
    "bias_bound_total_variation": TWO | {"condition": 2.0, "heterogeneity": 0.5, "sharp": False},
    "biased_optimum_of_quadratics": TWO | {"centres": np.ones((CLIENTS, 2)), "curvature": 1.0},
    "chi_square_to_effective": TWO,
    "client_chains": PAIR,
    "correlated_fedavg_bound": LEARNT | {"participation": WEIGHTS, "local_steps": 2, "rounds": 1000, "mixing_time": 2},
    "effective_importance_sampling": {"target": WEIGHTS, "failure": WEIGHTS, "reach": [1.0] * CLIENTS},
    "effective_normalised": LONG_RUN,
    "effective_raw": LONG_RUN,
    "effective_rounds": {"lam": [0.2, 0.5], "rounds": 10},
    "eigenvalues": {"transition": CHAIN, "count": 2},
    "error_decomposition": {"optimisation_error": 0.1, "bias_error": 0.1, "condition": 2.0, "sharp": False},
    "faded_distance": {"t": [5, 6], "longest_age": 3, "fading": 0.5},
    "fedacs_bound": LEARNT
    | {"target": WEIGHTS, "failures": np.full((3, CLIENTS), 0.1), "reaches": np.ones((3, CLIENTS)), "noise": 0.1}
    | {"dissimilarity_slope": 1.0},
    "fedlaavg_alternating_bound": {"learning_rate": 0.1, "rounds": 10, "first_stay": 2, "second_stay": 3, "start": 0.5}
    | {"centres": (0.0, 1.0)},
    "fedlaavg_bound": {"learning_rate": 0.001, "rounds": 10, "num_clients": 5, "staleness": 2, "smoothness": 1.0}
    | {"gradient_bound": 1.0, "noise": 0.1, "gap": 1.0, "local_steps": 1},
    "fedlaavg_learning_rate": {"rounds": 1000, "num_clients": 5, "cohort": 2, "longest_absence": 2, "smoothness": 1.0}
    | {"local_steps": 1},
    "gap_law": {"chain": theory.order_chain(WEIGHTS, 1, 1), "client": 1, "longest": 5},
    "gradient_decomposition": TWO | {"surrogate_error": 0.1, "dissimilarity": 0.5, "dissimilarity_slope": 1.0},
    "is_reversible": {"transition": CHAIN},
    "kl_to_effective": TWO,
    "largest_sampling_step": {"reach": [1.0] * CLIENTS, "smoothness": 1.0, "dissimilarity_slope": 1.0},
    "last_word_bound": {"steps": [0.01] * 20, "rounds": 20, "lag": 0.03, "largest_share": 0.2, "smoothness": 1.0}
    | {"dissimilarity": 0.5, "noise": 0.1, "gap": 1.0, "learning_rate": 0.01, "local_steps": 2, "path": 0.1}
    | {"off_target": 0.1},
    "longest_age": {"within": 3, "success": 0.5, "num_clients": 5, "rounds": 10, "miss": 0.01},
    "longest_staleness": {"num_clients": 5, "cohort": 2, "longest_absence": 3},
    "markov_bound": {"rates": [0.5] * CLIENTS, "weights": WEIGHTS, "steps": [0.01, 0.01], "local_steps": 1}
    | {"smoothness": 1.0, "diameter": 1.0, "gradient_bound": 1.0, "noisy_gradient_bound": 1.0, "loss_range": 1.0}
    | {"heterogeneity": 0.1, "noise": WEIGHTS, "num_states": 2, "mixing_rate": 0.5, "mixing_constant": 1.0}
    | {"mixing_start": 0},
    "mean_gap": BATCHES,
    "mean_off_run": PAIR,
    "mean_on_run": PAIR,
    "minimum_separation": BATCHES,
    "mixing_time": {"transition": CHAIN, "error": 0.25, "start": 0},
    "normalised_round_weights": {"rates": [0.5] * CLIENTS, "weights": WEIGHTS},
    "normalised_round_weights_of_law": {"masks": np.eye(3, dtype=bool), "probabilities": [0.2, 0.3, 0.5]}
    | {"weights": [1.0, 2.0, 3.0]},
    "order_chain": BATCHES | {"sampling": "product"},
    "participation_law": {"chain": theory.order_chain(WEIGHTS, 1, 1)},
    "period": {"transition": CHAIN},
    "product_chain": {"transitions": [np.array(CHAIN), np.array(CHAIN)]},
    "product_masks": {"num_clients": 3},
    "product_mixing_bounds": PAIR | {"error": 0.25},
    "retirement_age": {"mean_absence": 20.0, "vanishing": 0.02, "heard": 100, "fading": 0.5},
    "return_law": {"transition": CHAIN, "inside": np.array([True, False]), "longest": 4},
    "sampling_bound": LEARNT
    | {"odds": WEIGHTS, "failure": WEIGHTS, "reach": [1.0] * CLIENTS, "rounds": 10, "noise": 0.1}
    | {"dissimilarity_slope": 1.0},
    "second_eigenvalue": {"transition": CHAIN},
    "separation_curve": {"p": WEIGHTS, "batch": 1, "separations": [0, 1]},
    "shortest_gap": {"p": WEIGHTS, "separation": 1},
    "stationary_law": {"transition": CHAIN},
    "total_variation": TWO,
    "total_variation_over_time": {"transition": CHAIN, "rounds": 5, "start": 0},
    "two_state_mixing_time": PAIR | {"error": 0.25},
    "variance_of_mean": PAIR | {"rounds": 10},
    "wake_and_sleep": PAIR,
    "word_left": {"away": [0.0, 5.0], "heard": 10, "fading": 0.5},
}
RESULTS = {f"theory.{name}": Call(getattr(theory, name), THEORY[name]) for name in theory.__all__ if name in THEORY}
CALLS = ENGINE | STRATEGIES | UPLOADS | AVAILABILITY | WORLDS | BUILDERS | RESULTS
