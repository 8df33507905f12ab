"""Logs of every shape and format are read as they are meant, and mended with a warning where that is safe."""
# Long: every way of writing a log has its test here.

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.availability import trace
from turnout.availability.recorded.time_slots import DAY
from turnout.workbench.diagnosis.findings.fedavg_weights import weights
from turnout.workbench.diagnosis.findings.lost_uploads import lost_uploads
from turnout.workbench.diagnosis.findings.recorded_time import ARRIVED
from turnout.workbench.diagnosis.reading import row_codes as reading_of_rows
from turnout.workbench.diagnosis.reading.columns import ALIASES
from turnout.workbench.diagnosis.reading.event_rows import VOCABULARY
from turnout.workbench.diagnosis.reading.log_file import read_log


def grid(log):
    return log.matrix().astype(int).tolist()


def test_a_row_is_a_participation(file):
    log = read_log(file("round,client", "3,zoe", "3,adam", "4,zoe", "7,zoe"))
    assert list(log.names) == ["zoe", "adam"]
    assert grid(log) == [[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]]
    assert (log.watched, log.slot_seconds, log.sizes, log.losses, log.arrived, log.steps) == (None,) * 6
    assert log.warnings == ()


def test_rounds_after_the_last_one_may_be_told(file):
    path = file("round,client", "3,a", "5,b")
    assert grid(read_log(path, num_rounds=4)) == [[1, 0, 0, 0], [0, 0, 1, 0]]
    with pytest.raises(ValueError, match=r"2 rounds are given, but the log goes from round 3 to 5; give 3 or more"):
        read_log(path, num_rounds=2)


def test_rows_may_come_in_any_order_and_from_any_reader(file):
    plain = ["round,client", "0,a", "0,b", "1,b", "2,a"]
    expected = grid(read_log(file(*plain)))
    for other in (
        ["Client_ID ; Server_Round", "a;0", "a;2", "b;1", "b;0"],
        ["cid\trnd\tnote", "a\t0\tx", "b\t0\t", "b\t1\t", "a\t2\t"],
        [b"\xef\xbb\xbfround,client\r", b"0,a\r", b"0, b\r", b"1,b\r", b"2.0,a\r"],
    ):
        log = read_log(file(*other))
        assert (grid(log), log.warnings) == (expected, ())


def test_formats_read_the_same(file, tmp_path):
    frame = pl.DataFrame({"round": [0, 0, 1, 4], "client": [7, 12, 7, 12], "loss": [1.0, None, 3.0, 2.0]})
    csv, packed = tmp_path / "log.csv", tmp_path / "log.csv.gz"
    frame.write_csv(csv)
    packed.write_bytes(gzip.compress(csv.read_bytes()))
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_ndjson(tmp_path / "log.jsonl")
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
    for name in ("log.csv", "log.csv.gz", "log.parquet", "log.jsonl", "log.jsonl.gz"):
        log = read_log(tmp_path / name)
        assert list(log.names) == ["7", "12"]
        assert grid(log) == [[1, 1, 0, 0, 0], [1, 0, 0, 0, 1]]
        np.testing.assert_array_equal(log.losses, [2.0, 2.0])


