import gzip
import importlib.util
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import polars as pl
import pytest

from turnout.tasks import from_csv, linear
from turnout.tasks.data.data_task import ClientNames
from turnout.tasks.data.sample_table import read_table
from turnout.testing import check_task
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.experiment_file import read_experiment
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.store import load
from turnout.workbench.experiment.sweep import points

ROWS = """client,label,age,height
lyon,cat,1,10
oslo,dog,2,20
lyon,dog,3,30
lyon,cat,4,40
oslo,cat,5,60
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file of the present folder with that text."""
    monkeypatch.chdir(tmp_path)

    def write(text=ROWS, name="data.csv"):
        (tmp_path / name).write_text(text)
        return name

    return write


def test_rows_become_samples_of_their_clients(file):
    table = read_table(file())
    assert (table.clients, table.classes, table.features) == (("lyon", "oslo"), ("cat", "dog"), ("age", "height"))
    assert table.owners.tolist() == [0, 1, 0, 0, 1]
    assert table.labels.tolist() == [0, 1, 1, 0, 0]
    assert table.inputs.tolist() == [[1, 10], [2, 20], [3, 30], [4, 40], [5, 60]]


def test_classes_that_are_numbers_are_in_their_order(file):
    table = read_table(file("client,label,x\n1,10,0\n1,9,0\n2,-1,0\n"))
    assert table.classes == ("-1", "9", "10")
    assert table.labels.tolist() == [2, 1, 0]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_ways_to_write_the_same(file, tmp_path, separator):
    plain = read_table(file())
    written = read_table(file(ROWS.replace(",", separator), "other.csv"))
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    pl.read_csv(ROWS.encode()).write_parquet("table.parquet")
    for other in (written, read_table("packed.csv.gz"), read_table("table.parquet")):
        assert (other.clients, other.classes) == (plain.clients, plain.classes)
        np.testing.assert_array_equal(other.inputs, plain.inputs)


def test_a_task_keeps_the_contract_and_counts_by_rows(file):
    task = from_csv(file(), validation=0.0, test=0.0)
    check_task(task)
    assert np.asarray(task.sizes).tolist() == [3, 2]
    assert np.asarray(task.importance).tolist() == [3, 2]
    inputs = np.asarray(task.train.inputs)
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(inputs.std(axis=0), 1.0, rtol=1e-5)


def test_the_file_may_say_what_is_tested_on(file):
    parts = ["part", "train", "train", "test", "validation", "train"]
    text = "\n".join(f"{row},{part}" for row, part in zip(ROWS.splitlines(), parts, strict=True))
    task = from_csv(file(text), part="part", standardise=False)
    assert np.asarray(task.sizes).tolist() == [1, 2]
    assert np.asarray(task.test.sizes).tolist() == [1, 0]
    trained = np.asarray(task.train.inputs)[np.asarray(task.train.rows)]
    assert sorted(trained[:, 0].tolist()) == [1, 2, 5]


def test_numbers_can_be_predicted_and_columns_chosen(file):
    task = from_csv(file(), label="height", features=["age"], loss="squared", validation=0.0, test=0.0)
    assert "train_loss" in task.per_client(task.init(jr.key(0)))
    assert task.train.inputs.shape == (5, 1)
    own = from_csv(file(), model=linear(2, 2), validation=0.0, test=0.0)
    assert own.num_clients == 2


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("user,label,x\n1,0,1\n", {}, "there is no column 'client': known: label, user, x"),
        (ROWS, {"label": "labell"}, "did you mean 'label'"),
        (ROWS.replace("3,30", "3,"), {}, "line 4: 'height' is empty, as in 1 rows"),
        (ROWS.replace("3,30", "tall,30"), {}, "line 4: 'age' is 'tall', not a finite number"),
        (ROWS.replace("lyon,dog", ",dog"), {}, "line 4: 'client' is empty"),
        (ROWS.replace("dog", "cat"), {}, "'label' has 1 different values, cat; there must be two or more"),
        (ROWS.replace("oslo,dog", "oslo,cow"), {"loss": "logistic"}, "there must be exactly two classes"),
        (ROWS, {"part": "age"}, "line 2: 'age' is '1'; it must be one of train, validation, test"),
        ("client,label,x\n", {}, "has no row"),
        ("", {}, "cannot be read as a table"),
        ("client,label\n1,0\n2,1\n", {}, "there is no column to predict from"),
        ("client,label,x\n1,0,1,5\n", {}, "cannot be read as a table"),
        (ROWS, {"label": "client"}, "must be different columns"),
    ],
)
def test_what_is_wrong_is_told(file, text, options, complaint):
    with pytest.raises(ValueError, match=r"^data\.csv: ") as caught:
        from_csv(file(text), **options)
    assert complaint in str(caught.value)


