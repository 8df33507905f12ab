"""`turnout audit`: which clients the strategies of an experiment would train for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from turnout.workbench.cli.command import Output, command, prepare_compilation
from turnout.workbench.cli.folders import new_folder, open_experiment, stem_of
from turnout.workbench.cli.options import DEMO, Experiment, Settings, Trust
from turnout.workbench.cli.terminal import print_lines, progress_bar


@command()
def audit_command(
    experiment: Experiment = DEMO,
    rounds: Annotated[int, Option(help="Rounds to play.")] = 10_000,
    seeds: Annotated[int, Option(help="Number of seeds: more runs, narrower intervals.")] = 1,
    out: Annotated[Path | None, Option(help="Folder; runs/<experiment>-audit-<time> if not given.")] = None,
    settings: Settings = None,
    trust: Trust = False,
    *,
    output: Output,
) -> None:
    """Show which clients each strategy trains for, without training: only the server's decisions are played."""
    described = open_experiment(experiment, settings, trust)
    from turnout.files.whole import free_folder
    from turnout.workbench.experiment.build import audit_experiment

    folder = free_folder(out or new_folder(f"{stem_of(experiment)}-audit"))

    prepare_compilation()
    with progress_bar(not output.quiet, "playing") as progress:
        audit = audit_experiment(described, rounds, seeds, progress)
    from turnout.workbench.report.audit import audit_summary, audit_table, audit_words, relabel_audit, save_audit

    save_audit(audit, folder, described.to_toml(), described.title)

    def print_audit() -> None:
        page = f"\nPage: {folder / 'audit.html'}"
        ends = page, f"Next: turnout run {experiment}   (train the strategies and compare)"
        shown = relabel_audit(audit)
        print_lines(audit_table(shown, described.title), audit_words(shown), *ends)

    output.tell(folder, lambda: audit_summary(audit) | {"folder": str(folder)}, print_audit)
