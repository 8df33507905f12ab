from pathlib import Path

import numpy as np
import polars
import pytest

from turnout.availability import trace

HEADER = "client_id,start_s,end_s,state"


@pytest.fixture
def file(tmp_path):
    def write(*rows, name="trace.csv", header=HEADER):
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return str(path)

    return write


def test_state_is_that_of_the_middle_of_the_slot(file, play):
    # Middles are at 5, 15, 25 and 35 s, and an interval ends before its end.
    path = file("a,0,5,1", "a,5,15,0", "b,10,16,1", "a,15,26,1", "b,30,40,1")
    masks = play(trace(path, slot=10.0), rounds=4)[0].astype(int)
    assert masks.T.tolist() == [[0, 1, 1, 0], [0, 1, 0, 1]]


def test_a_file_may_lie_in_the_data_folder(file, play, tmp_path, monkeypatch):
    file("a,0,10,1", "a,10,20,0")
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path))
    monkeypatch.chdir("/")
    assert play(trace("trace.csv", slot=10.0), rounds=2)[0].tolist() == [[True], [False]]


def test_wrap_and_stop(file, play):
    path = file("a,100,120,1", "b,110,130,1")
    wrapped, stopped = (play(trace(path, slot=10.0, end=end), rounds=7)[0].astype(int) for end in ("wrap", "stop"))
    assert wrapped.T.tolist() == [[1, 1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1, 0]]
    assert stopped.T.tolist() == [[1, 1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0]]


def test_aligned_clients_keep_their_hour_and_wrap_by_themselves(file, play):
    # In hours: half a day from 18 h, on at 20 h and at 5 h; days later, from 7 h, one hour on.
    hours = [("a", 18, 20, 0), ("a", 20, 21, 1), ("a", 29, 30, 1), ("b", 223, 224, 1), ("b", 240, 242, 0)]
    path = file(*(f"{client},{3600 * start},{3600 * stop},{state}" for client, start, stop, state in hours))
    wrapped, stopped = (trace(path, slot=3600.0, align=True, end=end) for end in ("wrap", "stop"))
    assert wrapped.length.tolist() == [24, 24]
    assert stopped.length.tolist() == [48, 48]
    masks = play(wrapped, rounds=72)[0]
    assert np.flatnonzero(masks[:, 0]).tolist() == [5, 20, 29, 44, 53, 68]
    assert np.flatnonzero(masks[:, 1]).tolist() == [7, 31, 55]
    masks = play(stopped, rounds=72)[0]
    assert np.flatnonzero(masks[:, 0]).tolist() == [20, 29]
    assert np.flatnonzero(masks[:, 1]).tolist() == [7]


def test_first_clients_and_their_clock(file, play):
    path = file("z,50,60,1", "a,0,10,1", "m,0,60,1")
    process = trace(path, slot=10.0, num_clients=2)
    assert process.num_clients == 2
    assert play(process, rounds=6)[0].astype(int).T.tolist() == [[0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]]


def test_many_clients_share_bytes(file, play):
    rng = np.random.default_rng(0)
    truth = rng.random((30, 21)) < 0.4
    rows = [f"{k},{60 * t},{60 * t + 60},{int(truth[t, k])}" for k in range(21) for t in range(30)]
    process = trace(file(*rows), slot=60.0)
    assert process.bits.shape == (30, 3)
    assert (play(process, rounds=30)[0] == truth).all()


def test_parquet_and_compressed_csv_read_the_same(file, tmp_path):
    import gzip

    path = file("0,0,10,1", "1,5,20,1")
    zipped, columns = tmp_path / "trace.csv.gz", tmp_path / "trace.parquet"
    zipped.write_bytes(gzip.compress(Path(path).read_bytes()))
    polars.read_csv(path).write_parquet(columns)
    plain = trace(path, slot=5.0)
    for other in (zipped, columns):
        assert (trace(str(other), slot=5.0).bits == plain.bits).all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["0,0,10,1", "1,0,10,1", "0,9,20,0"],
            r"trace.csv: row 3 \(client 0\) starts at 9, before .* row 1 ends at 10",
        ),
        (["0,50,60,1", "0,0,10,1"], r"row 2 \(client 0\) starts at 0, before .* in order and must not overlap"),
        (["0,0,10,1", "4,10,10,1"], r"row 2 \(client 4\) ends at 10, not after its start 10; must be later"),
        (["0,0,10,2"], r"row 1 \(client 0\) has state 2; must be 0 or 1"),
        (["0,0,10,on"], r"row 1 \(client 0\) has state = 'on'; must be a number"),
        (["0,0,10,1", "0,,20,1"], r"row 2 \(client 0\) has start_s = None; must be a number"),
        ([",0,10,1"], r"row 1 .* has no client_id"),
        ([], "holds no intervals; there must be at least one row"),
    ],
)
def test_refuses_bad_rows(file, rows, message):
    with pytest.raises(ValueError, match=message):
        trace(file(*rows), slot=10.0)


def test_refuses_bad_files(file, tmp_path):
    with pytest.raises(
        ValueError, match="no column end_s, state; the columns must be client_id, start_s, end_s, state"
    ):
        trace(file("0,0", header="client_id,start_s"), slot=10.0)
    with pytest.raises(FileNotFoundError, match=r"absent.csv: there is no such file, here or .* TURNOUT_DATA"):
        trace(str(tmp_path / "absent.csv"), slot=10.0)
    empty = tmp_path / "empty.csv"
    empty.touch()
    with pytest.raises(ValueError, match=r"empty.csv: is empty"):
        trace(str(empty), slot=10.0)
    false = tmp_path / "false.parquet"
    false.write_text("not parquet at all, only text")
    with pytest.raises(ValueError, match=r"false.parquet: cannot be read as a .parquet file"):
        trace(str(false), slot=10.0)


def test_refuses_bad_arguments(file):
    path = file("0,0,10,1")
    with pytest.raises(ValueError, match="num_clients = 2, but the trace holds 1"):
        trace(path, slot=10.0, num_clients=2)
    with pytest.raises(ValueError, match="slot must be a finite number above 0"):
        trace(path, slot=0.0)


@pytest.mark.integration
@pytest.mark.parametrize(("name", "clients", "mean"), [("flash1000", 710, 0.095), ("stunner_100", 776, 0.243)])
def test_recorded_phones(name, clients, mean, recorded_phones):
    process = trace(str(recorded_phones(name)), slot=600.0, align=True)
    assert process.num_clients == clients
    masks = np.unpackbits(np.asarray(process.bits), axis=1)
    rates = [masks[:length, client].mean() for client, length in enumerate(process.length.tolist())]
    assert np.mean(rates) == pytest.approx(mean, abs=0.002)


@pytest.mark.parametrize(("end", "slot"), [("1e16", 600.0), ("600", 1e-9)])
def test_too_many_slots_are_refused_before_they_take_any_room(file, end, slot):
    with pytest.raises(ValueError, match="there is room for 10,000,000 slots and 4 GiB: are the times seconds"):
        trace(file("a,0,10,1", f"b,0,{end},1"), slot=slot)


def test_too_many_clients_for_the_slots_are_refused(file):
    with pytest.raises(ValueError, match="for 5000 clients; there is room"):
        trace(file(*(f"c{k},0,9000000,1" for k in range(5000))), slot=1.0)
