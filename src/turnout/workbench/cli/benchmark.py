"""`turnout benchmark`: a strategy in the frozen worlds, beside the stored scores of all others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from turnout.errors import UserError, nearest
from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command, prepare_compilation
from turnout.workbench.cli.folders import cells_on, check_place, import_from
from turnout.workbench.cli.options import On, Trust
from turnout.workbench.cli.stopping import say_when_stopped
from turnout.workbench.cli.terminal import print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.benchmark.scores import Table
    from turnout.workbench.benchmark.worlds import Worlds
    from turnout.workbench.experiment.on_ray import RayCells

HOME = Path("runs") / "benchmark"
GO_ON = "go on with the same command: what is finished is kept"


# Long: half of it are its options.
@command()
def benchmark_command(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME|module:Class]…",
            help="Strategies: your own, turnout's (`turnout list strategies`), or labels of the stored table.",
            autocompletion=completion.strategies,
        ),
    ] = None,
    everything: Annotated[bool, Option("--all", help="All strategies whose scores are stored, anew.")] = False,
    quick: Annotated[bool, Option("--quick", help="In minutes on a laptop; this is the default.")] = False,
    full: Annotated[bool, Option("--full", help="In more worlds, longer, and with more seeds: hours.")] = False,
    again: Annotated[bool, Option("--again", help="Run anew what was run before, wholly or in part.")] = False,
    out: Annotated[Path, Option(help="Folder of the results: <DIR>/<quick or full>/<strategy>.")] = HOME,
    settings: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="An argument of the strategy, such as cohort=45.")
    ] = None,
    on: On = None,
    trust: Trust = False,
    *,
    output: Output,
) -> None:
    """Tune a strategy in frozen worlds, and compare it with all others there."""
    if quick and full:
        raise UserError("--quick and --full: choose one")
    check_place(on)
    import_from(Path.cwd(), trust=trust)
    entries = _entries(names or [], everything, settings or [])
    from turnout.workbench.benchmark.benchmarking import standing
    from turnout.workbench.benchmark.worlds import Worlds

    worlds = Worlds.read("full" if full else "quick")
    say_when_stopped(GO_ON)
    prepare_compilation()
    with cells_on(on) as cells:
        results = [_run(worlds, entry, out, again, output.quiet, cells) for entry in entries]
    say_when_stopped(f"the benchmark is finished: {out / worlds.size}")
    from turnout.workbench.report.benchmark_page import benchmark_summary, head, line, standing_table, standing_words

    shown, own = standing(worlds, results)
    folders = [result["folder"] for result in results]
    words = standing_words(shown, own[0]) if len(own) == 1 else []
    lines = ["", head(shown), *(line(shown, new, worlds) for new in own), "", *(f"Folder: {each}" for each in folders)]
    output.tell(
        "\n".join(folders),
        lambda: benchmark_summary(shown, own, worlds) | {"folders": folders},
        lambda: print_lines(standing_table(shown, own, worlds.title), words, *lines),
    )


def _entries(names: list[str], everything: bool, settings: list[str]) -> list[Table]:
    """The strategies that are asked for, each as an entry of an experiment with its label."""
    if everything == bool(names):
        raise UserError("name a strategy, such as mine:MyStrategy or mifa, or --all")
    if settings and len(names) != 1:
        raise UserError("--set: is for one strategy: name one")
    from turnout.workbench.benchmark.worlds import label_of, listed_as, listed_strategies
    from turnout.workbench.experiment import registry, toml

    if everything:
        return listed_strategies()
    known = {} if settings else {name: entry for name in names if (entry := listed_as(name)) is not None}
    for name in names:
        if ":" not in name and name not in known:
            registry.entry_named("strategies", name, "benchmark")
    changes: dict[str, Any] = toml.override({}, settings)
    own = [known.get(name) or {"name": name, **changes} for name in names]
    if clash := sorted(changes.keys() & {"name", "local"}):
        raise UserError(f"--set {clash[0]}: is given by the benchmark: {nearest(clash[0], ['server', 'facts'])}")
    return [entry | {"label": label_of(entry)} for entry in own]


def _run(worlds: Worlds, entry: Table, out: Path, again: bool, quiet: bool, cells: RayCells | None) -> dict[str, Any]:
    from turnout.workbench.benchmark.benchmarking import benchmark
    from turnout.workbench.report.benchmark_page import benchmark_page

    folder = out / worlds.size / re.sub(r"[^\w.-]+", "-", entry["label"])
    try:
        with progress_bar(not quiet, entry["label"]) as progress:
            result = benchmark(worlds, entry, folder, lambda told: benchmark_page(worlds, told), progress, again, cells)
    except KeyboardInterrupt as stop:
        stop.add_note(GO_ON)
        raise
    return result | {"folder": str(folder)}
