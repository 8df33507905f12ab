"""The apps of examples/flower_apps before and after the changes that docs/flower_from_fedavg.md shows."""

import re
import sys
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from inprocess import InProcessGrid

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "flower_from_fedavg.md"
APPS = {"numpy": "numpy", "jax": "jax", "sklearn": "sklearn", "pytorch": "torch"}  # and the module each needs
NAMES = ["0", "1", "2"]


def changed(source, number):
    """The source with the changes of one of the page's diffs."""
    diff = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), re.S)[number]
    for hunk in diff.strip().split("\n\n"):
        before, after = (
            "\n".join(line[1:] for line in hunk.splitlines() if line.startswith(sign)) for sign in ("-", "+")
        )
        if before:
            assert source.count(before) == 1, before
            source = source.replace(before, after)
        else:
            source = f"{after}\n{source}"
    return source


class Inspectored(InProcessGrid):
    """A grid that notes the losses of evaluations by round."""

    def _call(self, name, message):
        reply = super()._call(name, message)
        if message.metadata.message_type == "evaluate":
            metrics = next(iter(reply.content.metric_records.values()))
            (loss,) = (value for metric, value in metrics.items() if metric.endswith("loss"))
            t = message.content["config"]["server-round"]
            self.losses[t] = self.losses.get(t, 0.0) + loss / len(NAMES)
        return reply


class App:
    """One of the apps; its client and its server may be changed before they run."""

    def __init__(self, name):
        self.folder = ROOT / "examples" / "flower_apps" / name
        about = tomllib.loads((self.folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
        self.modules, self.config = about["components"], about["config"]

    def source(self, part):
        return (self.folder / self.modules[part].partition(":")[0].replace(".", "/")).with_suffix(".py").read_text()

    def play(self, server=None, client=None):
        """Run the whole app; returns the grid and the final model."""
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(0)
        there, here = {"__name__": "server"}, {"__name__": "client"}
        exec(compile(server or self.source("serverapp"), "server_app.py", "exec"), there)
        exec(compile(client or self.source("clientapp"), "client_app.py", "exec"), here)
        grid = Inspectored(here["app"], lambda _t: NAMES, run_config=self.config)
        grid.node_config = lambda name: {"partition-id": int(name), "num-partitions": len(NAMES)}
        grid.losses = {}
        there["app"](grid, Context(7, 1, {}, RecordDict(), self.config))
        return grid, final_model()


def final_model():
    (path,) = Path.cwd().glob("final_model.*")
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    return {name: tensor.numpy() for name, tensor in sys.modules["torch"].load(path).items()}


@pytest.fixture(params=APPS)
def app(request, tmp_path, monkeypatch):
    pytest.importorskip(APPS[request.param])
    app = App(request.param)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(app.folder))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield app


def test_one_line_of_the_server_is_all(app, caplog):
    last = app.config["num-server-rounds"]
    grid, _ = app.play(server=changed(app.source("serverapp"), 0))
    assert grid.losses[last] < 0.95 * grid.losses[0]
    assert [kind for _, kind, _ in grid.seen].count("train") == last * len(NAMES)
    assert caplog.text.count("app = greet(app)") == 1


def test_with_fedavg_and_the_examples_as_target_it_is_the_model_of_before(app):
    _, before = app.play()
    server = changed(app.source("serverapp"), 0).replace("LastWord", "FedAvg")
    _, after = app.play(server=server.replace("FedAvg()", 'FedAvg(), target="examples"'))
    assert before.keys() == after.keys()
    for name, array in after.items():
        if array.dtype.kind == "f":  # Flower averages counters, too
            np.testing.assert_allclose(array, before[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_greet_lets_a_strategy_probe(app, caplog):
    server = changed(app.source("serverapp"), 0).replace("LastWord", "CAFed")
    grid, _ = app.play(server=server, client=changed(app.source("clientapp"), 1))
    last = app.config["num-server-rounds"]
    assert grid.losses[last] < grid.losses[0]
    assert "query.probe" in {kind for _, kind, _ in grid.seen}
    assert "greet(app)" not in caplog.text


def test_the_page_links_every_app():
    folders = {path.name for path in (ROOT / "examples" / "flower_apps").iterdir() if path.is_dir()}
    assert folders == set(APPS)
    assert all(f"examples/flower_apps/{name}/" in PAGE.read_text() for name in APPS)
