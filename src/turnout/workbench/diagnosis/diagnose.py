"""From a log to its diagnosis: findings, a fitted world, and how similar that world is to the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Annotated, Any

from turnout.declarations import MAX_COUNT, Numbers, checked
from turnout.presented import Presented
from turnout.workbench.diagnosis.findings.all_findings import Findings, examine
from turnout.workbench.diagnosis.findings.outages import leave_out
from turnout.workbench.diagnosis.plain import plain
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.reading.log_file import as_stated, read_log
from turnout.workbench.diagnosis.world.fit import Fitted, fit
from turnout.workbench.diagnosis.world.likeness import SEEDS, Likeness, likeness
from turnout.workbench.diagnosis.world.pacing import Pacing, pacing
from turnout.workbench.diagnosis.world.ranking import CANDIDATES, ROUNDS, Ranking, rank

Progress = Callable[[str], None]  # called with the name of each stage
NumLogs = Annotated[int, Numbers(1, 1000)]
RoundsOrNone = Annotated[int, Numbers(0, MAX_COUNT)]


@dataclass(frozen=True)
class Diagnosis(Presented):
    """What a log shows, a world fitted to it, and which strategies would be fair there."""

    source: str  # name of the log
    log: Log
    findings: Findings
    fitted: Fitted
    likeness: Likeness
    ranking: Ranking | None = None  # strategies in the fitted world, the fairest first; None: not audited
    pacing: Pacing | None = None  # what servers of other paces would make of the fleet; None: the log has no times

    def __repr__(self) -> str:
        log = self.log
        best = "" if self.ranking is None else f"; use {type(CANDIDATES[self.ranking.recommended.strategy]).__name__}"
        misplaced = 100 * self.findings.weights.weighted_distance
        return (
            f"Diagnosis of {self.source}: {log.num_clients:,} clients over {log.num_slots:,} slots, "
            f"{self.findings.recognised.name}; FedAvg misplaces {misplaced:.0f} %{best}"
        )

    @property
    def studied(self) -> Log:
        """The log without its outages."""
        return leave_out(self.log, self.findings.outages)

    def to_json(self, clients: bool = True) -> dict[str, Any]:
        """All that `diagnosis.json` says: the sentences and `numbers(clients)`."""
        return self.writer().diagnosis_summary(self, clients)

    def numbers(self, clients: bool = True) -> dict[str, Any]:
        """All numbers as plain dicts and lists, null where not finite; `clients`: include per-client values."""
        log = self.log
        about = {
            "clients": log.num_clients,
            "slots": log.num_slots,
            "slot_seconds": log.slot_seconds,
            "clock_start": log.clock_start,
            "dated": log.dated,
            "zone": log.zone,
            "first_round": log.first_round,
            "participations": int(log.present.length.sum()),
            "warnings": list(log.warnings),
        }
        per_client = {name: getattr(log, name) for name in ("names", "sizes", "losses", "arrived", "steps")}
        about |= {name: values for name, values in per_client.items() if clients and values is not None}
        return plain(
            {
                "source": self.source,
                "log": about,
                "findings": self.findings,
                "fitted": self.fitted if clients else {"kind": self.fitted.kind, "notes": self.fitted.notes},
                "likeness": self.likeness,
                "ranking": self.ranking,
                "pacing": self.pacing,
            },
            clients,
        )


# Long: half of it are its options.
@checked
def diagnose(  # noqa: PLR0913 (keywords that a user chooses from)
    log: Log | str | PathLike[str],
    *,
    slot_seconds: float | int | None = None,
    num_rounds: int | None = None,
    clients: str | PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    zone: str | None = None,
    shows: str | None = None,
    seeds: NumLogs = SEEDS,
    rounds: RoundsOrNone = ROUNDS,
    progress: Progress | None = None,
) -> Diagnosis:
    """Diagnose a log, or a file that holds one: see `turnout.read_log` for files and options.

    `seeds` is the number of logs that are simulated from the fitted world and compared with the real one. `rounds` is
    the length of the audit that ranks strategies in it, 0 for none.
    """
    announce = progress or (lambda stage: None)
    if isinstance(log, Log):
        source, loaded = "the log", as_stated(log, shows)
    else:
        announce("reading")
        source = fspath(log)
        loaded = read_log(
            log,
            slot_seconds=slot_seconds,
            num_rounds=num_rounds,
            clients=clients,
            columns=columns,
            zone=zone,
            shows=shows,
        )
    announce("examining")
    findings = examine(loaded)
    announce("fitting a world")
    studied = leave_out(loaded, findings.outages)
    fitted = fit(studied, findings)
    announce("comparing the world with the log")
    similarity = likeness(studied, findings, fitted, seeds)
    ranking = None
    if rounds != 0:
        announce("auditing strategies in that world")
        weights = findings.weights
        ranking = rank(loaded, fitted, weights.target, rounds, by_chance=weights.most_by_chance)
    paces = None
    if loaded.work is not None:
        announce("comparing paces")
        paces = pacing(loaded, findings, fitted, rounds)
    return Diagnosis(source, loaded, findings, fitted, similarity, ranking, paces)
