"""A claim of a paper as data: its statement, how to run it in two sizes, and its checks."""

from __future__ import annotations

import copy
import functools
import itertools
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from turnout.declarations import MAX_COUNT, checked
from turnout.declarations.arrays import at_least
from turnout.errors import nearest
from turnout.simulator.simulate import check_seeds
from turnout.workbench.experiment import registry, toml
from turnout.workbench.experiment.citations import references
from turnout.workbench.experiment.errors import ExperimentError, check_keys, mistakes_at
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.former import CLAIM_FORMAT
from turnout.workbench.experiment.signatures import excerpt, expect, function_and_arguments
from turnout.workbench.experiment.trust import Code, code_of
from turnout.workbench.experiment.tuning import check_metric
from turnout.workbench.reproduction.checks import all_findings
from turnout.workbench.reproduction.claim_types import OF_SEARCH, STEP, TEXTS, check_checks, check_names, check_types
from turnout.workbench.reproduction.curve_table import Curve
from turnout.workbench.reproduction.verdicts import ASIDE, STEPS, Finding

Profile = Literal["quick", "full"]
Document = dict[str, Any]

RUNS = ("experiment", "panels", "procedure", "tuning", "clients", "costs")  # what decides the numbers
SAYS = (*TEXTS, "checks", "figure", "exact")  # what is said of them
PANEL = "panel="  # begins a change that restricts the claim to this panel
FORMAT = 2  # of a stored claim: 1 had no such key
KEYS = (*SAYS, *RUNS, "profiles", "same_runs_as", "changed")


@dataclass(frozen=True)
class Search:
    """How learning rates are chosen: by which metric, and with which seeds and rounds if not those of the run."""

    metric: str
    keep: tuple[str, ...] = ()
    seeds: tuple[int, ...] | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and everything needed to check it."""

    name: str
    profile: Profile
    document: Document  # with the profile applied
    panels: dict[str, Experiment]
    procedure: Callable[[], list[Curve]] | None
    search: Search | None

    @property
    def about(self) -> dict[str, Any]:
        """Name, profile and texts of the claim, and what every seed has of its own, for JSON."""
        texts = {key: self.document.get(key, "") for key in TEXTS}
        drawn = dict.fromkeys(part for experiment in self.panels.values() for part in experiment.drawn)
        return {"name": self.name, "profile": self.profile} | texts | {"drawn": list(drawn)}

    @property
    def runs(self) -> Document:
        """The part of the document that decides the numbers; a panel's step does not."""
        runs = _runs_of(self.document)
        if "panels" not in runs:
            return runs
        panels = {name: {key: panel[key] for key in panel if key != STEP} for name, panel in runs["panels"].items()}
        return runs | {"panels": panels}

    @property
    def steps(self) -> dict[str, str]:
        """The step of each panel that has one: the setting in which it is run, see `STEPS` and `ASIDE`."""
        panels = self.document.get("panels", {}).items()
        return {name: panel[STEP] for name, panel in panels if STEP in panel}

    def findings(self, curves: Sequence[Curve], skipped: dict[str, str]) -> tuple[Finding, ...]:
        """What the checks find on the curves of all panels."""
        exact = self.document.get("exact", False)
        return all_findings(self.document["checks"], curves, skipped, self.steps, exact)

    @property
    def changed(self) -> list[str]:
        """Differences from the shipped claim: settings, and the panels if only some are run."""
        return self.document.get("changed", [])

    @property
    def settings(self) -> list[str]:
        """The keys that were changed, as KEY=VALUE."""
        return [text for text in self.changed if not text.startswith(PANEL)]

    @property
    def panels_alone(self) -> list[str]:
        """The panels to run, if not all; empty for all."""
        return [text.removeprefix(PANEL) for text in self.changed if text.startswith(PANEL)]

    @property
    def folder_name(self) -> str:
        """The name of the claim, followed by the panels if only some are run, so that each has a folder of its own."""
        return "-".join([self.name, *self.panels_alone])

    @property
    def command(self) -> str:
        """The command that runs it again."""
        changes = [("--set", text) for text in self.settings]
        changes += [("--panel", panel) for panel in self.panels_alone]
        return shlex.join(["turnout", "reproduce", self.name, f"--{self.profile}", *itertools.chain(*changes)])

    def to_toml(self) -> str:
        return toml.write({CLAIM_FORMAT: FORMAT, "profile": self.profile, "name": self.name, **self.document})


