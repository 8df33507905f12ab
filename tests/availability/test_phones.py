"""Published recordings of phones: made into intervals, found, downloaded, refused."""

import csv
import gzip
import hashlib
import json

import jax.random as jr
import numpy as np
import pytest

from turnout.availability import trace
from turnout.availability.recorded import phones
from turnout.files.downloads import Remote

FLASH = "traces/flash1000_intervals.csv.gz"
STUNNER = "traces/stunner_100_intervals.csv.gz"


def device(begin=None, end=None, *ready):
    return {"isSuccess": begin is not None, "trace_start": begin, "trace_end": end, "ready_time": list(ready)}


def test_flash_says_when_devices_were_ready():
    instants_and_neighbours = device(100.0, 900.0, [100.0, 150.0], [200.0, 200.0], [300.0, 350.0], [350.0, 400.0])
    beyond = device(0.0, 90.0, [80.0, 120.0], [30.0, 40.0])
    text = json.dumps({"12": instants_and_neighbours, "7": device(), "3": beyond})
    assert list(phones.flash(text)) == [
        ("3", 0, 30, 0),
        ("3", 30, 40, 1),
        ("3", 40, 80, 0),
        ("3", 80, 90, 1),
        ("12", 100, 150, 1),
        ("12", 150, 300, 0),
        ("12", 300, 400, 1),
        ("12", 400, 900, 0),
    ]


def test_stunner_says_how_long_each_state_lasted():
    begin = phones.STUNNER_START + 10_000
    lines = [
        f"b 1 {begin} 2 1769 10067 200 50 914",  # 0.2 s off vanish between two seconds, and so does what joins them
        f"b 0 {begin + 13_000} 2 2000",
        f"b 0 {begin + 20_000} 2 1000 1000",
        f"a 0 {begin} -6 5000",
    ]
    assert list(phones.stunner("\n".join(lines) + "\n")) == [
        ("0", 10, 12, 1),
        ("0", 12, 22, 0),
        ("0", 22, 23, 1),
        ("0", 23, 25, 0),
        ("0", 30, 31, 0),
        ("0", 31, 32, 1),
        ("1", 10, 15, 0),
    ]


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache and a folder of one's own, both empty; nothing is fetched over a network."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "traces"
    folder.mkdir(parents=True)
    return folder


def recorded_as(monkeypatch, path, **changes):
    recording = phones.RECORDINGS[path]
    monkeypatch.setitem(phones.RECORDINGS, path, phones.Recording(**(vars(recording) | changes)))


def test_a_published_recording_is_a_trace(cache, monkeypatch):
    (cache / "cached_timers.json").write_text(json.dumps({"0": device(0, 60, [10, 30]), "1": device(0, 60, [0, 60])}))
    rows = hashlib.sha256(b"0,0,10,0\n0,10,30,1\n0,30,60,0\n1,0,60,1\n").hexdigest()
    recorded_as(monkeypatch, FLASH, rows=f"sha256:{rows}")
    masks = np.array([trace(FLASH, slot=10.0).step((), t, jr.key(0))[1] for t in range(6)])
    assert masks[:, 0].tolist() == [False, True, True, False, False, False]
    assert masks[:, 1].all()


@pytest.mark.parametrize("text", ["{}", "not json", '{"0": {}}', '{"x": 1}', "[1]"])
def test_another_file_is_refused(cache, text):
    (cache / "cached_timers.json").write_text(text)
    with pytest.raises(ValueError, match="is damaged or not what its name says"):
        trace(FLASH, slot=600.0)


def test_ones_own_table_goes_before_a_published_one(cache):
    with gzip.open(cache / "stunner_100_intervals.csv.gz", "wt") as file:
        file.write("client_id,start_s,end_s,state\na,0,10,1\n")
    assert trace(STUNNER, slot=10.0).num_clients == 1


def test_where_there_is_no_network_both_ways_are_told(cache, monkeypatch):
    recorded_as(monkeypatch, STUNNER, remote=Remote("traces/x.txt", "git:0", ("http://127.0.0.1:9/x.txt",)))
    with pytest.raises(FileNotFoundError, match=r"set TURNOUT_DATA .*availability\.recorded\.phones import load"):
        trace(STUNNER, slot=600.0)


@pytest.mark.integration
def test_the_known_table_is_that_of_the_stored_results(recorded_phones):
    """What FLASH published, put together again from the table, makes the table."""
    devices: dict = {}
    with gzip.open(recorded_phones("flash1000"), "rt") as file:
        for row in csv.DictReader(file):
            begin, end = float(row["start_s"]), float(row["end_s"])
            one = devices.setdefault(row["client_id"], device(begin, end))
            one["trace_end"] = end
            one["ready_time"] += [[begin, end]] * int(row["state"])
    rows = phones.as_lines(phones.flash(json.dumps(devices)))
    assert f"sha256:{hashlib.sha256(rows.encode()).hexdigest()}" == phones.RECORDINGS[FLASH].rows
