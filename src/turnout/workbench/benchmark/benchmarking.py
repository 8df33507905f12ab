"""Run a strategy through the frozen worlds: tuned on the frozen grid, judged on the test seeds, written to a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnout.files.whole import replace_folder
from turnout.workbench.benchmark.scores import Ranked, Scored, Table
from turnout.workbench.benchmark.worlds import VERSION, Worlds, stored_scores
from turnout.workbench.experiment.circumstances import circumstances
from turnout.workbench.experiment.inputs import changed_since
from turnout.workbench.experiment.on_ray import RayCells
from turnout.workbench.experiment.run import Progress
from turnout.workbench.reproduction.reproduce import asked_of_panels, run_panels, write_panels
from turnout.workbench.reproduction.stored import KeptPanels, Panel, is_reproduction, read_result, write_result

PAGE = "report.html"
Result = dict[str, Any]


def benchmark(
    worlds: Worlds,
    entry: Table,
    folder: Path,
    write_page: Callable[[Result], str],
    progress: Progress | None = None,
    again: bool = False,
    cells: RayCells | None = None,
) -> Result:
    """The result of a strategy in all worlds, as it is stored in its folder.

    What is finished is kept beside the folder until all is: the next call goes on after it. A result that is in the
    folder already is returned, if it is of the same worlds, strategy and files; `again` runs everything anew.
    """
    if not again and (done := _finished(worlds, entry, folder)) is not None:
        return done
    claim = worlds.runs_of(entry)
    kept = KeptPanels(folder)
    if again:
        kept.forget(asked_of_panels(claim))
    panels, skipped = run_panels(claim, kept, progress, cells)
    record = Scored.of(entry, claim, worlds.score, panels, skipped)
    result = _about(worlds, entry) | record.table() | {"label": record.label} | _circumstances(panels)
    with replace_folder(folder) as work:
        write_panels(panels, work)
        write_result(work, result)
        (work / PAGE).write_text(write_page(result), encoding="utf-8")
    if not skipped:  # else the next call runs these alone
        kept.forget(asked_of_panels(claim))
    return result


def standing(worlds: Worlds, results: list[Result]) -> tuple[Ranked, list[Scored]]:
    """New results beside the stored scores, and their records; a new one replaces a stored one of its name."""
    own = [Scored.parse(result["label"], result) for result in results]
    stored = {label: Scored.parse(label, table) for label, table in stored_scores(worlds.size).items()}
    others = [record for label, record in stored.items() if label not in [new.label for new in own]]
    return Ranked.of(worlds.names, [*others, *own]), own


def _about(worlds: Worlds, entry: Table) -> Result:
    return {"benchmark": VERSION, "size": worlds.size, "digest": worlds.digest, "strategy": entry}


def _circumstances(panels: dict[str, Panel]) -> Result:
    read = {name: digest for panel in panels.values() for name, digest in (panel.inputs or {}).items()}
    seconds = round(sum(panel.seconds for panel in panels.values()), 1)
    return {"seconds": seconds, **circumstances(), **({"inputs": read} if read else {})}


def _finished(worlds: Worlds, entry: Table, folder: Path) -> Result | None:
    if not is_reproduction(folder):
        return None
    stored = read_result(folder)
    same = all(stored.get(key) == value for key, value in _about(worlds, entry).items())
    return stored if same and not stored.get("skipped") and changed_since(stored.get("inputs", {})) is None else None
