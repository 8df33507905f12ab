"""Commands that are killed at random moments: nothing is lost, and what goes on ends with the same numbers."""

import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from counts import Counts
from sessions import Sessions, kill_somewhere, note

from tiny_experiment import TINY
from turnout.files.verification import verify_results
from turnout.workbench.experiment import toml

LONGER = TINY | {"rounds": 12, "task": TINY["task"] | {"num_clients": 6, "noise": 0.5}}
SWEPT = LONGER | {"local": {"steps": 2, "learning_rate": [0.01, 0.1]}}
MANY = (
    *("last_word", {"name": "last_word", "memory": "clients", "label": "last_word on clients"}),
    *("fedavg", "unbiased", "more_available", "adafed", "fedau", "debiased", "mifa", "fedvarp", "fedawe", "fednova"),
    *(
        {"name": "fedlaavg", "cohort": 2},
        {"name": "stale_fill", "cohort": 2},
        {"name": "optimal_sampling", "cohort": 2},
    ),
    *(
        {"name": "norm_sampling", "cohort": 2},
        {"name": "uniform_sampling", "cohort": 2},
        {"name": "fedacs", "cohort": 2},
    ),
    *({"name": "importance_sampling", "cohort": 2}, {"name": "c_a_fedavg", "cohort": 2}, "ca_fed"),
    {"name": "unbiased", "label": "unbiased with rests", "server": {"rest": 1}},
)
# Clients that start late, rounds in which one comes alone, and from round 6 to 8 a night.
NIGHTS = {"name": "cyclic", "period": 9, "offset": [0, 0, 1, 3, 4, 5], "duration": [2, 4, 2, 1, 1, 1]}
CLAIM = {
    "title": "Tiny",
    "claim": "One is nearer.",
    "figure": {"name": "curves", "metric": "train_loss"},
    "checks": [
        {
            "name": "ahead",
            "label": "A",
            "smaller_is_better": True,
            "measure": {"name": "final", "metric": "train_loss"},
            "panel": "short",
        }
    ],
    "panels": {"short": {"rounds": 8}, "long": {"rounds": 12}},
    "experiment": LONGER
    | {
        "strategies": [
            {"name": "fedavg", "cohort": 2, "label": "A"},
            {"name": "unbiased", "label": "B", "local": {"learning_rate": 0.001}},
        ]
    },
}
LOG = "round,client\n" + "".join(
    f"{t},{name}\n" for t in range(30) for name, every in zip("abc", (1, 2, 5), strict=True) if t % every == 0
)
RUN = ("history.parquet", "clients.parquet", "attendance.parquet", "models.npz", "experiment.toml")


@dataclass
class Command:
    """A command that is killed, the command that goes on, and the files that must come out the same."""

    first: tuple[str, ...]
    out: str
    files: tuple[str, ...]
    again: tuple[str, ...] | None = None  # the same as the first if not given
    seconds: float = 6.0
    steps: int = 60
    keeps: str = ""  # files of finished points, which must not vanish before the end
    may_differ: tuple[str, ...] = ()  # columns of its tables
    ready: bool = field(default=False, repr=False)  # whether it works on a folder that is there from the start


COMMANDS = {
    "run": Command(
        ("run", "tiny.toml", "-q", "--out", "{out}"),
        "run",
        RUN,
        ("run", "--resume", "{out}", "-q"),
        keeps="unfinished/point-*.npz",
        steps=90,
    ),
    "tune": Command(
        (
            "tune",
            "swept.toml",
            "-q",
            "--metric",
            "train_loss",
            "--seeds",
            "2",
            "--keep",
            "strategy.cohort",
            "--out",
            "{out}",
        ),
        "tuned",
        ("experiment.toml", "tuning.csv"),
        ("tune", "--resume", "{out}", "-q"),
        keeps="unfinished/point-*.npz",
        steps=90,
    ),
    "reproduce": Command(
        ("reproduce", "claim.toml", "-q", "--out", "{out}"),
        "claims",
        tuple(f"quick/claim/{name}" for name in ("curves.csv.gz", "experiment-short.toml", "experiment-long.toml")),
        steps=90,
    ),
    "reproduce again": Command(
        ("reproduce", "claim.toml", "-q", "--again", "--out", "{out}"),
        "claims",
        tuple(f"quick/claim/{name}" for name in ("curves.csv.gz", "experiment-short.toml", "experiment-long.toml")),
        ready=True,
        steps=90,
    ),
    "report": Command(("report", "{out}", "-q"), "run", (*RUN, "report.html"), ready=True, seconds=3.0, steps=12),
    "diagnose": Command(
        ("diagnose", "log.csv", "--audit", "0", "-q", "--out", "{out}"),
        "diagnosis",
        ("diagnosis.json", "world.toml"),
        seconds=4.0,
        steps=8,
    ),
    "flower": Command(
        ("flower-server", "{out}"),
        "server",
        ("run/history.parquet", "run/clients.parquet", "run/models.npz"),
        seconds=4.0,
        steps=150,
        may_differ=("lam", "lam_low", "lam_high", "pi_low", "pi_high"),  # a gap between two servers is no transition
    ),
}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    for name, document in {"tiny": LONGER, "swept": SWEPT, "claim": CLAIM}.items():
        (folder / f"{name}.toml").write_text(toml.write(document))
    (folder / "many.toml").write_text(toml.write(LONGER | {"availability": NIGHTS, "strategies": list(MANY)}))
    (folder / "log.csv").write_text(LOG)
    running = Sessions(folder)
    yield running
    running.close()


