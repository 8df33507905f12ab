"""When the rounds of a log were: clocks, dates and time zones."""

import pytest

from turnout.availability.recorded.time_slots import DAY
from turnout.workbench.diagnosis.reading.log_file import read_log


def test_times_give_the_clock(file):
    """Rounds begin with their first row; a missing round counts with its share of the time."""
    times = {
        5: "2026-03-01T06:00:00",
        6: "2026-03-01 06:01:40",
        8: "2026-03-01T07:05:00+01:00",
        9: "2026-03-01T06:06:40Z",
    }
    log = read_log(file("round,client,timestamp", *(f"{t},a,{time}" for t, time in times.items())))
    assert (log.num_slots, log.slot_seconds, log.clock_start) == (5, 100.0, (6 * 24 + 6) * 3600.0)  # a Sunday
    late = read_log(file("round,client,time", "0,a,", "1,a,500", "2,a,600"))
    assert (late.slot_seconds, late.clock_start) == (100.0, 400.0)
    told = read_log(file("round,client,time", "0,a,100", "1,a,160"), slot_seconds=50.0)
    assert (told.slot_seconds, told.clock_start) == (50.0, 100.0)


def test_times_that_tell_nothing_are_left_out(file):
    log = read_log(file("round,client,time", "0,a,100", "1,a,100"))
    assert log.slot_seconds is None
    assert "do not show how long a round takes" in log.warnings[0]


def test_hours_are_told_in_the_zone_of_the_fleet(file):
    path = file("client,start,end", "a,2026-03-02T00:00:00Z,2026-03-02T01:00:00Z")
    paris = read_log(path, zone="Europe/Paris")
    assert (read_log(path).clock_start, paris.clock_start, paris.zone) == (0.0, 3600.0, "Europe/Paris")
    assert read_log(path, zone="America/New_York").clock_start == 7 * DAY - 5 * 3600  # Sunday evening
    summer = file("client,start,end", "a,2026-07-06T00:00:00Z,2026-07-06T01:00:00Z")
    assert read_log(summer, zone="Europe/Paris").clock_start == 7200.0
    with pytest.raises(ValueError, match="zone = 'Mars': no such time zone; give a name such as Europe/Paris"):
        read_log(path, zone="Mars")
    with pytest.raises(ValueError, match="is for logs with dates; the times of this one are not"):
        read_log(file("client,start,end", "a,0,600"), zone="UTC")


@pytest.mark.parametrize(
    ("times", "zone"),
    [
        (("2026-03-02T00:00:00+05:30", "2026-03-02T01:00:00+05:30"), "UTC"),
        (("2026-03-02 00:00", "2026-03-02 01:00"), ""),
        (("1772409600", "1772413200"), "UTC"),  # seconds since 1970
        (("0", "3600"), ""),
    ],
)
def test_hours_have_a_zone_if_the_times_state_one(file, times, zone):
    log = read_log(file("client,start,end", f"a,{times[0]},{times[1]}"))
    assert (log.zone, log.warnings[:-1]) == (zone, ())  # the last one says that there is a single client


def test_times_with_and_without_an_offset_are_not_mixed_in_silence(file):
    rows = ["a,2026-03-02 00:00,2026-03-02 01:00", "b,2026-03-02 00:00:00Z,2026-03-02 01:00:00Z"]
    log = read_log(file("client,start,end", *rows))
    assert log.zone == "UTC"
    assert "some times state an offset from UTC and some do not; those without were taken for UTC" in log.warnings


def test_a_time_that_goes_back_for_want_of_an_offset_says_so(file):
    times = ("2026-03-02T10:00:00+02:00", "2026-03-02 10:10:00", "2026-03-02T08:20:00Z")
    with pytest.raises(ValueError, match=r"goes back .* \(some times state an offset from UTC and some do not\)"):
        read_log(file("round,client,time", *(f"{t},a,{time}" for t, time in enumerate(times))))


def test_rounds_begin_when_the_log_says(file):
    log = read_log(file("round,client,time", "3,a,100", "4,a,150", "8,a,1000", "9,a,1050"), num_rounds=9)
    assert log.begins is not None
    assert log.begins.tolist() == pytest.approx([100, 150, 362.5, 575, 787.5, 1000, 1050, 1100, 1150])
    late = read_log(file("round,client,time", "0,a,", "1,a,500", "2,a,600"))
    assert late.begins is not None
    assert late.begins.tolist() == [400, 500, 600]
