"""A log is diagnosed as a whole, and its numbers are fit for other programs."""

import json
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from jaxtyping import Int

import turnout
from turnout.workbench.diagnosis.diagnose import diagnose
from turnout.workbench.diagnosis.findings.rates import lag_one
from turnout.workbench.diagnosis.plain import plain
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.ranking import Rank, Ranking


def test_a_file_and_its_log_are_diagnosed_alike(diagnosis, persistent, file):
    """The client who never came is known to the file by the list of all clients."""
    matrix = persistent.matrix()
    rows = [f"{t},{persistent.names[k]}" for k, t in zip(*np.nonzero(matrix), strict=True)]
    clients = file("client", *persistent.names, name="clients.csv")
    stages = []
    found = turnout.diagnose(
        file("round,client", *rows), clients=clients, slot_seconds=600, seeds=2, rounds=0, progress=stages.append
    )
    np.testing.assert_array_equal(found.log.matrix(), matrix)
    first, second = found.to_json(), diagnosis.to_json()
    assert first["source"].endswith("log.csv")
    assert first["findings"].pop("shows")["kind"] == "participation"
    assert second["findings"].pop("shows")["kind"] == "availability"
    assert {key: first[key] for key in ("findings", "fitted", "likeness")} == {
        key: second[key] for key in ("findings", "fitted", "likeness")
    }
    assert stages == ["reading", "examining", "fitting a world", "comparing the world with the log"]


def test_numbers_are_plain_and_finite(diagnosis):
    found = diagnosis.to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["log"]["clients"] == 7
    assert found["findings"]["rates"]["on"] == diagnosis.findings.rates.on.tolist()
    assert found["findings"]["drift"]["found"] is bool(diagnosis.findings.drift.found)
    assert found["ranking"] is None


def test_a_large_fleet_leaves_out_what_there_is_of_every_client(diagnosis):
    found = diagnosis.to_json(clients=False)
    assert "names" not in found["log"]
    assert "on" not in found["findings"]["rates"]
    assert found["fitted"]["kind"] == diagnosis.fitted.kind
    assert found["findings"]["mixing"]["lags"] == diagnosis.findings.mixing.lags.tolist()


def test_a_list_as_long_as_the_fleet_is_not_taken_for_one_of_every_client(diagnosis):
    """Seven clients and seven ranks: with nine clients the ranking of all nine candidates was once left out."""
    ranks = tuple(Rank(f"strategy {k}", 0.1 * k, 0.0, False, 0.0, "O(1)") for k in range(7))
    ranked = replace(diagnosis, ranking=Ranking(ranks, 10, 7), fitted=replace(diagnosis.fitted, notes=("a note",) * 7))
    found = ranked.to_json(clients=False)
    assert [rank["strategy"] for rank in found["ranking"]["ranks"]] == [rank.strategy for rank in ranks]
    assert found["fitted"]["notes"] == ["a note"] * 7


def test_every_array_as_long_as_the_fleet_is_declared_so():
    log = Log.from_matrix(np.random.default_rng(0).random((83, 60)) < 0.5, arrived=np.full(83, 0.5))
    found = diagnose(replace(log, uploads=np.full(83, 4)), seeds=1, rounds=0)
    lengths = []

    def visit(value):
        for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            lengths.append(len(element) if isinstance(element, list) else 0)
            visit(element)

    visit(found.numbers(clients=False))
    assert 83 not in lengths
    assert len(found.numbers()["findings"]["lost_uploads"]["low"]) == 83


@dataclass
class Record:
    values: np.ndarray
    of_clients: Int[np.ndarray, " clients"] | None
    found: bool = True


def test_what_is_not_finite_is_none():
    record = Record(np.array([1.0, np.nan, np.inf]), np.arange(2))
    assert plain({"a": record, "b": (np.float32(0.5), -np.inf, np.True_)}) == {
        "a": {"values": [1.0, None, None], "of_clients": [0, 1], "found": True},
        "b": [0.5, None, True],
    }
    assert plain(record, clients=False) == {"values": [1.0, None, None], "found": True}


tables = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


@given(tables, st.data())
def test_lag_one_is_the_autocorrelation_of_watched_neighbours(present, data):
    watched = data.draw(arrays(bool, present.shape))
    found = lag_one(Log.from_matrix(present, watched=watched))
    for row, seen, value in zip(present & watched, watched, found, strict=True):
        pairs = seen[1:] & seen[:-1]
        if not pairs.any() or len(set(row[seen])) < 2:
            assert np.isnan(value)
            continue
        deviation = row - row[seen].mean()
        assert np.isclose(value, (deviation[1:] * deviation[:-1])[pairs].mean() / row[seen].var())