def undisturbed(sessions: Sessions, command: Command) -> Path:
    """The folder of the command when nobody kills it."""
    out = sessions.folder / f"whole-{command.out}"
    if not out.exists():
        first = next(one.first for one in COMMANDS.values() if one.out == command.out)
        ended = sessions.run(*(part.format(out=out.name) for part in first))
        assert ended.code == 0, ended.err
    return out


def campaign(sessions: Sessions, name: str, kills: int, seed: int) -> Counts:
    """Kill a command so many times in all, going on after each, and beginning anew when it is finished."""
    command, draw, counts, number = COMMANDS[name], random.Random(seed), Counts(), 0
    whole = undisturbed(sessions, command)
    while counts.tried < kills:
        number += 1
        out = sessions.folder / f"{name.replace(' ', '-')}-{seed}-{number}"
        if command.ready:
            subprocess.run(["cp", "-r", str(whole), str(out)], check=True)
        argv, kept = [part.format(out=out.name) for part in command.first], set()
        while True:
            dying = kill_somewhere(draw, command.seconds, command.steps) if counts.tried < kills else {}
            ended = sessions.run(*argv, **dying)
            if dying:
                note(counts, ended, f"{argv} {dying}")
            elif ended.code:
                counts.lost += 1
                counts.kinds.setdefault(f"{name} does not go on", f"{argv}\n{ended.err[-2000:]}")
            if ended.code in (0, 1, 2) and not (ended.code == 2 and dying and "full" in ended.err):
                break
            now = {file.name for file in out.glob(command.keeps)} if command.keeps and out.exists() else set()
            if now < kept and not (out / "run.json").exists() and not (out / "tuning.json").exists():
                counts.lost += 1
                counts.kinds.setdefault(f"{name} lost a point", f"{argv} {dying}")
            kept = now
            if command.ready:
                intact(out, command, whole, counts)
            begun = (out / "unfinished" / "start.json").exists()
            argv = [part.format(out=out.name) for part in ((command.again if begun else None) or command.first)]
            counts.resumed += 1
        compare(out, command, whole, counts)
    return counts


def intact(out: Path, command: Command, whole: Path, counts: Counts) -> None:
    """A stored result is whole at any moment, though a command that replaces it was killed."""
    for one in verify_results(out):
        if one.complaints:
            counts.lost += 1
            counts.kinds.setdefault(f"{out.name} is damaged", "; ".join(one.complaints))


def compare(out: Path, command: Command, whole: Path, counts: Counts) -> None:
    """What came out in the end, against the undisturbed folder."""
    for file in command.files:
        if not (out / file).exists():
            counts.lost += 1
            counts.kinds.setdefault(f"{out.name}/{file} is missing", str(sorted(out.rglob("*"))[:20]))
        elif file != "report.html" and contents(out / file, command) != contents(whole / file, command):
            counts.changed += 1
            counts.kinds.setdefault(f"{out.name}/{file} has changed", "")
    hidden = [path for path in out.rglob(".*") if path.name != ".lock"]
    if hidden or (out / "unfinished").exists():
        counts.lost += 1
        counts.kinds.setdefault(f"{out.name} has leftovers", str(hidden))


def contents(file: Path, command: Command) -> bytes:
    if not command.may_differ or file.suffix != ".parquet":
        return file.read_bytes()
    return pl.read_parquet(file).drop(command.may_differ, strict=False).write_csv().encode()


def report(counts: Counts, what: str) -> None:
    print(f"\n{what}: {counts}", file=sys.stderr)
    counts.check()


@pytest.mark.parametrize("name", ["tune", "flower"])
def test_a_search_or_server_that_is_killed_goes_on(sessions, name):
    """The short form, with what draws nothing."""
    report(campaign(sessions, name, kills=2, seed=1), f"kills of {name}")


@pytest.mark.faults
@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("run", 25),
        ("tune", 15),
        ("reproduce", 20),
        ("reproduce again", 10),
        ("report", 10),
        ("diagnose", 5),
        ("flower", 20),
    ],
)
def test_commands_that_are_killed_go_on(sessions, name, kills):
    report(campaign(sessions, name, kills, seed=2), f"kills of {name}")


@pytest.mark.faults
def test_many_strategies_killed_twenty_times(sessions):
    """The world has nights and late starts, over which what a strategy has kept must be the same."""
    assert sessions.run("run", "many.toml", "-q", "--out", "whole-many").code == 0
    draw, counts, out = random.Random(3), Counts(), sessions.folder / "many"
    argv = ["run", "many.toml", "-q", "--out", "many"]
    while counts.tried < 20:
        ended = sessions.run(*argv, die_at=draw.randrange(40, 130))
        note(counts, ended, str(argv))
        assert ended.code == 9, ended.err
        counts.resumed += 1
        argv = ["run", "--resume", "many", "-q"]
    ended = sessions.run(*argv)
    assert ended.code == 0, ended.err
    compare(out, Command(tuple(argv), "many", RUN), sessions.folder / "whole-many", counts)
    report(counts, f"{len(MANY)} strategies, killed 20 times")
