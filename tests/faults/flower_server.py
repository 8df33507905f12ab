"""A server's side of a training on real nodes with made-up replies: round after round, with all its files."""

from pathlib import Path

import numpy as np

from turnout.flower.run.books import Books
from turnout.flower.server.driver import Driver
from turnout.flower.server.inspector import Inspector
from turnout.flower.settings import Files, Guard
from turnout.flower.wire.replies import Reply
from turnout.strategies import LastWord

NAMES = ("a", "b", "c")
NIGHT = range(4, 7)  # rounds in which nobody comes
LATE, STARTS = "c", 3  # a client, and its first round


def coming(t: int) -> list[str]:
    """Who is there in round t: about half of them, in turns; c starts late, and rounds 8 and 9 have one client each."""
    alone = {8: "b", 9: LATE}
    turns = [name for place, name in enumerate(NAMES) if (t + place) % 2 == 0 and (name != LATE or t >= STARTS)]
    return [] if t in NIGHT else [alone[t]] if t in alone else turns


def serve(folder: str, rounds: str = "12") -> None:
    """Train so many rounds in all, from where the checkpoint is."""
    place = Path(folder)
    strategy = LastWord()
    driver = Driver(strategy, {"w": np.zeros(3, np.float32)}, seed=4)
    files = Files(place / "state.npz", record=place / "run", participation=place / "log.csv")
    books = Books(files, {"identity": "by key", "target": "uniform"}, Inspector(Guard(), strategy))
    books.open(driver)
    while driver.t < int(rounds):
        driver.join(dict.fromkeys(NAMES if driver.t >= STARTS else NAMES[:2], 1.0))
        present = coming(driver.t)
        driver.open_round(present)
        draw = np.random.default_rng(driver.t)
        replies = {name: Reply({"w": draw.standard_normal(3).astype(np.float32)}, 1.0, 0.5, 2.0, 3) for name in present}
        record_of_round = driver.close_round(replies)
        books.add(driver, record_of_round, 0.1, 0)
        books.write(driver, 1)
    books.close(driver, 1)
