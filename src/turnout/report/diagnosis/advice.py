"""What to do after a diagnosis, before the evidence."""

from __future__ import annotations

from turnout.diagnosis.diagnose import Diagnosis
from turnout.diagnosis.world.ranking import CANDIDATES
from turnout.report.diagnosis.readable import percent

FAIR = 0.05  # total variation below which plain averaging is about right


def recommendation(diagnosis: Diagnosis) -> list[str]:
    """What to do first, if strategies were audited."""
    ranking = diagnosis.ranking
    plain = None if ranking is None else ranking.named("fedavg")
    if ranking is None or plain is None:
        return []
    best = ranking.recommended
    if plain.consistent or plain.distance < FAIR:
        return [f"FedAvg will do: in a world like this log it misplaces {percent(plain.distance)} of the weight."]
    if not best.consistent and best.distance > FAIR:
        return [
            f"No strategy that was tried is fair here. {best.strategy} comes nearest: it misplaces "
            f"{percent(best.distance)} of the weight, FedAvg {percent(plain.distance)}."
        ]
    return [
        f"Use {best.strategy}: in a world like this log FedAvg misplaces {percent(plain.distance)} of the weight; "
        f"with {best.strategy} it is {percent(best.distance)}."
    ]


def flower_line(diagnosis: Diagnosis) -> str:
    """The recommended strategy as a Flower strategy; empty if none was audited."""
    if diagnosis.ranking is None:
        return ""
    name = diagnosis.ranking.recommended.strategy
    return f"FlowerStrategy({type(CANDIDATES[name]).__name__}())" if name in CANDIDATES else ""
