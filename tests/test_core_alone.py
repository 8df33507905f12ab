"""The core in an environment that has its six dependencies and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = ("jax", "equinox", "optax", "jaxtyping", "numpy", "scipy")
AROUND = ("workbench", "flower")  # the rings around the core

IMPORTS = f"""
import importlib, importlib.util, pkgutil
import turnout

for name in ("polars", "pooch", "sklearn", "requests", "altair", "typer", "rich", "flwr"):
    assert importlib.util.find_spec(name) is None, name
for module in pkgutil.walk_packages(turnout.__path__, "turnout."):
    if module.name.split(".")[1] not in {(*AROUND, "__main__")}:
        importlib.import_module(module.name)
        print(module.name)
"""

RUN = """
import numpy as np
import turnout
from turnout import availability, strategies, tasks

task = tasks.quadratics(num_clients=6)
world = turnout.World(availability.markov(6, pi=0.5, lam=0.5))
history = turnout.simulate(task, world, strategies.FedAvg(), rounds=20)
assert np.isfinite(history.final("distance")).all()
audit = turnout.audit(world, [strategies.FedAvg(), strategies.Unbiased()], rounds=200)
assert len(audit.entries) == 2
"""

REFUSALS = """
import pathlib
from turnout import availability, tasks

pathlib.Path("mine.csv").write_text("client,label,x\\\\na,0,1\\\\na,1,2\\\\n")
pathlib.Path("mine.parquet").write_bytes(b"PAR1")
columns = {"client": ["a", "a"], "label": [0, 1], "x": [1.0, 2.0]}
for package, ask in (
    ("polars", lambda: tasks.from_csv("mine.csv")),
    ("polars", lambda: tasks.from_dataset(columns)),
    ("polars", lambda: availability.trace("mine.parquet", slot=60)),
    ("pooch", tasks.mnist),
    ("scikit-learn", tasks.digits),
):
    try:
        ask()
    except (ImportError, FileNotFoundError) as error:
        assert f"pip install {package}" in str(error), error
    else:
        raise AssertionError(package)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a new environment with turnout and the core's dependencies."""
    folder = tmp_path_factory.mktemp("core")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), *NEEDED], check=True)
    subprocess.run([*pip, "--no-deps", str(ROOT)], check=True)
    return folder / "bin" / "python"


def run(python, program, folder):
    done = subprocess.run([str(python), "-I", "-c", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_module_of_the_core_can_be_imported(python, tmp_path):
    imported = run(python, IMPORTS, tmp_path).split()
    modules = [path for path in (ROOT / "src" / "turnout").rglob("*.py") if path.parent.name != "turnout"]
    inside = [path for path in modules if path.relative_to(ROOT / "src" / "turnout").parts[0] not in AROUND]
    assert len(imported) >= len(inside) > 100


@pytest.mark.slow
def test_it_simulates_and_audits(python, tmp_path):
    run(python, RUN, tmp_path)


@pytest.mark.slow
def test_what_needs_another_package_names_it(python, tmp_path):
    run(python, REFUSALS, tmp_path)
