"""Run a claim, check it, and write a folder from which it can be repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from turnout.declarations import checked
from turnout.files.whole import free_folder, replace_folder
from turnout.workbench.experiment.circumstances import circumstances
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.kept import KeptPoints
from turnout.workbench.experiment.on_ray import RayCells
from turnout.workbench.experiment.run import Outcome, Progress, run_points
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.tuning import RATES, tune, write_rows
from turnout.workbench.reproduction.claim import Claim
from turnout.workbench.reproduction.curve_table import CURVES, Curve, write_curves
from turnout.workbench.reproduction.stored import Draw, KeptPanels, Panel, is_reproduction, write_result
from turnout.workbench.reproduction.verdicts import Finding, conclusion, overall


@dataclass(frozen=True)
class Reproduced:
    """A claim, its panels, and the findings."""

    claim: Claim
    panels: dict[str, Panel]
    skipped: dict[str, str]  # panels that could not run, and why
    findings: tuple[Finding, ...]

    @property
    def seconds(self) -> float:
        """Time to run the panels, including those of an earlier, interrupted call."""
        return sum(panel.seconds for panel in self.panels.values())

    @property
    def curves(self) -> list[Curve]:
        return [curve for panel in self.panels.values() for curve in panel.curves]

    @property
    def verdict(self) -> str:
        return overall(self.findings)


@checked
def reproduce(
    claim: Claim,
    out: str | Path | None = None,
    progress: Progress | None = None,
    draw: Draw | None = None,
    again: bool = False,
    cells: RayCells | None = None,
) -> Reproduced:
    """Run every panel of a claim and check it; with `out`, write a folder there. If all panels fail, it is an error.

    Finished strategies and panels are kept beside `out` until the folder is complete: the next call continues after
    them. Panels that were run alone (`--panel`) are kept for the whole claim, so that panels can run in separate
    processes. `again` ignores what is kept. A reproduction that is in the folder already stays there until the new one
    is whole, and is then replaced. With `cells` a cluster computes the points; that needs `out`.
    """
    if cells is not None and out is None:
        raise ValueError("cells are kept beside the folder of a claim: give out, too")
    folder = None if out is None else _free_or_reproduced(Path(out))
    kept, asked = KeptPanels(folder), asked_of_panels(claim)
    if again:
        kept.forget(asked)
    panels, skipped = run_panels(claim, kept, progress, cells)
    reproduced = Reproduced(claim, panels, skipped, ())
    reproduced = replace(reproduced, findings=claim.findings(reproduced.curves, skipped))
    if folder is not None:
        save(reproduced, folder, draw)
        if not claim.panels_alone:
            kept.forget(asked)
    return reproduced


def _free_or_reproduced(out: Path) -> Path:
    """The folder to write to; a FolderError if it holds something else than a reproduction."""
    return out if is_reproduction(out) else free_folder(out)


def run_panels(
    claim: Claim, kept: KeptPanels, progress: Progress | None = None, cells: RayCells | None = None
) -> tuple[dict[str, Panel], dict[str, str]]:
    """The panels of a claim, and those that could not run, with the reason; an error if none could."""
    if claim.procedure is not None:
        begun = time.perf_counter()
        return {"": Panel(tuple(claim.procedure()), seconds=time.perf_counter() - begun)}, {}
    panels, skipped = {}, {}
    if cells is not None:
        _begin_cells(claim, kept, cells)
    for number, name in enumerate(claim.panels):
        if (panel := kept.find(_asked(claim, name))) is None:
            with kept.at_work(_asked(claim, name)):
                try:
                    panel = _run_panel(claim, name, kept, _share_of(progress, number, len(claim.panels)), cells)
                except ExperimentError as error:
                    skipped[name] = str(error)
                    continue
                panel = kept.keep(_asked(claim, name), panel)
        panels[name] = panel
    if not panels:
        raise ExperimentError(f"{claim.name}: {next(iter(skipped.values()))}")
    return panels, skipped


def asked_of_panels(claim: Claim) -> list[str]:
    """By what the panels of a claim are kept."""
    return [_asked(claim, name) for name in claim.panels]


def _asked(claim: Claim, panel: str) -> str:
    """Everything that determines the numbers of a panel."""
    device = jax.devices()[0].device_kind
    return f"{panel}\n{claim.panels[panel].to_toml()}{claim.search} {_extras(claim)} {device}"


def _share_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    return None if progress is None else lambda share: progress((number + share) / count)


def _begin_cells(claim: Claim, kept: KeptPanels, cells: RayCells) -> None:
    """Hand out what every panel begins with, so that no worker waits for the end of the panel before."""
    for name in claim.panels:
        with suppress(ExperimentError):  # of a panel that cannot run, which says so in its turn
            place = kept.points(_asked(claim, name), first := _first_of(claim, name))
            if place is not None and kept.find(_asked(claim, name)) is None:
                cells.begin(first, place)


def _first_of(claim: Claim, panel: str) -> Experiment:
    """What a panel begins with: the search of its rates if that is a run of its own, else the panel itself."""
    experiment, search = claim.panels[panel], claim.search
    if search is None or search.seeds is None or not _is_swept(experiment):
        return experiment
    rounds = search.rounds or experiment.rounds  # and only what the choice needs: the metric at the end
    return replace(experiment, seeds=search.seeds, rounds=rounds, evaluate_every=rounds, metrics=(search.metric,))


def _is_swept(experiment: Experiment) -> bool:
    return any(point.settings for point in points(experiment))


def _run_panel(claim: Claim, name: str, kept: KeptPanels, progress: Progress | None, cells: RayCells | None) -> Panel:
    experiment, search, first = claim.panels[name], claim.search, _first_of(claim, name)

    def points_of(part: Experiment, share: Progress | None) -> KeptPoints | None:
        """The finished points of a part; all of them, where a cluster computes them."""
        place = kept.points(_asked(claim, name), part)
        if cells is not None and place is not None:
            cells.finish(part, place, share)
        return place

    if search is None or not _is_swept(experiment):
        return _run_as_it_is(claim, name, experiment, points_of(experiment, progress), progress)
    if first is experiment:
        tuned = tune(experiment, search.metric, search.keep, RATES, progress, points_of(experiment, progress))
        curves = tuple(curve for outcome in tuned.outcomes() for curve in _curves(name, outcome, *_extras(claim)))
        panel = Panel(curves, tuned.experiment().to_toml(), seconds=tuned.run.seconds)
    else:
        half = _share_of(progress, 0, 2), _share_of(progress, 1, 2)
        tuned = tune(first, search.metric, search.keep, RATES, half[0], points_of(first, half[0]))
        fixed = tuned.experiment()
        chosen = replace(experiment, strategies=fixed.strategies, local=fixed.local, server=fixed.server)
        panel = _run_as_it_is(claim, name, chosen, points_of(chosen, half[1]), half[1])
        panel = replace(panel, seconds=panel.seconds + tuned.run.seconds)
    return replace(
        panel,
        grid=tuple(row for choice in tuned.choices for row in choice.rows(search.metric)),
        chosen={choice.label: choice.chosen for choice in tuned.choices},
        at_edge={choice.label: choice.at_edge() for choice in tuned.choices if choice.at_edge()},
    )


def _run_as_it_is(
    claim: Claim, name: str, experiment: Experiment, kept: KeptPoints | None, progress: Progress | None
) -> Panel:
    """Run every strategy of a panel, except those that an interrupted run has finished."""
    finished = run_points(experiment, points(experiment), progress, kept=kept)
    curves = tuple(curve for outcome in finished.points for curve in _curves(name, outcome, *_extras(claim)))
    return Panel(curves, experiment.to_toml(), seconds=finished.seconds)


def _extras(claim: Claim) -> tuple[list[str], list[str]]:
    """What the claim needs besides metrics: sums per client, and costs."""
    return claim.document.get("clients", []), claim.document.get("costs", [])


def _curves(panel: str, outcome: Outcome, clients: list[str], costs: list[str]) -> Iterator[Curve]:
    """A strategy's metrics and costs over the rounds, and sums per client if the claim needs them."""
    past = outcome.history
    for metric, values in past.metrics.items():
        yield Curve(panel, outcome.label, metric, past.evaluated, past.seeds, values)
    for cost in costs:
        spent = np.pad(np.cumsum(past.records[cost].astype(np.float64), axis=1), ((0, 0), (1, 0)))
        yield Curve(panel, outcome.label, cost, past.evaluated, past.seeds, spent[:, past.evaluated])
    numbers = np.arange(outcome.target.shape[-1])
    for name in clients:
        yield Curve(panel, outcome.label, name, numbers, past.seeds, past.clients[name])
    if clients:
        for name, law in (("target", outcome.target), ("pi", past.pi), ("lam", past.lam)):
            if law is not None:
                rows = np.atleast_2d(law)
                yield Curve(panel, outcome.label, name, numbers, past.seeds[: len(rows)], rows)


