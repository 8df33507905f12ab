"""From a log to what it means: findings, a fitted world, and how like the log that world is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from turnout.diagnosis.findings.all_findings import Findings, examine
from turnout.diagnosis.plain import plain
from turnout.diagnosis.reading.log import Log
from turnout.diagnosis.reading.log_file import read_log
from turnout.diagnosis.world.fit import Fitted, fit
from turnout.diagnosis.world.likeness import SEEDS, Likeness, likeness
from turnout.diagnosis.world.ranking import ROUNDS, Ranking, rank

Progress = Callable[[str], None]  # is told what is being done


@dataclass(frozen=True)
class Diagnosis:
    """What a log tells, what a world like it is, and who would be fair in it."""

    source: str  # name of the log
    log: Log
    findings: Findings
    fitted: Fitted
    likeness: Likeness
    ranking: Ranking | None = None  # strategies in the fitted world, the fairest first; None: not audited

    def to_json(self, clients: bool = True) -> dict[str, Any]:
        """All numbers as plain dicts and lists, null where not finite; `clients`: with those of every client."""
        log = self.log
        one_a_client = None if clients else log.num_clients
        about = {
            "clients": log.num_clients,
            "slots": log.num_slots,
            "slot_seconds": log.slot_seconds,
            "clock_start": log.clock_start,
            "participations": int(log.present.length.sum()),
            "warnings": list(log.warnings),
        }
        of_clients = {name: getattr(log, name) for name in ("names", "sizes", "losses", "arrived", "steps")}
        about |= {name: values for name, values in of_clients.items() if clients and values is not None}
        return plain(
            {
                "source": self.source,
                "log": about,
                "findings": self.findings,
                "fitted": self.fitted if clients else {"kind": self.fitted.kind, "notes": self.fitted.notes},
                "likeness": self.likeness,
                "ranking": self.ranking,
            },
            without_length=one_a_client,
        )


def diagnose(
    log: Log | str | PathLike[str],
    *,
    slot_seconds: float | int | None = None,
    num_rounds: int | None = None,
    clients: str | PathLike[str] | None = None,
    seeds: int = SEEDS,
    rounds: int = ROUNDS,
    progress: Progress | None = None,
) -> Diagnosis:
    """Diagnose a log, or a file that holds one: see `turnout.read_log` for files and options.

    `seeds` is the number of logs that are simulated from the fitted world and laid beside the real one; `rounds` is the
    length of the audit that ranks strategies in it, 0 for none.
    """
    tell = progress or (lambda stage: None)
    if isinstance(log, Log):
        source, read = "the log", log
    else:
        tell("reading")
        source = fspath(log)
        read = read_log(log, slot_seconds=slot_seconds, num_rounds=num_rounds, clients=clients)
    tell("examining")
    findings = examine(read)
    tell("fitting a world")
    fitted = fit(read, findings)
    tell("comparing the world with the log")
    alike = likeness(read, findings, fitted, seeds)
    if rounds == 0:
        return Diagnosis(source, read, findings, fitted, alike)
    tell("auditing strategies in that world")
    return Diagnosis(source, read, findings, fitted, alike, rank(read, fitted, findings.weights.target, rounds))