def test_many_fractions_are_not_classes(file):
    rows = [f"{k % 3},{k / 7},{k}" for k in range(30)]
    text = "\n".join(["client,label,x", *rows])
    with pytest.raises(ValueError, match=r"30 different values, and not all are whole numbers; .* loss to 'squared'"):
        from_csv(file(text))
    task = from_csv(file(text), loss="squared", standardise_label=True, min_size=10, num_clients=2)
    assert task.num_clients == 2


def test_a_file_that_is_not_there(file):
    with pytest.raises(FileNotFoundError, match=r"absent.csv: there is no such file"):
        from_csv("absent.csv")


@pytest.mark.slow
def test_an_experiment_trains_on_it(file, tmp_path):
    text = """
rounds = 4
task = { name = "csv", path = "data.csv", validation = 0.0, test = 0.0 }
availability = { name = "bernoulli", pi = [0.9, 0.2] }
strategies = ["fedavg"]
"""
    file()
    (tmp_path / "own.toml").write_text(text)
    finished = run(read_experiment("own.toml"), "out")
    assert np.isfinite(finished["fedavg"].history.final("train_loss")).all()
    assert finished.clients_frame()["name"].to_list() == ["lyon", "oslo"]
    assert load("out")["fedavg"].names == ("lyon", "oslo")


def test_an_experiment_knows_the_names_of_the_clients(file, tmp_path):
    file()
    task = '{ name = "csv", path = "data.csv", validation = 0.0, test = 0.0 }'
    text = f'rounds = 4\ntask = {task}\navailability = {{ name = "bernoulli", pi = 0.5 }}\nstrategies = ["fedavg"]'
    (tmp_path / "own.toml").write_text(text)
    (batch,) = build(points(read_experiment("own.toml")))
    assert batch.names == ("lyon", "oslo")
    other = eqx.tree_at(lambda task: task.worth, batch.setups[0].task, jnp.ones(2))
    assert replace(batch, setups=(*batch.setups, replace(batch.setups[0], task=other))).names == ("lyon", "oslo")
    renamed = replace(other, client_names=ClientNames(["oslo", "lyon"]))
    assert replace(batch, setups=(*batch.setups, replace(batch.setups[0], task=renamed))).names is None


def test_a_million_rows_are_standardised_in_double_precision(tmp_path):
    rng, count = np.random.default_rng(0), 10**6
    seconds = 1.7e9 + 10.0 * np.arange(count)
    columns = {"client": np.arange(count) % 2, "label": np.arange(count) % 3, "x": rng.normal(1000, 1, count)}
    pl.DataFrame(columns | {"seconds": seconds, "constant": 0.1}).write_parquet(tmp_path / "large.parquet")
    task = from_csv(str(tmp_path / "large.parquet"), validation=0.0, test=0.0)
    x, time, constant = np.asarray(task.train.inputs, np.float64).T
    assert x.mean() == pytest.approx(0, abs=1e-6)
    assert x.std() == pytest.approx(1, abs=1e-6)
    assert len(np.unique(time)) == count
    assert np.abs(constant).max() < 1e-6


def test_numbers_beyond_single_precision_name_their_line(file):
    with pytest.raises(ValueError, match="line 4: 'age' is '1e39', not a finite number of single precision"):
        from_csv(file(ROWS.replace("3,30", "1e39,30")))


@pytest.mark.parametrize("spoil", [lambda packed: packed[:-9], lambda packed: packed[:30] + b"?" + packed[31:]])
def test_a_damaged_gzip_is_one_line(tmp_path, spoil):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(spoil(gzip.compress(ROWS.encode() * 20)))
    with pytest.raises(ValueError, match=r"data.csv.gz: cannot be read as a table: ") as caught:
        read_table(str(path))
    assert "\n" not in str(caught.value)


def test_without_polars_the_error_names_it(file, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="a table of samples needs polars: pip install polars"):
        from_csv(file())