def save(reproduced: Reproduced, out: str | Path, draw: Draw | None = None) -> Path:
    """Write the folder of a reproduction: the claim as it was run, the curves, the grid, the result.

    One that is there already is replaced when the new one is whole.
    """
    folder = _free_or_reproduced(Path(out))
    with replace_folder(folder) as work:
        (work / "claim.toml").write_text(reproduced.claim.to_toml(), encoding="utf-8")
        write_panels(reproduced.panels, work)
        write_result(work, result(reproduced) | circumstances() | {"command": reproduced.claim.command})
        if draw is not None:
            draw(work)
    return folder


def write_panels(panels: dict[str, Panel], work: Path) -> None:
    """Write experiments with the chosen rates, curves, and the grid."""
    for name, panel in panels.items():
        if panel.experiment is not None:
            file = f"experiment-{name}.toml" if name else "experiment.toml"
            (work / file).write_text(panel.experiment, encoding="utf-8")
    write_curves([curve for panel in panels.values() for curve in panel.curves], work / CURVES)
    write_rows(({"panel": name} | row for name, panel in panels.items() for row in panel.grid), work / "tuning.csv")


def result(reproduced: Reproduced) -> dict[str, Any]:
    """The result of a reproduction, for JSON."""
    panels = reproduced.panels.items()
    read = {name: digest for _, panel in panels for name, digest in (panel.inputs or {}).items()}
    return {
        **reproduced.claim.about,
        **conclusion(reproduced.findings),
        "skipped": reproduced.skipped,
        "changed": reproduced.claim.changed,
        "chosen": {name: panel.chosen for name, panel in panels if panel.chosen},
        "at_edge": {name: panel.at_edge for name, panel in panels if panel.at_edge},
        "seeds": max((len(curve.seeds) for curve in reproduced.curves), default=0),
        "seconds": round(reproduced.seconds, 2),
        **({"inputs": read} if read else {}),
    }
