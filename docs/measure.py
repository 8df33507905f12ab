"""Run the demo and its audit, and keep the numbers and pictures that README and docs show (minutes on 2 cores).

python docs/measure.py [RUN]     a run folder of the demo, where there is one already; then `make sections`
"""

import json
import sys
from pathlib import Path

from turnout.simulator.programs import use_compilation_cache
from turnout.workbench import Run, audit_experiment, load, read_experiment, run
from turnout.workbench.report.audit import audit_charts, effective_weights_figure, relabel_audit
from turnout.workbench.report.page.on_paper import PIXELS, figure
from turnout.workbench.report.run.run_page import RunReport, Source
from turnout.workbench.report.run.run_table import run_summary

HERE = Path(__file__).parent


def main() -> None:
    """Numbers into docs/results, pictures into docs/images."""
    use_compilation_cache()
    demo = read_experiment("demo")
    finished = load(sys.argv[1]) if len(sys.argv) > 1 else run(demo)
    write("demo", demo_numbers(finished))
    audit = audit_experiment(demo, rounds=10_000, seeds=1)
    kept = ("label", "consistent", "total_variation", "step_variation")
    write("demo_audit", {"strategies": [{key: getattr(entry, key) for key in kept} for entry in audit.entries]})
    shown = relabel_audit(audit)
    groups = audit_charts(shown)["groups"]
    charts = RunReport.of_runs([Source(HERE, finished)]).figures() | {
        # Instead of the run's own, which leaves out what is remembered and how much work is behind an update.
        "attention": figure([groups], groups.title, [demo.title, groups.note]),
        "audit": effective_weights_figure(shown, demo.title),
    }
    for name, chart in charts.items():
        chart.save(HERE / "images" / f"demo_{name}.png", scale_factor=PIXELS)


def demo_numbers(finished: Run) -> dict:
    """Final accuracies by seed."""
    points = []
    for point in run_summary(finished)["points"]:
        accuracy = {kind: {"test_accuracy": point[kind]["test_accuracy"]} for kind in ("final", "against_first")}
        points.append({"label": point["label"], **accuracy})
    return {"command": "turnout run", "points": points}


def write(name: str, numbers: dict) -> None:
    """As JSON, a number a line."""
    (HERE / "results" / f"{name}.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
