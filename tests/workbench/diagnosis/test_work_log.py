"""Logs that say how long work took: whose columns they are, what is dirty in them, and what is refused."""

import json
import re

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.log_file import read_log


def seconds(log):
    return log.work.seconds.tolist()


@pytest.mark.parametrize(
    "header", ["round,client,started,ended", "server_round,node_id,Started At,Finished At", ",rnd,cid,t_start,t_end"]
)
def test_rows_with_a_round_are_work_under_any_usual_name(file, header):
    """The last one is a table of pandas with its index."""
    rows = ["0,a,10,40", "0,b,10,90", "1,a,100,140"]
    rows = [f"{place},{row}" for place, row in enumerate(rows)] if header.startswith(",") else rows
    log = read_log(file(header, *rows))
    assert seconds(log) == [30, 80, 40]
    assert log.matrix().astype(int).tolist() == [[1, 1], [1, 0]]
    assert log.slot_seconds == 90  # from the first start of one round to the first of the next
    assert not log.work.surely
    assert "every row its round" in log.work.because


def test_lines_of_json_with_a_duration(file):
    rows = [{"round": r, "cid": c, "duration": d} for r, c, d in [(0, 7, 1.5), (0, 8, 3.0), (1, 7, 2.5)]]
    log = read_log(file(*map(json.dumps, rows), name="log.jsonl"))
    assert seconds(log) == [1.5, 3.0, 2.5]
    assert log.slot_seconds is None


def test_stretches_without_a_round_are_presence_unless_their_columns_are_those_of_work(file):
    rows = ["a,0,600", "b,0,1200", "a,600,1200"]
    presence = read_log(file("client,start,end", *rows))
    assert presence.work is None
    assert presence.shows.kind == "availability"
    assert "--shows work" in presence.shows.otherwise
    for log in (
        read_log(file("client,start,end", *rows), shows="work"),
        read_log(file("client,started,ended", *rows)),
        read_log(file("client,start,end,steps", *(f"{row},5" for row in rows))),
        read_log(file("client,start,duration", "a,0,600", "b,0,1200", "a,600,600")),
    ):
        assert seconds(log) == [600, 1200, 600]
        assert (log.shows.kind, log.work.in_rounds) == ("participation", False)
        assert log.matrix()[0].all()
    assert read_log(file("client,start,end", *rows), shows="work").work.because == "you say so"


def test_the_user_may_say_that_rows_with_a_round_are_sessions(file):
    path = file("round,client,start,end", "0,a,0,6000", "0,b,0,3000")
    assert read_log(path).work is not None
    log = read_log(path, shows="sessions")
    assert log.work is None
    assert log.shows.kind == "availability"
    stated = read_log(file("round,client,start,end,state", "0,a,0,6000,1", "0,b,0,3000,1"))
    assert stated.work is None  # a state belongs to presence


def test_updates_of_a_server_without_rounds_are_weighed_as_they_arrive(file):
    """Slots of ten seconds: a arrives three times, b once, always alone."""
    rows = ["a,0,12", "b,0,55", "a,12,25", "a,25,36"]
    log = read_log(file("client,started,ended", *rows), slot_seconds=10)
    assert log.averaged.matrix([0, 1], log.num_slots).sum(axis=1).tolist() == [3, 1]
    assert examine(log).weights.plain == pytest.approx([0.75, 0.25])


def test_missing_ends_are_counted_and_bounded(file):
    """In round 0 b was given up when the last answer came; in round 1 it was still running when the log ended."""
    log = read_log(file("round,client,started,ended", "0,a,0,30", "0,b,5,", "1,a,40,90", "1,b,45,"))
    assert (log.work.running, log.work.given_up) == (1, 1)
    assert log.work.ended.tolist() == [True, False, True, False]
    assert seconds(log) == [30, 25, 50, 45]


def test_who_is_still_at_work_could_not_be_asked(file):
    """Client b works through round 1, and is known to be absent only in round 2."""
    rows = ["0,a,0,10", "0,b,0,35", "1,a,20,30", "2,a,40,50", "3,a,60,70", "3,b,60,70"]
    log = read_log(file("round,client,started,ended", *rows))
    assert log.watched_matrix().astype(int).tolist() == [[1, 1, 1, 1], [1, 0, 1, 1]]


