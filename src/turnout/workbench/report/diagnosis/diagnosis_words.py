"""A diagnosis in plain words, the most important sentence first."""

from __future__ import annotations

import numpy as np

from turnout.declarations import checked
from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.findings.rates import lag_one
from turnout.workbench.diagnosis.findings.recorded_time import EVERY_SLOT
from turnout.workbench.diagnosis.reading.log import AVAILABILITY, PARTICIPATION, Shows
from turnout.workbench.diagnosis.world.ranking import FAIR
from turnout.workbench.report.audit import who_is_fair, with_half
from turnout.workbench.report.diagnosis.advice import recommendation
from turnout.workbench.report.diagnosis.cycle_words import cycle_words
from turnout.workbench.report.diagnosis.readable import duration, moment, percent, stretch
from turnout.workbench.report.diagnosis.work_words import pace_advice, pace_words, work_words
from turnout.workbench.report.page.labels import paper_label

FORGOTTEN = 0.1  # share of its target below which a client hardly counts
MOST_NAMED = 3  # clients in a sentence
MOST_OUTAGES = 5  # located in a sentence


@checked
def diagnosis_words(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """What a reader should take away, by section of the page."""
    pacing = diagnosis.pacing
    pace = [] if pacing is None else pace_advice(pacing, diagnosis.log.num_clients)
    in_time = {"work": work_words(diagnosis), "pace": pace_words(diagnosis)}
    return {
        "summary": [*recommendation(diagnosis), *pace, headline(diagnosis), *_forgotten(diagnosis)],
        "log": [*_log(diagnosis), *_outages(diagnosis)],
        "availability": _availability(diagnosis),
        "company": _company(diagnosis),
        "cycles": cycle_words(diagnosis),
        "separation": _separation(diagnosis),
        "drift": _drift(diagnosis),
        "uploads": _uploads(diagnosis),
        "mixing": _mixing(diagnosis),
        **{name: lines for name, lines in in_time.items() if lines},
        "world": _world(diagnosis),
    }


def span(diagnosis: Diagnosis, slots: float) -> str:
    """A number of slots, as time where the log has a clock."""
    seconds = diagnosis.log.slot_seconds
    if seconds is None:
        return f"{slots:,.3g} rounds" if slots < 1000 else f"{slots:,.0f} rounds"
    return duration(slots * seconds)


def favoured(diagnosis: Diagnosis) -> tuple[float, float]:
    """The fewest clients that get half of the weight: their share of the fleet and of the target."""
    weights = diagnosis.findings.weights
    favoured = with_half(weights.weighted)
    return favoured.size / weights.target.size, float(weights.target[favoured].sum())


def headline(diagnosis: Diagnosis) -> str:
    """Whom FedAvg trains the model for, in one sentence."""
    weights = diagnosis.findings.weights
    distance = percent(weights.weighted_distance)
    if weights.weighted.sum() == 0:
        return "Nobody ever came: there is nothing to train on."
    if weights.weighted_distance < FAIR:
        return (
            f"FedAvg on this fleet trains for the clients about as asked: {distance} of the weight goes to others than "
            "it should."
        )
    if weights.beyond_chance < FAIR:
        return (
            f"FedAvg on this fleet trains for the clients about as asked: {distance} of the weight goes to others than "
            f"it should, but chance gives {percent(weights.by_chance)} in a log as long."
        )
    fleet, target = favoured(diagnosis)
    return (
        f"FedAvg on this fleet trains mostly for {percent(fleet)} of the clients: they get half of the weight, where "
        f"{percent(target)} was asked; in all, {distance} of the weight goes to the wrong clients."
    )


def _outages(diagnosis: Diagnosis) -> list[str]:
    """Where nobody came though clients would have."""
    outages, log = diagnosis.findings.outages, diagnosis.log
    if not outages.found:
        return []
    unit = "rounds" if log.slot_seconds is None else "slots"
    ends = zip(outages.first.tolist(), outages.end.tolist(), strict=True)
    stretches = [stretch(log, first, end) for first, end in ends]
    more = f" and {len(stretches) - MOST_OUTAGES} more" if len(stretches) > MOST_OUTAGES else ""
    return [
        f"{unit.capitalize()} {', '.join(stretches[:MOST_OUTAGES])}{more}: nobody, which the clients do not explain "
        "(an outage, or nothing was recorded); excluded from all that follows."
    ]


def _uploads(diagnosis: Diagnosis) -> list[str]:
    """Who loses uploads, and what it costs."""
    uploads, names = diagnosis.findings.lost_uploads, diagnosis.log.names
    if uploads is None:
        return ["The log does not say which uploads arrived."]
    if not uploads.found:
        return ["Every upload arrived."]
    lines = [f"{percent(uploads.lost)} of the uploads are lost: that much work is done for nothing."]
    if uploads.worst:
        shares = ((names[k], *map(percent, uploads.lost_by(k))) for k in uploads.worst[:MOST_NAMED])
        shown = ", ".join(f"{name} ({lost}; 95 % interval {low} to {high})" for name, lost, low, high in shares)
        many = f"{len(uploads.worst):,} clients lose" if len(uploads.worst) > 1 else "1 client loses"
        lines.append(f"{many} more than the fleet beyond chance, most of all {shown}.")
    else:
        lines.append("No client loses more than the others beyond chance.")
    before, after = diagnosis.findings.weights.weighted_distance, uploads.distance
    lines.append(
        f"With the losses FedAvg misplaces {percent(after)} of the weight, {percent(before)} if every upload arrived."
    )
    return lines


def _forgotten(diagnosis: Diagnosis) -> list[str]:
    weights = diagnosis.findings.weights
    few = (weights.weighted < FORGOTTEN * weights.target) & (weights.target > 0)
    never = int((diagnosis.findings.rates.on == 0).sum())
    if not few.any() or weights.beyond_chance < FAIR:
        return []
    of_them = f", {never:,} of which never came" if never else ""
    return [
        f"{int(few.sum()):,} of {len(few):,} clients get less than a tenth of the weight that they should get{of_them}."
    ]


def _log(diagnosis: Diagnosis) -> list[str]:
    log = diagnosis.log
    length = "rounds" if log.slot_seconds is None else f"slots of {duration(log.slot_seconds)}"
    whole = "" if log.slot_seconds is None else f" ({duration(log.slot_seconds * log.num_slots)})"
    watched = log.num_clients * log.num_slots if log.watched is None else int(log.watched.length.sum())
    lines = [f"{log.num_clients:,} clients over {log.num_slots:,} {length}{whole}."]
    lines.append(_shows(diagnosis.findings.shows))
    if log.watched is not None:
        lines.append(f"A client was watched {percent(watched / (log.num_clients * log.num_slots))} of that time.")
    if diagnosis.findings.weights.basis != EVERY_SLOT:
        lines.append(f"Weights are counted over {diagnosis.findings.weights.basis}.")
    empty = diagnosis.findings.weights.empty_slots
    if empty:
        lines.append(f"Nobody was there in {percent(empty / log.num_slots)} of it.")
    return lines


def _shows(shows: Shows) -> str:
    """What the log is taken for, and how to say that it is something else."""
    taken = f"The log is taken for one of {shows.kind}, as {shows.because}: a client that is absent"
    if shows.kind == PARTICIPATION:
        instead = "" if shows.surely else f" If it was not there, say --shows {AVAILABILITY}."
        return f"{taken} may have been there without being asked.{instead}"
    instead = (
        f" {shows.otherwise}"
        if shows.otherwise
        else ""
        if shows.surely
        else f" If it may only not have been asked, say --shows {PARTICIPATION}."
    )
    return f"{taken} could not have taken part.{instead}"


def _availability(diagnosis: Diagnosis) -> list[str]:
    rates = diagnosis.findings.rates
    watched = np.isfinite(rates.pi)
    if not watched.any():
        return ["No client was watched."]
    low, middle, high = np.quantile(rates.pi[watched], [0.05, 0.5, 0.95])
    does = "takes part" if diagnosis.findings.shows.kind == PARTICIPATION else "is there"
    lines = [
        f"The median client {does} {percent(middle)} of the time; nine in ten between {percent(low)} and "
        f"{percent(high)}."
    ]
    changing = watched & (rates.on > 0) & (rates.on < rates.watched)
    if not changing.any():
        return [*lines, "No client both came and stayed away, so nothing is known of its correlation."]
    surely = percent(float(rates.persistent[changing].mean()))
    lines.append(
        f"{surely} of the clients that both came and stayed away surely have memory (λ ≠ 0 at a false discovery rate "
        f"of 5 %); their median λ̂ is {float(np.median(rates.lam[changing])):.2f}."
    )
    if diagnosis.findings.cycles.found:
        lines.append("What a cycle brings is part of that memory.")
    neighbours = lag_one(diagnosis.studied)
    if np.isfinite(neighbours).any():
        slot = "round" if diagnosis.log.slot_seconds is None else f"slot of {duration(diagnosis.log.slot_seconds)}"
        lines.append(f"Their median autocorrelation from one {slot} to the next is {np.nanmedian(neighbours):z.2f}.")
    return lines


def _company(diagnosis: Diagnosis) -> list[str]:
    clusters = diagnosis.findings.clusters
    if not clusters.count:
        return ["No clients move together beyond the course of the whole fleet."]
    sample = f" {clusters.sampled:,} courses were compared pair by pair." if clusters.sampled is not None else ""
    strength = float(np.average(clusters.strength, weights=clusters.sizes))
    groups = "one group of" if clusters.count == 1 else f"{clusters.count:,} groups of up to"
    return [
        f"{percent(clusters.share)} of the clients move together with others, in {groups} {int(clusters.sizes[0]):,}; "
        f"two clients of a group have a correlation of {strength:.2f} on average.{sample}"
    ]


def _separation(diagnosis: Diagnosis) -> list[str]:
    gaps = diagnosis.findings.gaps
    if gaps.separated:
        batch = f" in batches of {gaps.batch}" if gaps.batch else ""
        return [f"Clients rest for {gaps.separation} rounds after each participation{batch}: that is beyond chance."]
    if gaps.shortest is None:
        return ["Nobody came twice, so nothing is known of rests."]
    return ["Clients need no rest between participations."]


def _drift(diagnosis: Diagnosis) -> list[str]:
    drift = diagnosis.findings.drift
    late, left = int(drift.arrived_late.sum()), int(drift.vanished.sum())
    moved = f"{late:,} clients came later and {left:,} left earlier than chance explains."
    if not drift.found:
        return ["The fleet looks stationary.", *([moved] if late or left else [])]
    level = ""
    if drift.change_slot is not None:
        before, after = percent(drift.level_before), percent(drift.level_after)
        unit = "round" if diagnosis.log.slot_seconds is None else "slot"
        where = f"{unit} {moment(diagnosis.log, drift.change_slot)}"
        level = f" The share of the fleet that is there went from {before} to {after} at {where}."
    return [f"The fleet is not stationary.{level} {int(drift.drifting.sum()):,} clients changed their rates. {moved}"]


def _mixing(diagnosis: Diagnosis) -> list[str]:
    mixing, rates = diagnosis.findings.mixing, diagnosis.findings.rates
    changing = (rates.on > 0) & (rates.on < rates.watched)
    if not changing.any():
        return ["Nothing is known of how long participation takes to forget."]
    middle, most = float(np.median(mixing.relaxation[changing])), float(mixing.relaxation_low[mixing.slowest])
    slowest = f"at least {span(diagnosis, most)} for client {diagnosis.log.names[mixing.slowest]}"
    return [
        f"The relaxation time 1 / (1 - |λ|), in which the past fades to a third, is {span(diagnosis, middle)} for the "
        f"median client and {slowest if most > middle else 'surely longer for none'}."
    ]


def _world(diagnosis: Diagnosis) -> list[str]:
    fitted, likeness = diagnosis.fitted, diagnosis.likeness
    kind = fitted.kind.replace("_", " ")
    lines = [f"A {kind} world was fitted."]
    if likeness.alike:
        lines.append(f"{likeness.seeds} logs simulated from it are like the real one in all that was compared.")
    else:
        lines.append(f"Logs simulated from it differ from the real one in: {', '.join(likeness.differences)}.")
    return lines + [f"{note[0].upper()}{note[1:]}." for note in fitted.notes]


def ranking_words(diagnosis: Diagnosis) -> list[str]:
    """What the audit of the fitted world says."""
    ranking = diagnosis.ranking
    if ranking is None:
        return []
    sample = "" if ranking.clients == diagnosis.log.num_clients else f", on a sample of {ranking.clients:,} clients"
    how = f"An audit of {ranking.rounds:,} rounds in the fitted world{sample}; the server estimates what it must know."
    fair = [paper_label(rank.strategy) for rank in ranking.ranks if rank.consistent]
    return [how, who_is_fair(fair, paper_label(ranking.best.strategy), percent(ranking.best.distance))]