@settings(max_examples=30, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1), st.integers(1, 7))
def test_pieces_make_the_whole(tmp_path_factory, rows, at_once):
    """However few rows are read at a time, the log is the same."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("round,client\n" + "".join(f"{t},c{k}\n" for t, k in sorted(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_of_rows, "ROWS_AT_ONCE", at_once)
        log = read_log(path)
    first = min(t for t, _ in rows)
    seen = {(t + first, log.names[k]) for k, t in zip(*np.nonzero(log.matrix()), strict=True)}
    assert seen == {(t, f"c{k}") for t, k in rows}
    order = [f"c{k}" for _, k in sorted(rows)]
    assert list(log.names) == sorted(set(order), key=order.index)


def test_optional_columns_are_averaged_by_client(file):
    log = read_log(
        file(
            "round,client,num_examples,loss,arrived,steps",
            "0,a,10,2.0,1,5",
            "0,b,30,,true,5",
            "1,a,10,1.0,0,7",
            "2,b,30,,False,",
        )
    )
    np.testing.assert_array_equal(log.sizes, [10, 30])
    np.testing.assert_array_equal(log.losses, [1.5, np.nan])
    np.testing.assert_array_equal(log.arrived, [0.5, 0.5])
    np.testing.assert_array_equal(log.steps, [6, 5])


def test_a_client_without_a_size_gets_the_mean(file):
    log = read_log(file("round,client,size", "0,a,10", "0,b,", "1,c,20"))
    np.testing.assert_array_equal(log.sizes, [10, 15, 20])
    assert log.warnings[0] == "1 clients report no size; they get the mean, 15"


def test_intervals_count_at_mid_slot_as_in_a_trace(file):
    rows = ["a,1003,1005,1", "a,1005,1015,0", "b,1010,1016,1", "a,1015,1026,1", "b,1030,1040,1"]
    path = file("client_id,start_s,end_s,state", *rows)
    log, process = read_log(path, slot_seconds=10.0), trace(path, slot=10.0)
    played = np.unpackbits(np.asarray(process.bits), axis=1)[:, :2].T
    assert grid(log) == played.tolist()
    assert log.watched_matrix().astype(int).tolist() == [[1, 1, 0, 0], [0, 0, 0, 1]]
    assert (log.slot_seconds, log.clock_start) == (10.0, 1003.0)


def test_without_states_all_time_was_watched(file):
    log = read_log(file("client,start,end", "a,0,600", "b,1200,2400"))
    assert log.watched is None
    assert grid(log) == [[1, 0, 0, 0], [0, 0, 1, 1]]


def test_intervals_may_be_dated(file, tmp_path):
    rows = ["a,2026-03-01T23:50,2026-03-02T00:10", "b,2026-03-02 00:00:00.5,2026-03-02T00:20:00"]
    log = read_log(file("client,start,end", *rows))
    assert grid(log) == [[1, 1, 0], [0, 1, 1]]
    assert log.clock_start == 6 * DAY + 23 * 3600 + 50 * 60  # a Sunday
    assert log.dated
    begin = datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
    minutes = [(0, 20), (10, 30)]
    frame = pl.DataFrame(
        {
            "client": ["a", "b"],
            "start": [begin + timedelta(minutes=start) for start, _ in minutes],
            "end": [begin + timedelta(minutes=end) for _, end in minutes],
        }
    )
    frame.write_parquet(tmp_path / "log.parquet")
    dated = read_log(tmp_path / "log.parquet")
    assert (grid(dated), dated.clock_start) == (grid(log), log.clock_start)


@pytest.mark.parametrize(
    "header", ["Device ID,Start Time,End Time", "device-id,START_TIME,EndTime", " deviceId , start.time ,end time"]
)
def test_names_of_columns_may_be_written_as_people_do(file, header):
    log = read_log(file(header, "a,0,600", "b,600,1200"))
    assert grid(log) == [[1, 0], [0, 1]]


def test_columns_may_be_named(file):
    path = file("Phone Nr,Von,Bis,user", "a,0,600,x", "b,600,1200,x")
    named = {"client": "Phone Nr", "start": "Von", "end": "Bis"}
    assert list(read_log(path, columns=named).names) == ["a", "b"]
    with pytest.raises(ValueError, match="columns: from: is no column of a log; there are client, round, start"):
        read_log(path, columns={"from": "Von"})
    with pytest.raises(ValueError, match="columns: start = 'Anfang': the file has no such column, but Phone Nr, Von"):
        read_log(path, columns={"start": "Anfang"})


def test_uploads_are_counted_and_rounds_keep_their_numbers(file):
    log = read_log(file("round,client,arrived", "5,a,1", "6,a,0", "7,a,", "7,b,1"))
    assert log.uploads.tolist() == [2, 1]
    assert log.arrived.tolist() == [0.5, 1.0]
    assert log.first_round == 5
    events = read_log(file("round,client,event", "3,a,asked", "3,a,arrived", "4,a,failed", "4,b,available"))
    assert events.uploads.tolist() == [2, 0]
    assert events.first_round == 3


def test_overlaps_are_merged_and_disorder_is_sorted_with_a_warning(file):
    log = read_log(
        file("client,start,end", "a,60,90", "b,0,10", "a,0,30", "a,20,40", "b,0,10", "b,50,50"), slot_seconds=10
    )
    assert grid(log) == [[1, 1, 1, 1, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0, 0, 0]]
    assert log.warnings == (
        "1 of the rows that end when they start was dropped, at line 7",
        "1 of the duplicate rows was dropped, at line 6",
        "time goes back at line 4, and in 1 rows in all; rows were sorted by time",
        "1 rows overlap an earlier one of their client and were merged, e.g. line 5",
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 12)), min_size=1, max_size=12))
def test_any_sessions_cover_their_slots(tmp_path_factory, sessions):
    path = tmp_path_factory.mktemp("log") / "log.csv"
    sessions = [(9, 0, 45), *sessions]
    path.write_text("client,start,end\n" + "".join(f"{k},{start},{start + size}\n" for k, start, size in sessions))
    log = read_log(path, slot_seconds=4.0)
    for row, name in zip(log.matrix(), log.names, strict=True):
        middles = 4.0 * (np.arange(log.num_slots) + 0.5)
        mine = [(start, start + size) for k, start, size in sessions if str(k) == name]
        assert row.tolist() == [any(start <= middle < end for start, end in mine) for middle in middles]


EVENTS = [
    "timestamp,round,node_id,event,num_examples",
    "0,1,,start,",
    "1,1,7,sampled,",
    "1,1,8,Sampled,",
    "5,1,7,train,40",
    "9,1,8,timeout,",
    "60,2,,start,",
    "120,3,,start,",
    "121,3,9,available,",
    "121,3,7,sampled,",
    "122,3,7,failure,",
    "130,3,7,train,40",
    "131,3,7,evaluate,",
]


def test_events_tell_who_was_there_and_whose_update_arrived(file):
    log = read_log(file(*EVENTS))
    assert list(log.names) == ["7", "8", "9"]
    assert grid(log) == [[1, 0, 1], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(log.arrived, [1.0, 0.0, np.nan])
    assert (log.slot_seconds, log.clock_start) == (60.0, 0.0)
    assert log.sizes[0] == 40
    assert log.warnings == ("2 clients report no size; they get the mean, 40",)


def test_a_round_of_which_nothing_is_known_was_not_watched_and_a_member_may_never_come(file):
    rows = ["0,,round", "0,a,member", "0,b,member", "0,c,member", "0,a,arrived", "0,b,listed"]
    rows += ["1,,round", "1,a,listed", "1,a,available", "1,b,asked", "2,,round", "2,a,busy", "2,b,unknown"]
    log = read_log(file("round,client,event", *rows))
    assert list(log.names) == ["a", "b", "c"]
    assert grid(log) == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(log.watched_matrix(), [[True, True, False], [False, True, False], [True, True, True]])
    assert not log.warnings


def test_events_as_json_lines(file):
    header = EVENTS[0].split(",")
    lines = []
    for row in EVENTS[1:]:
        pairs = [f'"{key}": "{value}"' for key, value in zip(header, row.split(","), strict=True) if value]
        lines += ["{" + ", ".join([*pairs, '"more": {"a": [1, 2]}']) + "}", ""]
    log, expected = read_log(file(*lines, name="log.jsonl")), read_log(file(*EVENTS))
    assert grid(log) == grid(expected)
    np.testing.assert_array_equal(log.arrived, expected.arrived)


def test_replies_alone_say_nothing_of_failures(file):
    log = read_log(file("round,cid,event", "1,a,fit", "2,a,fit", "2,b,fit"))
    assert log.arrived is None
    assert grid(log) == [[1, 1], [0, 1]]


def test_unknown_and_repeated_events_are_dropped_with_a_warning(file):
    log = read_log(file("round,cid,event", "1,a,fit", "1,b,dance", "1,a,fit", "2,a,dance", "2,a,fit", "2,c,fit"))
    assert log.warnings == (
        '2 rows with the unknown event "dance" were dropped, the first at line 3',
        "1 of the duplicate rows was dropped, at line 4",
    )
    assert grid(log) == [[1, 1], [0, 0], [0, 1]]


def test_listed_clients_are_there_even_if_they_never_came(file):
    path = file("round,client", "0,b", "1,b", "1,a")
    listed = file("client,size,target", "a,10,1", "c,30,1", "b,20,2", name="clients.csv")
    log = read_log(path, clients=listed)
    assert list(log.names) == ["a", "c", "b"]
    assert grid(log) == [[0, 1], [0, 0], [1, 1]]
    np.testing.assert_array_equal(log.sizes, [10, 30, 20])
    np.testing.assert_array_equal(log.target, [0.25, 0.25, 0.5])


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        (["0,a", "1,b", "0,a", "0,a", "1,a"], "2 duplicate rows were dropped, the first at line 4"),
        (["0,a", "1,a", "2,a"], "there is a single client"),
        (["5,a", "5,b"], "there is a single round"),
        (["0,a", "1,b", "2,c"], "no client was seen more than once: nothing can be said about correlation"),
        (["0,a", "0,b", "", "1,a", "1,b"], "1 of the rows without round and client was dropped, at line 4"),
        (["0,a", "1,b", "2,a", "0,b", "1,a"], "the round falls from 2 to 0 at line 5; rows count by their round"),
        (["0,a", "1,a", "0,b", "5000,a"], "only 3 of 5,001 rounds have a participant"),
    ],
)
def test_odd_logs_are_read_with_a_warning(file, rows, warning):
    assert any(warning in given for given in read_log(file("round,client", *rows)).warnings)


def test_rows_grouped_by_client_are_no_restart(file):
    assert read_log(file("round,client", "0,a", "1,a", "0,b", "1,b")).warnings == ()


def test_two_names_for_one_thing(file):
    log = read_log(file("round,node_id,partition_id", "0,a,x", "1,a,y", "1,b,y"))
    assert list(log.names) == ["a", "b"]
    assert log.warnings == ("columns node_id and partition_id all mean the client; node_id was used",)


def test_a_million_clients_seen_once(tmp_path):
    path = tmp_path / "log.csv"
    pl.DataFrame({"round": np.arange(1_000_000) // 1000, "client": np.arange(1_000_000)}).write_csv(path)
    log = read_log(path)
    assert (log.num_clients, log.num_slots) == (1_000_000, 1000)
    assert log.warnings == ("no client was seen more than once: nothing can be said about correlation",)
    assert log.matrix([999_999])[:, 990:].astype(int).tolist() == [[0] * 9 + [1]]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "clients", "availability", "constant", "autocorrelation"),
    [("flash1000", 710, 0.055, 63, 0.83), ("stunner_100", 776, 0.213, 13, 0.894)],
)
def test_recorded_phones(name, clients, availability, constant, autocorrelation, recorded_phones):
    """Lag-1 autocorrelation over pairs of watched slots, of the clients that are neither always nor never there."""
    log = read_log(recorded_phones(name))
    assert (log.num_clients, log.slot_seconds, log.warnings) == (clients, 600.0, ())
    correlations, rates = [], []
    for row, watched in zip(log.matrix(), log.watched_matrix(), strict=True):
        rates.append(row[watched].mean())
        deviation, pairs = row - rates[-1], watched[1:] & watched[:-1]
        if 0 < rates[-1] < 1:
            correlations.append((deviation[1:] * deviation[:-1])[pairs].mean() / row[watched].var())
    assert np.median(rates) == pytest.approx(availability, abs=0.002)
    assert clients - len(correlations) == constant
    assert np.median(correlations) == pytest.approx(autocorrelation, abs=0.002)


def test_the_docs_name_every_column_and_event():
    page = (Path(__file__).parents[3] / "docs" / "diagnose.md").read_text()
    for names in (*ALIASES.values(), *VOCABULARY.values()):
        assert ", ".join(f"`{name}`" for name in names) in page


def test_a_run_that_samples_is_weighed_by_what_arrived(file):
    """Client a is always there, and asked in every second round; b is asked in all three, and fails once."""
    rows = ["0,a,available", "0,a,arrived", "0,b,arrived", "1,a,available", "1,b,arrived"]
    rows += ["2,a,available", "2,a,arrived", "2,b,failed", "2,c,member"]
    log = read_log(file("round,client,event", *rows))
    assert grid(log) == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    found = weights(log)
    assert found.plain == pytest.approx([0.5, 0.5, 0.0])
    assert found.basis == ARRIVED
    lost = lost_uploads(log, found)
    assert lost is not None
    assert lost.distance == found.weighted_distance  # what arrived has its losses already


def test_where_everybody_present_is_asked_weights_are_by_presence(file):
    log = read_log(file("round,client,event", "0,a,available", "0,a,asked", "0,a,failed", "0,b,arrived"))
    assert log.averaged is None
    assert weights(log).plain == pytest.approx([0.5, 0.5])
