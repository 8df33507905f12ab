"""Train on your own data: a CSV file with one row per sample and a column that names its client.

    python examples/02_own_data.py [FILE.csv]     columns: client, label, and numbers to predict from

Without a file one is generated: twelve weather stations, the southern ones on solar power, so that they are often away.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import turnout
from turnout import availability, strategies, tasks


def weather_stations(path: Path) -> str:
    """Will it rain? Pressure matters in the north, humidity more and more towards the south."""
    generator = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("client,label,pressure,humidity,wind\n")
        for station in range(12):
            south = station / 11
            for pressure, humidity, wind in generator.normal([1013, 60, 4], [8, 15, 2], size=(150, 3)):
                signal = -(1 - south) * (pressure - 1013) / 8 + (2 * south - 0.5) * (humidity - 60) / 15
                rain = "rain" if signal + generator.normal() > 0 else "dry"
                file.write(f"station {station},{rain},{pressure:.1f},{humidity:.0f},{wind:.1f}\n")
    return str(path)


turnout.use_compilation_cache()  # keep what is compiled for the next run
with tempfile.TemporaryDirectory() as folder:
    file = sys.argv[1] if len(sys.argv) > 1 else weather_stations(Path(folder) / "stations.csv")
    task = tasks.from_csv(file, ridge=0.001)
print(f"{task.num_clients} clients with {int(task.sizes.sum())} training rows")

rates = np.linspace(0.95, 0.1, task.num_clients)  # the first clients of the file are almost always available
world = turnout.World(availability.markov(task.num_clients, pi=rates.tolist(), lam=0.0))
local = turnout.Local(learning_rate=0.05, batch_size=16)
for strategy in (strategies.FedAvg(), strategies.FedAU(), strategies.MIFA()):
    history = turnout.simulate(task, world, strategy, rounds=150, seeds=3, local=local)
    by_client = history.clients["test_accuracy"].mean(axis=0)
    print(
        f"{type(strategy).__name__:7} test accuracy {history.final('test_accuracy').mean():.1%}; "
        f"the four rarest clients {by_client[-4:].mean():.1%}, the four most frequent {by_client[:4].mean():.1%}"
    )
