"""What to do after a diagnosis, before the evidence."""

from __future__ import annotations

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.world.ranking import CANDIDATES, FAIR, PLAIN, Ranking
from turnout.workbench.report.diagnosis.readable import percent
from turnout.workbench.report.page.labels import paper_label


def recommendation(diagnosis: Diagnosis) -> list[str]:
    """What to do first, if strategies were audited."""
    ranking = diagnosis.ranking
    plain = None if ranking is None else ranking.rank_of(PLAIN)
    if ranking is None or plain is None:
        return []
    best, name = ranking.recommended, paper_label(ranking.recommended.strategy)
    if best is plain and (plain.consistent or ranking.beyond_chance(plain.distance) < FAIR):
        will_do = f"FedAvg will do: in a world like this log it misplaces {percent(plain.distance)} of the weight."
        return [will_do, *_by_chance(diagnosis)]
    if not best.consistent and best.distance > FAIR:
        return [
            f"No strategy that was tried is fair here. {name} comes nearest: it misplaces "
            f"{percent(best.distance)} of the weight, FedAvg {percent(plain.distance)}."
        ]
    use = (
        f"Use {name}: in a world like this log FedAvg misplaces {percent(plain.distance)} of the weight; "
        f"with {name} it is {percent(best.distance)}."
    )
    return [use, *_without_its_memory(ranking)]


def _by_chance(diagnosis: Diagnosis) -> list[str]:
    """What chance alone gives in a log as long, where that is what the log shows."""
    weights, length = diagnosis.findings.weights, diagnosis.log.num_slots
    if weights.weighted_distance < FAIR or weights.beyond_chance >= FAIR:
        return []
    slots = "rounds" if diagnosis.log.slot_seconds is None else "slots"
    return [
        f"In this log it misplaced {percent(weights.weighted_distance)}; where all clients come equally often, chance "
        f"gives {percent(weights.by_chance)} in {length:,} {slots}. That is nothing that a strategy should cure."
    ]


def _without_its_memory(ranking: Ranking) -> list[str]:
    """What else to take if the recommended strategy remembers one model per client."""
    if not ranking.recommended.remembers_models:
        return []
    other = ranking.without_models
    instead = (
        "no strategy without one is fair here" if other is None else f"without one, take {paper_label(other.strategy)}"
    )
    name = paper_label(ranking.recommended.strategy)
    return [f"{name} needs a memory of one model per client; {instead}."]


def flower_line(diagnosis: Diagnosis) -> str:
    """The recommended strategy as a Flower strategy; empty if none was audited."""
    if diagnosis.ranking is None:
        return ""
    name = diagnosis.ranking.recommended.strategy
    return f"FlowerStrategy({type(CANDIDATES[name]).__name__}())" if name in CANDIDATES else ""
