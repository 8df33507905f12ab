"""Parts of pages on the benchmark: the stored scores of all strategies, and how far LastWord is ahead of each."""

from collections.abc import Callable

from tables import points, table

from turnout.statistics import Interval
from turnout.workbench.benchmark.scores import Ranked, Scored, lead
from turnout.workbench.benchmark.worlds import Worlds, listed_strategies, stored_scores
from turnout.workbench.report.benchmark_page import uploaded
from turnout.workbench.reproduction.claim import Profile

FAVOURITE = "LastWord"


def standing(size: Profile) -> tuple[Worlds, Ranked]:
    """The stored records of a size."""
    worlds, stored = Worlds.read(size), stored_scores(size)
    return worlds, Ranked.of(worlds.names, [Scored.parse(label, told) for label, told in stored.items()])


def stored_table(size: Profile) -> str:
    """Mean score and rank of every strategy in every world."""
    worlds, shown = standing(size)
    if not shown.records:
        return f"Not run yet: `turnout benchmark --all --{size}`."

    def cell(record: Scored, world: str) -> str:
        if world not in record.scores:
            return "–"
        return f"{100 * record.scores[world].mean():.1f} ({shown.rank(record, world)})"

    rows = (
        [
            record.label,
            f"{shown.mean_rank(record):.1f}",
            *(cell(record, world) for world in shown.worlds),
            record.server_memory,
            uploaded(record),
        ]
        for record in shown.records
    )
    header = ("strategy", "mean rank", *shown.worlds, "server memory", "uploads per round")
    return table(header, rows) + f"\n\n{source(worlds, shown)}"


def source(worlds: Worlds, shown: Ranked) -> str:
    """By what the scores were made, and what is lacking."""
    stored = {record.label for record in shown.records}
    lacking = [entry["label"] for entry in listed_strategies() if entry["label"] not in stored]
    command = f"`turnout benchmark --all --{worlds.size}`, {worlds.document['experiment']['seeds']} seeds."
    lacking += [f"the world {world}" for world in worlds.names if world not in shown.worlds]
    return command + (f" Not run yet: {', '.join(lacking)}." if lacking else "")


def leads(size: Profile) -> str:
    """The favourite's paired lead over every other strategy in every world."""
    worlds, shown = standing(size)
    favourite = next((record for record in shown.records if record.label == FAVOURITE), None)
    if favourite is None:
        return f"Not run yet: `turnout benchmark --all --{size}`."

    def percent(found: Interval | None) -> str:
        return points(found and Interval(100 * found.mean, 100 * found.low, 100 * found.high, found.count))

    others = [record for record in shown.records if record is not favourite]
    rows = ([other.label, *(percent(lead(favourite, other, world)) for world in shown.worlds)] for other in others)
    return table((f"{FAVOURITE}'s lead over", *shown.worlds), rows) + f"\n\n{source(worlds, shown)}"


SECTIONS: dict[str, Callable[[], str]] = {
    "benchmark quick": lambda: stored_table("quick"),
    "benchmark full": lambda: stored_table("full"),
    "benchmark leads": lambda: leads("full"),
}