def claim_names() -> list[str]:
    """All claims that are shipped."""
    return list(registry.entries("claims"))


@checked
def read_claim(
    source: str | Path,
    profile: Profile | None = None,
    settings: tuple[str, ...] = (),
    only_panels: tuple[str, ...] = (),
    code: Code | None = None,
) -> Claim:
    """A shipped claim by its name, or one from a file, in one of its sizes (quick by default).

    The file of a reproduction has one size only. The claim keeps the changes by `settings` and by `only_panels`.
    `code` is what becomes of code that it names; if not given, the file counts as one that is run.
    """
    path = registry.claim_path(str(source))
    document = toml.read(path)
    with _mistakes_of(path.stem):
        check_types(document)
    name = document.pop("name", path.stem)
    stored = document.pop("profile", None)
    document.pop(CLAIM_FORMAT, None)
    chosen: Profile = profile or stored or "quick"
    if stored is not None and chosen != stored:
        raise ExperimentError(f"{path}: holds the {stored} size only: name the claim itself for the {chosen} one")
    files = [path, *([registry.claim_path(document["same_runs_as"])] if "same_runs_as" in document else [])]
    document = _inherit(document, name)
    code = code or max((code_of(file, document) for file in files), key=[*Code].index)
    document = toml.override(merge(document, take_profiles(document, name).get(chosen, {})), settings)
    if only_panels:
        document = _with_panels(document, only_panels, name)
    if changed := [*settings, *(f"{PANEL}{panel}" for panel in only_panels)]:
        document["changed"] = [*document.get("changed", []), *changed]
    with _mistakes_of(name):
        return _read(name, chosen, document, code)


@contextmanager
def _mistakes_of(name: str) -> Iterator[None]:
    """Name the claim in what is said of its mistakes."""
    try:
        yield
    except ExperimentError as error:
        raise ExperimentError(f"{name}: {error}") from error


def _inherit(document: Document, name: str) -> Document:
    """The claim with the runs of another one, if it only checks these in another way."""
    other = document.pop("same_runs_as", None)
    if other is None:
        return document
    own = take_profiles(document, name)
    given = set(document).union(*own.values())
    if clash := sorted(given & set(RUNS)):
        raise ExperimentError(f"{name}: same_runs_as: {', '.join(clash)} would change the runs: leave it out")
    theirs = toml.read(registry.claim_path(other))
    sizes = {size: _runs_of(table) for size, table in take_profiles(theirs, other).items()}
    return _runs_of(theirs) | document | {"profiles": merge(sizes, own)}


def _runs_of(document: Document) -> Document:
    return {key: value for key, value in document.items() if key in RUNS}


def _with_panels(document: Document, wanted: tuple[str, ...], name: str) -> Document:
    """The claim with only these panels and the checks that use them."""
    panels = document.get("panels", {})
    for panel in wanted:
        if panel not in panels:
            raise ExperimentError(f"{name}: there is no panel {panel!r}: {nearest(panel, panels)}")
    others = panels.keys() - set(wanted)
    checks = [check for check in document["checks"] if check.get("panel", wanted[0]) in wanted]
    alone = [check for check in checks if not others & set(_named_panels(check))]
    return document | {"panels": {panel: panels[panel] for panel in wanted}, "checks": alone}


