import numpy as np

from turnout import read_log
from turnout.flower.run.chronicle import ParticipationLog
from turnout.flower.server.turn import RoundRecord


def record(t, available, uploads=(), arrived=()):
    return RoundRecord(t, available, uploads, uploads, arrived, dict.fromkeys(arrived, 1.0), True)


def test_the_log_is_one_that_diagnose_reads(tmp_path):
    log = ParticipationLog(tmp_path / "new" / "log.csv")
    log.cut(0)
    log.add(record(0, ("id:a", 'id:b,"x"'), ("id:a", 'id:b,"x"'), ("id:a",)))
    log.add(record(1, ()))
    log.add(record(2, ("id:a",), ("id:a",), ("id:a",)))
    log.add(record(3, ()))
    found = read_log(log.path)
    assert found.num_slots == 4
    assert list(found.names) == ["id:a", 'id:b,"x"']
    np.testing.assert_allclose(found.arrived, [1.0, 0.0])


def test_rounds_that_are_played_again_stand_in_it_once(tmp_path):
    log = ParticipationLog(tmp_path / "log.csv")
    log.cut(0)
    for t in range(3):
        log.add(record(t, ("id:a",)))
    with log.path.open("a") as file:
        file.write("2026-01-01T00:00:00+00:00,3,id")
    log.cut(2)
    log.add(record(2, ("id:b",)))
    rows = [line.split(",")[1:] for line in log.path.read_text().splitlines()[1:] if not line.endswith("round")]
    assert rows == [["0", "id:a", "available"], ["1", "id:a", "available"], ["2", "id:b", "available"]]
    assert log.path.read_text().count(",round") == 1 + 3
