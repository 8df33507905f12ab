"""One client of six lies: what it does to the model, without and with the guard of `turnout.flower`.

    python benchmarks/liars.py             # some minutes; needs turnout[flower,data]
    python benchmarks/liars.py --only FedAvg --seeds 1

Six clients hold handwritten digits, unequally by class. Five are there in four rounds of five and do 1 to 19 local
steps. The sixth is always there, and lies. Shown is the accuracy on the test images of the five after the last round,
mean ± standard deviation over the seeds, each with data, absences and local work of its own: without the liar in the
fleet, and with it under no guard, the default one, and the geometric median where the strategy allows it. A line ends
with "fails" if even the better guard is more than two points below the fleet without the liar.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flwr.app import ConfigRecord, Context
from flwr.proto.node_pb2 import NodeInfo

from flower import Crowd
from turnout import tasks
from turnout.flower import FlowerStrategy, Guard, Waiting, client_app
from turnout.flower.wire.client_metrics import OWN_NORM
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.metrics import TEST_ACCURACY, TEST_LOSS
from turnout.simulator.client_optimizer import Local
from turnout.simulator.local_training import Jobs, train_locally
from turnout.strategies import MIFA, FedAU, FedAvg, FedNova, NormSampling, Strategy

CLIENTS, LIAR, PRESENT = 6, 5, 0.8
ALLOWED = 2.0  # points of accuracy that a liar may cost
LOCAL = Local(learning_rate=0.1, batch_size=16)
Params = dict[str, np.ndarray]
Lie = Callable[[Params, Params, dict[str, Any], np.random.Generator], tuple[Params, dict[str, Any]]]


def scaled(factor: float) -> Lie:
    """The update times a factor."""
    return lambda start, end, report, _: ({k: start[k] + np.float32(factor) * (end[k] - start[k]) for k in end}, report)


def thrown(length: float) -> Lie:
    """An update of a given length, always in the same direction."""

    def lie(start: Params, end: Params, report: dict[str, Any], draw: np.random.Generator) -> Any:
        away = {name: draw.normal(size=part.shape) for name, part in end.items()}
        whole = np.sqrt(sum(np.sum(part**2) for part in away.values()))
        return {name: (start[name] + away[name] * (length / whole)).astype(np.float32) for name in end}, report

    return lie


def claiming(**claims: float) -> Lie:
    """An honest update with a false report."""
    return lambda _start, end, report, _draw: (end, report | {name.replace("_", "-"): v for name, v in claims.items()})


NOTHING = scaled(1.0)
LIES: dict[str, Lie] = {
    "update × 1000": scaled(1e3),
    "length 9e14": thrown(9e14),
    "sign flipped": scaled(-1.0),
    "sign flipped × 10": scaled(-10.0),
    "NaN": scaled(float("nan")),
    "size 2⁵³": claiming(num_examples=2**53),
    "reach 1e-9": claiming(reach=1e-9),
    "reach 1e9": claiming(reach=1e9),
    "norm 1e14": NOTHING,
}
ALL = (FedAvg, FedAU, FedNova, MIFA)
TOLD_TO = {  # false claims are told to strategies that read them, other lies to all
    "size 2⁵³": (FedAvg, FedAU),
    "reach 1e-9": (FedNova,),
    "reach 1e9": (FedNova,),
    "norm 1e14": (NormSampling,),
}
STRATEGIES: tuple[Strategy, ...] = (FedAvg(), FedAU(), FedNova(), MIFA(), NormSampling(cohort=4))
GUARDS: dict[str, Guard | None] = {"no guard": None, "guard": Guard(), "geometric": Guard(robust="geometric")}


@lru_cache
def data(seed: int, alpha: float) -> tuple[Any, np.ndarray]:
    """The task, and how many steps each client does."""
    steps = np.random.default_rng(seed).integers(1, 20, CLIENTS)
    steps[LIAR] = 10  # a liar with little work does little harm
    return tasks.digits(num_clients=CLIENTS, alpha=alpha, seed=seed), steps


@eqx.filter_jit
def work(task: Any, start: Any, place: Any, steps: Any, rate: Any, seed: Any) -> Any:
    """The model after local work of one client, and the mean loss met."""
    begin = {name: part[None] for name, part in start.items()}
    trained = train_locally(
        LOCAL, task, begin, Jobs(place[None], seed[None], steps[None], rate[None]), steps, masked=False
    )
    return {name: start[name] + trained.updates[name][0] for name in start}, trained.losses[0]


@eqx.filter_jit
def rate(task: Any, params: Any) -> Any:
    return task.per_client(params)


@dataclass
class Fleet(Crowd):
    """Clients of which some are away."""

    present: np.ndarray = field(default_factory=lambda: np.ones((1, 1), bool))
    turn: int = -1

    def get_node_ids(self) -> list[int]:
        here = self.present[max(self.turn, 0) % len(self.present)]
        return [node for node in super().get_node_ids() if here[node - 2]]

    def get_nodes(self) -> list[NodeInfo]:
        self.turn += 1
        return super().get_nodes()


@dataclass
class FalseLength:
    """The ClientApp, where the last client lies about the length of the update that it keeps."""

    app: Any
    norm: float

    def __call__(self, message: Message, context: Context) -> Message:
        reply = self.app(message, context)
        for record in reply.content.metric_records.values() if reply.has_content() else []:
            if int(context.node_config["client-id"]) - 2 == LIAR and OWN_NORM in record:
                record[OWN_NORM] = self.norm
        return reply


def app_of(task: Any, steps: np.ndarray, seed: int, lie: Lie) -> Any:
    """The ClientApp of all clients."""

    def train(arrays: Params, config: dict[str, Any], context: Context) -> Any:
        place = int(context.node_config["client-id"]) - 2
        numbers = (jnp.asarray(number, jnp.int32) for number in (place, steps[place]))
        scalars = (jnp.asarray(config["lr"], jnp.float32), jnp.asarray(config["seed"], jnp.uint32))
        start = {name: jnp.asarray(array) for name, array in arrays.items()}
        end, loss = work(task, start, *numbers, *scalars)
        report = {"loss": float(loss), "reach": int(steps[place]), "num-examples": int(task.sizes[place])}
        trained = {name: np.asarray(part) for name, part in end.items()}
        return lie(arrays, trained, report, np.random.default_rng(seed)) if place == LIAR else (trained, report)

    def evaluate(arrays: Params, _config: dict[str, Any], context: Context) -> dict[str, float]:
        place = int(context.node_config["client-id"]) - 2
        metrics = rate(task, {name: jnp.asarray(array) for name, array in arrays.items()})
        return {"loss": float(metrics[TEST_LOSS][place]), "accuracy": float(metrics[TEST_ACCURACY][place])}

    def size(context: Context) -> int:
        place = int(context.node_config["client-id"]) - 2
        report = {"num-examples": int(task.sizes[place])}
        return (lie({}, {}, report, np.random.default_rng(0))[1] if place == LIAR else report)["num-examples"]

    return client_app(train=train, evaluate=evaluate, size=size)


@dataclass(frozen=True)
class Case:
    """A strategy and a lie, on data that differ so much."""

    strategy: Strategy
    lie: str
    alpha: float = 3.0
    rounds: int = 60


def play(case: Case, guard: Guard | None, seed: int, lies: bool = True) -> float:
    """Final accuracy, in percent, on the test images of the five honest clients; with the sixth only if it lies."""
    (task, steps), lie, rounds = data(seed, case.alpha), case.lie, case.rounds
    draw = np.random.default_rng(100 + seed)
    present = draw.random((rounds + 1, CLIENTS)) < PRESENT
    present[0] = True
    present[:, LIAR] = lies
    app = app_of(task, steps, seed, LIES[lie])
    grid = Fleet(FalseLength(app, 1e14) if lie == "norm 1e14" else app, CLIENTS, present=present)
    target = "size" if lie == "size 2⁵³" else "uniform"
    flower = FlowerStrategy(
        case.strategy, target=target, local=LOCAL, guard=guard, seed=seed, waiting=Waiting(poll=0.001)
    )
    start = {name: np.asarray(part) for name, part in task.init(jr.key(seed)).items()}
    result = flower.start(grid, to_record(start), num_rounds=rounds, timeout=0.01, train_config=ConfigRecord())
    final = {name: jnp.asarray(part) for name, part in to_numpy(result.arrays).items()}
    accuracy, counts = np.asarray(rate(task, final)[TEST_ACCURACY])[:LIAR], np.asarray(task.test.sizes)[:LIAR]
    return 100 * float(np.sum(accuracy * counts) / counts.sum())


def shown(values: list[float]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1) if len(values) > 1 else 0.0:.1f}"


def compare(case: Case, seeds: range) -> None:
    """Print a line of the table."""
    base = [play(case, None, seed, lies=False) for seed in seeds]
    cells, guarded = [shown(base)], []
    for guard in GUARDS.values():
        if guard is not None and guard.robust is not None and isinstance(case.strategy, MIFA | NormSampling):
            cells.append("–")
            continue
        finals = [play(case, guard, seed) for seed in seeds]
        cells.append(shown(finals))
        guarded += [] if guard is None else [np.mean(finals)]
    verdict = "" if max(guarded) >= np.mean(base) - ALLOWED else "  fails"
    columns = " ".join(f"{cell:>13}" for cell in cells)
    print(f"{type(case.strategy).__name__:13} {case.lie:18} {columns}{verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--alpha", type=float, default=3.0, help="of the Dirichlet law: the smaller, the more unlike")
    parser.add_argument("--only", help="one strategy, by its class")
    parser.add_argument("--lie", help="one lie, by its name")
    chosen = parser.parse_args()
    for name in ("flwr", "turnout.flower"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    columns = " ".join(f"{name:>13}" for name in ("without it", *GUARDS))
    print(f"{'strategy':13} {'lie':18} {columns}", flush=True)
    for strategy in STRATEGIES:
        for lie in LIES:
            is_chosen = chosen.only in (None, type(strategy).__name__) and chosen.lie in (None, lie)
            if is_chosen and isinstance(strategy, TOLD_TO.get(lie, ALL)):
                compare(Case(strategy, lie, chosen.alpha, chosen.rounds), range(chosen.seeds))


if __name__ == "__main__":
    main()
