"""A fair comparison: every strategy's learning rates from the same grid, chosen on validation data and other seeds.

A list in place of a number is a sweep, and a sweep is one compiled program. `turnout tune` and `turnout run` do the
same from the command line.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import turnout
from turnout.workbench import read_experiment, run, run_table, run_words, tune

EXPERIMENT = """
title = "Clients that are seldom available, and away for long"
rounds = 80
seeds = 4
evaluate_every = 80
task = { name = "synthetic_leaf", num_clients = 40, samples_per_client = 60 }
availability = { name = "two_classes", gap = 0.4, lam = 0.9 }
local = { steps = 5, batch_size = 32, learning_rate = [0.005, 0.02, 0.08] }
server = { learning_rate = [1.0, 4.0] }
strategies = [{ name = "fedavg" }, { name = "unbiased" }, { name = "mifa" }]
"""

turnout.use_compilation_cache()  # keep what is compiled for the next run
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "experiment.toml"
    file.write_text(EXPERIMENT)
    experiment = read_experiment(file)

tuned = tune(replace(experiment, seeds=(1000, 1001)), "validation_accuracy")
for choice in tuned.choices:
    print(choice.label, choice.chosen, "at the edge of the grid" if choice.at_edge() else "")

finished = run(replace(tuned.experiment(), seeds=experiment.seeds))
Console(width=110).print(run_table(finished), *run_words(finished))
