"""Run the demo and its audit, and keep the numbers and pictures that README and docs show (minutes on 2 cores).

python docs/measure.py [RUN]     a run folder of the demo, where there is one already; then `make sections`
"""

import json
import sys
from pathlib import Path

import polars as pl

from turnout.experiment import load, read_experiment
from turnout.experiment.audits import audit_experiment
from turnout.experiment.run import Run, run
from turnout.report.audit.audit_charts import effective_weights_figure
from turnout.report.page.on_paper import PIXELS
from turnout.report.run.groups import attention
from turnout.report.run.plots import figures
from turnout.report.run.run_words import summary
from turnout.simulator.programs import use_compilation_cache

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
    charts = figures(finished) | {"audit": effective_weights_figure(audit, demo.title)}
    for name, chart in charts.items():
        chart.save(HERE / "images" / f"demo_{name}.png", scale_factor=PIXELS)


def demo_numbers(finished: Run) -> dict:
    """Final accuracies by seed, and the weight of the clients that are there least."""
    shares = attention(finished)
    rare = shares.filter(pl.col("availability") == pl.col("availability").min())
    summed = rare.group_by("label").agg(pl.sum("share", "target"))
    weights = {label: (share, target) for label, share, target in summed.iter_rows()}
    points = []
    for point in summary(finished)["points"]:
        accuracy = {kind: {"test_accuracy": point[kind]["test_accuracy"]} for kind in ("final", "against_first")}
        points.append({"label": point["label"], **accuracy, "rare_share": weights[point["label"]][0] / 100})
    return {"command": "turnout run", "rare_target": next(iter(weights.values()))[1] / 100, "points": points}


def write(name: str, numbers: dict) -> None:
    """As JSON, a number a line."""
    (HERE / "results" / f"{name}.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
