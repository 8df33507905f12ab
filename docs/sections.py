"""Rewrite the parts of pages that come from stored numbers or from the sources: `make sections`; a test says when.

A part begins with `<!-- from: name -->` and ends with `<!-- end -->`; `SECTIONS` has the function of every name.
"""

import functools
import json
import re
from collections.abc import Callable
from typing import get_args

import frozen_scores
import numpy as np
from in_time import same_time, whom
from last_word_runs import lead_of_variants, nights
from public_names import PACKAGES, listed, reference
from speeds import arrivals, intervals, million, own_models, performance, precision, speed
from tables import NUMBERS, RESULTS, ROOT, final_accuracy, folder_of, points, size_of, table

from turnout.statistics import Interval
from turnout.workbench.experiment import registry
from turnout.workbench.report.claims.claims_page import count_verdicts, stored_results
from turnout.workbench.reproduction.curve_table import CURVES, Measured, read_curves
from turnout.workbench.reproduction.measures import StrategyCurves, rounds_to
from turnout.workbench.reproduction.verdicts import Reproduction

PAGES = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("benchmark", "choose", "clusters", "matrix", "performance", "own_models", "time", "api/README")
    ),
    "docs/theory/intervals.md",
    *(f"docs/api/{page}" for page in PACKAGES.values()),
)
PART = re.compile(r"(<!-- from: ([a-z .]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CEILING = "everybody there"  # the world without any trouble
VERDICTS = [verdict for verdict in get_args(Reproduction) if verdict != "not run"]
TITLES = {
    "ca_fed": "CA-Fed",
    "debiased": "Debiased FedAvg",
    "fedacs": "FedACS",
    "fedavg": "FedAvg",
    "fedlaavg": "FedLaAvg",
    "last_word": "LastWord",
}


def main() -> None:
    """Rewrite every page that has such parts."""
    for page in PAGES:
        (ROOT / page).write_text(rewritten((ROOT / page).read_text(encoding="utf-8")), encoding="utf-8")


def rewritten(text: str) -> str:
    """A page with its parts as the stored numbers have them now."""
    return PART.sub(lambda part: f"{part[1]}{SECTIONS[part[2]]()}\n{part[4]}", text)


# What strategies say of themselves


def traits() -> str:
    """Every strategy's own constants."""
    rows = []
    for name, entry in registry.entries("strategies").items():
        traits = entry.traits
        told = ", ".join(need for need in traits["needs"] if need not in ("losses", "starts", "lost")) or "nothing"
        asks = "; a loss of everyone first" if "losses" in traits["needs"] else ""
        rows.append([f"[`{name}`](strategies/{name}.md)", told + asks, traits["server_memory"], traits["consistent"]])
    return table(("strategy", "must be told", "server memory", "consistent"), rows)


# What came out


def phones() -> str:
    """Lead over FedAvg on the two traces, paired by seed, the best on the first one first."""
    claims = {"FLASH": "trace_flash", "STUNner": "trace_stunner"}
    by_trace = {trace: leads(claim) for trace, claim in claims.items()}
    order = sorted(by_trace["FLASH"], key=lambda label: -by_trace["FLASH"][label].mean)
    rows = ([label, memory_of(label), *(points(by_trace[trace].get(label)) for trace in claims)] for label in order)
    note = "; ".join(f"{trace}: {size_of(claim)}" for trace, claim in claims.items())
    return table(("strategy", "server memory", *claims), rows) + f"\n\n{note}."


def leads(claim: str) -> dict[str, Interval]:
    """Each strategy's lead over FedAvg in final test accuracy, in points."""
    measured = Measured(read_curves(folder_of(claim) / CURVES))
    panel = measured.panels[0]
    final = {label: 100 * final_accuracy(measured, panel, label) for label in measured.labels(panel)}
    return {label: Interval.of(values - final["FedAvg"]) for label, values in final.items() if label != "FedAvg"}


def memory_of(label: str) -> str:
    """What the server holds for the strategy of that label."""
    plain = re.sub(r"[^a-z0-9]", "", label.lower())
    entries = registry.entries("strategies")
    memories = [entry.traits["server_memory"] for name, entry in entries.items() if name.replace("_", "") == plain]
    return memories[0] if memories else "–"


@functools.cache
def by_world() -> dict[str, tuple[Measured, str]]:
    """The curves and the panel of each world with trouble, papers' worlds first, and of the ceiling."""
    papers, phones = (Measured(read_curves(folder_of(claim) / CURVES)) for claim in ("best_of_all", "trace_joint"))
    found = {panel: (papers, panel) for panel in papers.panels} | {panel: (phones, panel) for panel in phones.panels}
    return {world: found[world] for world in (*(world for world in found if world != CEILING), CEILING)}


@functools.cache
def accuracies() -> dict[str, dict[str, np.ndarray]]:
    """Final test accuracy in percent by world and strategy, one number per seed."""
    return {
        world: {label: 100 * final_accuracy(measured, panel, label) for label in measured.labels(panel)}
        for world, (measured, panel) in by_world().items()
    }


def ranks(of_world: dict[str, np.ndarray]) -> dict[str, int]:
    """The place of every strategy in a world by its mean, from 1."""
    order = sorted(of_world, key=lambda label: -of_world[label].mean())
    return {label: place + 1 for place, label in enumerate(order)}


def worst_ranks() -> dict[str, int]:
    """Each strategy's worst place in a world with trouble, the best strategy first."""
    places = [ranks(of_world) for world, of_world in accuracies().items() if world != CEILING]
    worst = {label: max(place.get(label, 0) for place in places) for label in places[0]}
    mean = {label: np.mean([place[label] for place in places if label in place]) for label in worst}
    return {label: worst[label] for label in sorted(worst, key=lambda label: (worst[label], mean[label]))}


def matrix() -> str:
    """Mean final accuracy and rank of every strategy in every world."""
    accuracy, worst = accuracies(), worst_ranks()
    note = f"{size_of('best_of_all')}; FLASH and STUNner: {size_of('trace_joint')}."

    def cell(of_world: dict[str, np.ndarray], label: str) -> str:
        return f"{of_world[label].mean():.1f} ({ranks(of_world)[label]})" if label in of_world else "–"

    rows = ([label, str(worst[label]), *(cell(each, label) for each in accuracy.values())] for label in worst)
    return table(("strategy", "worst rank", *accuracy), rows) + f"\n\n{note}"


def lead_of_last_word() -> str:
    """LastWord's paired lead over every other strategy in every world."""
    accuracy = accuracies()

    def cell(of_world: dict[str, np.ndarray], label: str) -> str:
        return points(Interval.of(of_world["LastWord"] - of_world[label]) if label in of_world else None)

    others = [label for label in worst_ranks() if label != "LastWord"]
    rows = ([label, *(cell(each, label) for each in accuracy.values())] for label in others)
    return table(("LastWord's lead over", *accuracy), rows)


def rounds_needed() -> str:
    """Median rounds to 75 % in the papers' worlds and the joint ones."""
    papers = {world: found for world, found in by_world().items() if found[0].panels != ["FLASH", "STUNner"]}
    rows = []
    for label in worst_ranks():
        needed = [rounds_to(StrategyCurves(*found, label), "test_accuracy", 0.75) for found in papers.values()]
        rows.append([label, *(f"{np.median(of_seeds):.0f}".replace("inf", "never") for of_seeds in needed)])
    return table(("strategy", *papers), rows)


def best_in_short() -> str:
    """The matrix in a few rows and columns, for the first screen."""
    accuracy, worst = accuracies(), worst_ranks()
    columns = {"absence": "two classes", "lost uploads, unequal work": "lossy links"}
    columns |= {"all at once": "joint, steps by client", "real phones": "FLASH"}
    labels = [label for label in worst if all(label in accuracy[world] for world in columns.values())]
    means = {label: [f"{accuracy[world][label].mean():.1f}" for world in columns.values()] for label in labels}
    return table(
        ("strategy", *columns, "server memory"), ([label, *means[label], memory_of(label)] for label in labels)
    )


def claims() -> str:
    """How the papers' claims fared, one row per paper."""
    results = [result for _, result in stored_results(RESULTS)]
    by_paper: dict[str, list[str]] = {}
    for result in results:
        by_paper.setdefault(_paper(result), []).append(result["verdict"])
    rows = ([paper, *(str(each.count(verdict) or "–") for verdict in VERDICTS)] for paper, each in by_paper.items())
    lacking = sorted(set(registry.entries("claims")) - {result["name"] for result in results})
    not_run = f" Not run: {', '.join(f'`{name}`' for name in lacking)}." if lacking else ""
    return table(("claims of", *VERDICTS), rows) + f"\n\n{count_verdicts(results)}{not_run}"


def _paper(result: dict) -> str:
    names = {"rodio": "CA-Fed", "sun2025": "debiased FedAvg", "yan": "FedLaAvg", "weng": "FedACS"}
    return next((name for key, name in names.items() if (result["paper"] or "").startswith(key)), "ours")


# What was measured once


def demo() -> str:
    """The demo's table: `turnout run --json`, and what its audit says."""
    numbers, audit = (json.loads((NUMBERS / f"{name}.json").read_text()) for name in ("demo", "demo_audit"))
    off = {entry["label"]: f"{100 * entry['total_variation']:.0f} %" for entry in audit["strategies"]}
    rows = []
    for point in numbers["points"]:
        accuracy, lead = (point[kind]["test_accuracy"] for kind in ("final", "against_first"))
        against = "–" if point is numbers["points"][0] else _spread(lead, sign="+")
        rows.append([TITLES[point["label"]], _spread(accuracy), against, off[point["label"]]])
    against = f"against {TITLES[numbers['points'][0]['label']]}, paired by seed"
    return table(("strategy", "test accuracy (%)", against, "weight on the wrong clients"), rows)


def _spread(numbers: dict, sign: str = "") -> str:
    return f"{100 * numbers['mean']:{sign}.1f} ± {100 * numbers['std']:.1f}".replace("-", "−")


def audited() -> str:
    """The demo's audit: `turnout audit demo --json`."""
    numbers = json.loads((NUMBERS / "demo_audit.json").read_text())
    rows = (
        [
            TITLES[entry["label"]],
            "yes" if entry["consistent"] else "no",
            f"{100 * entry['total_variation']:.2f} %",
            f"{100 * entry['step_variation']:.1f} %",
        ]
        for entry in numbers["strategies"]
    )
    return table(("`turnout audit demo`", "consistent", "off target", "unsteady"), rows)


SECTIONS: dict[str, Callable[[], str]] = {
    "traits": traits,
    "phones": phones,
    "matrix": matrix,
    "leads": lead_of_last_word,
    "rounds": rounds_needed,
    "best": best_in_short,
    "variants": functools.partial(lead_of_variants, "last_word_variants"),
    "parts": functools.partial(lead_of_variants, "last_word_blend"),
    "networks": functools.partial(lead_of_variants, "last_word_networks"),
    "steered networks": functools.partial(lead_of_variants, "matrix_networks", last=5),
    "convolutions": functools.partial(lead_of_variants, "last_word_plain"),
    "by client": functools.partial(lead_of_variants, "last_word_by_client"),
    "nights": functools.partial(nights, "last_word_nights"),
    "quiet": functools.partial(nights, "last_word_quiet"),
    "claims": claims,
    "demo": demo,
    "audit": audited,
    "speed": speed,
    "performance": performance,
    "own models": own_models,
    "precision": precision,
    "million": million,
    "arrivals": arrivals,
    "whom": whom,
    "same time": same_time,
    "intervals": intervals,
    **frozen_scores.SECTIONS,
    "public names": listed,
    **{f"reference {package}": functools.partial(reference, package) for package in PACKAGES},
}

if __name__ == "__main__":
    main()
