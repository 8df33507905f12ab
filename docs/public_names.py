"""Every public name with one line, and the entries of the reference, read from the sources without importing them.

A name is public if a package of `PACKAGES` lists it in `__all__`. `sections.py` puts both into the pages of `docs/api`.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tables import ROOT, table

SOURCE = ROOT / "src"
PACKAGES = {  # with the page of the reference that has the details
    "turnout": "simulate.md",
    "turnout.strategies": "strategies.md",
    "turnout.availability": "availability.md",
    "turnout.tasks": "tasks.md",
    "turnout.uploads": "uploads.md",
    "turnout.theory": "theory.md",
    "turnout.types": "types.md",
    "turnout.testing": "testing.md",
    "turnout.workbench": "experiments.md",
    "turnout.flower": "flower.md",
}
# Public modules that are no packages of their own.
MODULES = {"compute": "world.md", "durations": "world.md", "links": "world.md", "optimizers": "optimizers.md"}
# What results and arguments of public names are made of: described in the reference, imported by nobody.
BESIDE = {
    "turnout": (
        "turnout.simulator.attendance.Attendance",
        "turnout.auditor.Audited",
        "turnout.metrics.Metric",
        "turnout.metrics.metric_named",
        "turnout.round_records.Record",
    ),
    "turnout.tasks": (
        "turnout.tasks.data.sample_table.read_table",
        "turnout.tasks.data.sample_table.SampleTable",
        "turnout.tasks.data.image_sets.ImageOptions",
        "turnout.tasks.data.partition.iid",
        "turnout.tasks.data.partition.dirichlet",
        "turnout.tasks.data.partition.one_class_a_client",
        "turnout.tasks.data.partition.pathological",
        "turnout.tasks.data.partition.shards",
        "turnout.tasks.data.partition.power_law",
        "turnout.tasks.data.partition.by_id",
        "turnout.tasks.data.dealing.deal_by",
        "turnout.tasks.data.partition.alike",
        "turnout.tasks.data.partition.swap_labels",
    ),
    "turnout.workbench": (
        "turnout.workbench.experiment.Experiment",
        "turnout.workbench.experiment.ExperimentError",
        "turnout.workbench.experiment.Outcome",
        "turnout.workbench.experiment.Run",
        "turnout.workbench.experiment.load",
        "turnout.workbench.experiment.read_experiment",
        "turnout.workbench.experiment.save",
        "turnout.workbench.experiment.run.run",
        "turnout.workbench.report.run.run_page.write_report",
        "turnout.workbench.report.run.comparison.StrategyComparison",
        "turnout.workbench.report.run.plots.plot",
        "turnout.workbench.report.run.plots.HistoryPlots",
        "turnout.workbench.report.page.chart.Look",
        "turnout.workbench.experiment.tuning.tune",
        "turnout.workbench.reproduction.claim.read_claim",
        "turnout.workbench.reproduction.reproduce.reproduce",
        "turnout.auditor.calibrate.mean_step",
    ),
    "turnout.flower": ("turnout.flower.run.estimates.Estimate",),
}


class Found(NamedTuple):
    """Where a name comes from: a class or a function, a value, or a whole module."""

    node: ast.AST | None  # None if it is of another library
    module: str  # where it is defined

    @property
    def line(self) -> str:
        """The first line of its docstring; of a value, what it is; of another library's name, where it is from."""
        if isinstance(self.node, ast.Assign | ast.AnnAssign) and self.node.value is not None:
            return f"`{ast.unparse(self.node.value)}`"
        if isinstance(self.node, ast.Module | ast.ClassDef | ast.FunctionDef):
            return (ast.get_docstring(self.node) or "").partition("\n")[0]
        return f"From `{self.module}`."


def public_names(package: str) -> list[str]:
    """What a package lists in `__all__`, by the alphabet; nothing if it has no such list."""
    names = []
    for node in _parsed(package).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(target) == "__all__":
            names += ast.literal_eval(node.value)
    return sorted(names, key=lambda name: (name.lower(), name))


def find(module: str, name: str) -> Found:
    """The definition behind a name of a module, through all imports on the way."""
    for node in _statements(_parsed(module).body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return Found(node, module)
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in [ast.unparse(each) for each in targets if each]:
            return Found(node, module)
        if isinstance(node, ast.ImportFrom) and node.module != module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    source = node.module or ""
                    return find(source, alias.name) if _path(source) else Found(None, source)
    # Only now a module of that name: a package may give its name to the function in it.
    return Found(_parsed(f"{module}.{name}"), f"{module}.{name}")


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, and those that only a type checker sees."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from node.body


def _path(module: str) -> Path | None:
    folder = SOURCE.joinpath(*module.split("."))
    return next((path for path in (folder / "__init__.py", folder.with_suffix(".py")) if path.is_file()), None)


@functools.cache
def _parsed(module: str) -> ast.Module:
    path = _path(module)
    if path is None:
        raise LookupError(f"no module {module}")
    return ast.parse(path.read_text(encoding="utf-8"))


# What is written


def listed() -> str:
    """One table per package, one row per public name."""
    parts = []
    for package, page in PACKAGES.items():
        names = public_names(package)
        rows = ([_linked(package, name, page), find(package, name).line.replace("|", "\\|")] for name in names)
        if names:
            parts.append(f"## {package}\n\n" + table(("name", "what it is"), rows))
    return "\n\n".join(parts)


def _linked(package: str, name: str, page: str) -> str:
    """The name with the link to its details, if the reference has any."""
    path = f"{package}.{name}"
    if path in PACKAGES:
        return f"[`{path}`]({PACKAGES[path]})"
    if isinstance(find(package, name).node, ast.Module):
        return f"[`{path}`]({MODULES[name]})"
    return f"[`{path}`]({page}#{path})" if path in entries(package) else f"`{path}`"


@functools.cache
def entries(package: str) -> tuple[str, ...]:
    """The names of a package that the reference describes: classes and functions."""
    kinds = ast.ClassDef | ast.FunctionDef
    names = [name for name in public_names(package) if isinstance(find(package, name).node, kinds)]
    beside = [path for path in BESIDE.get(package, ()) if path.rpartition(".")[2] not in names]
    return (*(f"{package}.{name}" for name in names), *beside)


def reference(package: str) -> str:
    """The directives of a page of the reference, each with empty lines around it."""
    return "".join(f"\n::: {path}\n" for path in entries(package))
