"""Experiments, diagnoses, reports, claims and commands, around the core; every public name of theirs is here."""

from typing import TYPE_CHECKING

from turnout.lazy import lazy_names

if TYPE_CHECKING:
    from turnout.workbench.diagnosis.diagnose import Diagnosis
    from turnout.workbench.diagnosis.findings.all_findings import examine
    from turnout.workbench.diagnosis.reading.errors import LogError
    from turnout.workbench.diagnosis.reading.log import Log
    from turnout.workbench.experiment.build import audit_experiment
    from turnout.workbench.experiment.errors import ExperimentError
    from turnout.workbench.experiment.experiment_file import Experiment, read_experiment
    from turnout.workbench.experiment.run import Outcome, Run, run
    from turnout.workbench.experiment.store import load, save
    from turnout.workbench.experiment.tuning import Tuned, save_tuned, tune
    from turnout.workbench.report.audit import save_audit
    from turnout.workbench.report.diagnosis.diagnosis_page import save_diagnosis
    from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words
    from turnout.workbench.report.page.chart import Look
    from turnout.workbench.report.run.comparison import StrategyComparison
    from turnout.workbench.report.run.plots import HistoryPlots, label_counts_figure, plot, save_plot
    from turnout.workbench.report.run.run_page import write_report
    from turnout.workbench.report.run.run_table import run_table, run_words
    from turnout.workbench.reproduction.claim import Claim, read_claim
    from turnout.workbench.reproduction.reproduce import Reproduced, reproduce

__all__ = [
    "Claim",
    "Diagnosis",
    "Experiment",
    "ExperimentError",
    "HistoryPlots",
    "Log",
    "LogError",
    "Look",
    "Outcome",
    "Reproduced",
    "Run",
    "StrategyComparison",
    "Tuned",
    "audit_experiment",
    "diagnosis_words",
    "examine",
    "label_counts_figure",
    "load",
    "plot",
    "read_claim",
    "read_experiment",
    "reproduce",
    "run",
    "run_table",
    "run_words",
    "save",
    "save_audit",
    "save_diagnosis",
    "save_plot",
    "save_tuned",
    "tune",
    "write_report",
]

__getattr__, __dir__ = lazy_names(__name__, __file__)