def test_dirt_is_told(file):
    rows = ["0,a,0,10", "0,a,0,10", "0,b,3,3", "0,c,,7", "1,a,20,25"]
    log = read_log(file("round,client,started,ended", *rows))
    assert seconds(log) == [10, 5]
    told = " ".join(log.warnings)
    assert "1 of the duplicate rows was dropped, at line 3" in told
    assert "1 of the times of work that end when they start was dropped, at line 4" in told
    assert "1 of the times of work with an end and no start was dropped, at line 5" in told
    late = read_log(file("round,client,started,ended", "0,a,50,60", "1,a,20,30"))
    assert "do not begin in the order of their numbers" in " ".join(late.warnings)
    none = read_log(file("round,client,started,ended", "0,a,5,5", "1,a,9,9"))
    assert none.work is None
    assert "no row says how long work took" in " ".join(none.warnings)
    both = read_log(file("round,client,started,ended,duration", "0,a,0,10,4", "1,a,20,30,10"))
    assert "1 rows have a duration that is not their end less their start, the first at line 2" in " ".join(
        both.warnings
    )
    twice = read_log(file("client,started,ended", "a,0,10", "a,0,10", "b,0,5"))
    assert "1 of the duplicate rows was dropped, at line 3" in twice.warnings


TIMED = "round,client,started,ended"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([TIMED, "0,a,0,9", "0,b,9,8"], r"line 3 \(client b\) ended at 8 s, before it started at 9 s; must be later"),
        (
            [
                TIMED,
                "0,a,2026-01-01T10:00:00+02:00,2026-01-01T10:05:00",
                "0,b,2026-01-01T10:00:00,2026-01-01T08:05:00Z",
            ],
            r"line 3 \(client b\) ended .* \(some times state an offset from UTC and some do not\)",
        ),
        ([TIMED, "0,a,1700000000000,1700000009000"], r"must be seconds \(not milliseconds\)"),
        ([TIMED, "0,a,0,soon"], r"line 2 \(client a\) has end = 'soon'; must be seconds or an ISO 8601"),
        (["round,client,duration", "0,a,3", "0,b,-1"], r"line 3 \(client b\) has duration = -1; must not be negative"),
        (["round,client,duration", "0,a,long"], r"line 2 \(client a\) has duration = 'long'; must be a number of"),
        (
            ["round,client,started,ended,duration", "0,a,0,10,10000", "1,a,20,30,10000"],
            r"durations are 1e\+03 times as long as from start to end; must be seconds",
        ),
        (
            ["round,client,time,duration", "0,a,0,45000", "1,a,60,52000", "2,a,120,50000"],
            r"half of the work takes 5e\+04 s or more, but a round 60 s; durations must be seconds",
        ),
        (["client,started,ended", "a,0,", "b,1,"], r"no row says how long work took; there must be ends after"),
        (["client,started,ended", "a,,5"], r"line 2 \(client a\) has no start; every row needs one"),
        (["client,started,ended", ",1,5"], r"line 2 has no client; every row needs one"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(file, lines, message):
    with pytest.raises(LogError) as caught:
        read_log(file(*lines))
    assert re.search(message, str(caught.value))
    assert "\n" not in str(caught.value)


def test_what_cannot_be_said_of_a_log_is_refused(file):
    with pytest.raises(LogError, match="shows = 'work', but there are no times of work among round, client"):
        read_log(file("round,client", "0,a"), shows="work")
    with pytest.raises(LogError, match="must be availability, participation, work or sessions"):
        read_log(file("round,client", "0,a"), shows="naps")
    with pytest.raises(LogError, match="num_rounds = 3 is for logs by round"):
        read_log(file("client,started,ended", "a,0,5"), num_rounds=3)


def test_the_slots_that_no_stretch_covers(file):
    log = read_log(file("round,client", "0,a", "1,a", "4,a", "2,b"))
    rest = log.present.complement(2, 5)
    np.testing.assert_array_equal(rest.matrix([0, 1], 5), ~log.matrix())