def _named_panels(check: Document) -> Iterator[str]:
    """What stands before a colon in the labels of a check: "other panel: label" is a label of that panel."""
    for key in ("label", "labels", "of", "to"):
        labels = check.get(key) or []
        yield from (label.partition(": ")[0] for label in ([labels] if isinstance(labels, str) else labels))


def take_profiles(document: Document, name: str) -> dict[str, Document]:
    """What a claim changes in each size, taken out of its document."""
    profiles = document.pop("profiles", {})
    expect(isinstance(profiles, dict), profiles, f"{name}: profiles", "the tables quick and full")
    if unknown := sorted(profiles.keys() - {"quick", "full"}):
        raise ExperimentError(f"{name}: profiles: there are quick and full, not {', '.join(unknown)}")
    for size, changes in profiles.items():
        expect(isinstance(changes, dict), changes, f"{name}: profiles.{size}", "a table")
    return profiles


def merge(base: Document, changes: Document) -> Document:
    """Tables merged key by key, other values replaced. A table with another name is replaced: its keys differ."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        old = result.get(key)
        renamed = (
            isinstance(value, dict) and "name" in value and isinstance(old, dict) and old.get("name") != value["name"]
        )
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) and not renamed else value
    return result


def _read(name: str, profile: Profile, document: Document, code: Code) -> Claim:
    check_keys(document, KEYS)
    check_types(document)
    for key in ("title", "claim", "checks", "figure"):
        if key not in document:
            raise ExperimentError(f"{key!r} is missing")
    if (paper := document.get("paper")) and paper not in references():
        raise ExperimentError(f"paper: no reference is called {paper!r}: {nearest(paper, references())}")
    if ("experiment" in document) == ("procedure" in document):
        raise ExperimentError("give either an experiment or a procedure")
    check_checks(document["checks"], alone=any(text.startswith(PANEL) for text in document.get("changed", [])))
    return read_runs(name, profile, document, code)


def read_runs(name: str, profile: Profile, document: Document, code: Code) -> Claim:
    """The claim of a document with its size applied, of which only what decides the numbers is checked."""
    check_names(document)
    procedure = _procedure(document["procedure"]) if "procedure" in document else None
    panels = {} if procedure else _panels(document, code)
    return Claim(name, profile, document, panels, procedure, _search(document.get("tuning")))


def _procedure(table: Any) -> Callable[[], list[Curve]]:
    from turnout.workbench.reproduction.procedures import PROCEDURES

    function, arguments = function_and_arguments(PROCEDURES, table, "procedure", ())
    return functools.partial(function, **arguments)


def _panels(document: Document, code: Code) -> dict[str, Experiment]:
    experiments = {}
    for name, panel in (document.get("panels") or {"": {}}).items():
        changes = {key: value for key, value in panel.items() if key != STEP}
        if (step := panel.get(STEP)) is not None and step not in (*STEPS, ASIDE):
            names = nearest(str(step), (*STEPS, ASIDE))
            raise ExperimentError(f"panel {name!r}: step: there is no {excerpt(step)}: {names}")
        try:
            tables = {"title": document["title"]} | merge(document["experiment"], changes)
            experiments[name] = Experiment.read(tables, code)
        except ExperimentError as error:
            raise ExperimentError(f"panel {name!r}: {error}" if name else str(error)) from error
    return experiments


def _search(table: Any) -> Search | None:
    if table is None:
        return None
    expect(isinstance(table, dict) and "metric" in table, table, "tuning", "a table with a metric")
    check_keys(table, OF_SEARCH, "tuning")
    check_metric(table["metric"])
    if "rounds" in table and "seeds" not in table:
        raise ExperimentError("tuning: rounds are for a search of its own, which needs seeds, too")
    with mistakes_at("tuning"):
        seeds = check_seeds(table["seeds"]) if "seeds" in table else None
        rounds = at_least("rounds", table["rounds"], 1, MAX_COUNT) if "rounds" in table else None
    return Search(table["metric"], tuple(table.get("keep", ())), seeds, rounds)
