"""A benchmark as a table, words, one line for a paper, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnout.metrics import BYTES_UPLOADED, TEST_ACCURACY, metric_named, record_named
from turnout.statistics import Interval
from turnout.workbench.benchmark.benchmarking import standing
from turnout.workbench.benchmark.scores import Ranked, Scored, lead
from turnout.workbench.benchmark.worlds import Worlds
from turnout.workbench.experiment import toml
from turnout.workbench.report.page.shell import copyable, page, paragraph, section
from turnout.workbench.report.page.table import Cell, Column, Table

SCORE = metric_named(TEST_ACCURACY)
MEANING = (
    "Test accuracy in percent, mean over the test seeds, and in brackets the rank in that world. Memory: of the "
    "server. Up: bytes that all clients upload in a round, mean over the worlds."
)


def standing_table(shown: Ranked, own: Sequence[Scored], title: str = "") -> Table:
    """All records, the best first."""
    records = shown.records
    columns = [
        Column("strategy", tuple(Cell(record.label, record.label, best=record in own) for record in records), "label"),
        Column.of("mean rank", [f"{shown.mean_rank(record):.1f}" for record in records], key="mean_rank"),
        *(
            Column(world, tuple(_cell(shown, record, world, own) for record in records), world, "worlds")
            for world in shown.worlds
        ),
        Column.of("memory", [record.server_memory for record in records], key="server_memory", if_room=True),
        Column.of("up", [uploaded(record) for record in records], if_room=True),
    ]
    return Table(tuple(columns), title, MEANING)


def _cell(shown: Ranked, record: Scored, world: str, own: Sequence[Scored]) -> Cell:
    if world not in record.scores:
        return Cell("–")
    mean = float(record.scores[world].mean())
    return Cell(f"{SCORE.number(mean)} ({shown.rank(record, world)})", mean, best=record in own)


def leads_table(shown: Ranked, new: Scored) -> Table:
    """The lead of the new record over each other one in each world."""
    others = [record for record in shown.records if record is not new]

    def cell(other: Scored, world: str) -> Cell:
        found = lead(new, other, world)
        if found is None:
            return Cell("–")
        ends = f"[{SCORE.ends(found.low, found.high)}]"
        return Cell(SCORE.number(found.mean, signed=True), found.mean, interval=ends)

    columns = [
        Column.of("over", [other.label for other in others], words=True),
        *(Column(world, tuple(cell(other, world) for other in others)) for world in shown.worlds),
    ]
    return Table(tuple(columns), note="In points, with the 95 % interval over paired seeds. Above zero: ahead.")


def _points(interval: Interval) -> str:
    return f"{SCORE.number(interval.mean, signed=True)} [{SCORE.ends(interval.low, interval.high)}]"


def uploaded(record: Scored) -> str:
    """Bytes that all clients upload in a round, mean over the worlds."""
    means = list(record.bytes_uploaded.values())
    return record_named(BYTES_UPLOADED).number(sum(means) / len(means))


def standing_words(shown: Ranked, new: Scored) -> list[str]:
    """Where the new record stands, against the best of the others in each world."""
    sentences = []
    for world in shown.worlds:
        others = [record for record in shown.records if record is not new and world in record.scores]
        if world not in new.scores or not others:
            continue
        rival = max(others, key=lambda record: record.scores[world].mean())
        ahead = lead(new, rival, world)
        if ahead is not None:
            level = "level with" if not ahead.excludes_zero else "ahead of" if ahead.mean > 0 else "behind"
            sentences.append(f"{world}: {level} {rival.label}, {_points(ahead)} points.")
    sentences += [f"{world}: not run: {why}" for world, why in new.skipped.items()]
    return sentences


def line(shown: Ranked, new: Scored, worlds: Worlds) -> str:
    """One row of a table in Markdown, which says by what it was made."""
    cells = [
        f"{SCORE.number(float(new.scores[world].mean()))}" if world in new.scores else "–" for world in shown.worlds
    ]
    return f"| {' | '.join([new.label, f'{shown.mean_rank(new):.1f}', *cells, new.server_memory, worlds.title])} |"


def head(shown: Ranked) -> str:
    """The first line of that table."""
    return f"| {' | '.join(['strategy', 'mean rank', *shown.worlds, 'memory', 'source'])} |"


def benchmark_summary(shown: Ranked, own: Sequence[Scored], worlds: Worlds) -> dict[str, Any]:
    """Everything as plain numbers."""
    leads = {
        new.label: {
            world: {
                other.label: {"mean": found.mean, "low": found.low, "high": found.high}
                for other in shown.records
                if other is not new and (found := lead(new, other, world)) is not None
            }
            for world in shown.worlds
        }
        for new in own
    }
    about = {"benchmark": worlds.title, "digest": worlds.digest, "lines": [line(shown, new, worlds) for new in own]}
    return about | {"strategies": standing_table(shown, own).records(), "leads": leads}


def benchmark_page(worlds: Worlds, result: dict[str, Any]) -> str:
    """The page of one strategy."""
    shown, (new,) = standing(worlds, [result])
    table, leads = standing_table(shown, [new]), leads_table(shown, new)
    rank = f"{shown.mean_rank(new):.1f} of {len(shown.records)} strategies"
    chosen = [", ".join(f"{key} = {value:g}" for key, value in of_world.items()) for of_world in new.rates.values()]
    rates = Table((Column.of("world", new.rates), Column.of("chosen rates", chosen, words=True)))
    frozen = copyable("worlds", toml.write(worlds.document))
    parts = [
        paragraph([f"{new.label} has mean rank {rank}."], "lead"),
        paragraph([f"{worlds.title}. Rates were chosen on the frozen grid with the tuning seeds, as for all others."]),
        section("Beside the stored scores", table.html(), paragraph([table.note], "small soft")),
        section(f"Lead of {new.label}", leads.html(), paragraph([leads.note], "small soft")),
        section("Against the best of the others", *(paragraph([each]) for each in standing_words(shown, new))),
        section("One line for a table", copyable("line", f"{head(shown)}\n{line(shown, new, worlds)}")),
        section("Rates", rates.html()),
        section("The worlds", f"<details><summary>As frozen</summary>{frozen}</details>"),
    ]
    return page(f"{new.label} in {worlds.title}", parts, {})
