"""What chance gives is no finding: heavy tails, weeks, long memory, a server's draw, a fleet that grows."""

from dataclasses import replace

import numpy as np
import pytest

from turnout.workbench.diagnosis.diagnose import diagnose
from turnout.workbench.diagnosis.findings.absences import absences, chance_of_absence
from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.findings.churn import churn
from turnout.workbench.diagnosis.findings.clusters import _patterns
from turnout.workbench.diagnosis.findings.drift import drift
from turnout.workbench.diagnosis.findings.fedavg_weights import weights
from turnout.workbench.diagnosis.findings.spells import spells_variance
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.reading.log_file import read_log
from turnout.workbench.diagnosis.world.ranking import Rank, Ranking
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words

FLEETS = ("heavy_spells", "weekly_rhythm", "long_memory", "rarely_drawn", "growing", "ten_of_a_hundred")


def test_every_fleet_has_a_test(churn_fleets):
    assert tuple(churn_fleets.FLEETS) == FLEETS


@pytest.mark.parametrize("name", [name for name in FLEETS if name != "long_memory"])
def test_nothing_is_found_that_is_not_there(churn_fleets, shifting_fleets, name):
    for seed in (0, 6):
        fleet = churn_fleets.FLEETS[name](np.random.default_rng(seed))
        findings = examine(fleet.log)
        assert fleet.true <= shifting_fleets.findings_of(findings), seed
        assert not shifting_fleets.false_findings(fleet, findings), seed


# Here bursts were taken for change, a holiday for an outage, and for company.
@pytest.mark.parametrize(
    ("name", "seeds"), [("bursts", (5003, 5012, 5014)), ("holiday_week", (5004, 5010, 7017))], ids=["bursts", "holiday"]
)
def test_long_memory_and_weeks_unlike_others_are_no_findings(unseen_fleets, shifting_fleets, name, seeds):
    for seed in seeds:
        fleet = unseen_fleets.FLEETS[name](np.random.default_rng(seed))
        assert not shifting_fleets.false_findings(fleet, examine(fleet.log)), seed


def test_one_of_many_pairs_in_a_week_is_no_company(churn_fleets):
    """A pair alone must be surer than one link of several; at a rate of 1 % this fleet had one."""
    fleet = churn_fleets.FLEETS["weekly_rhythm"](np.random.default_rng(60015))
    assert examine(fleet.log).clusters.count == 0


def test_many_clients_with_few_changes_are_no_company():
    """Among 20,000 clients some have the same four changes in 300 rounds by chance."""
    draw = np.random.default_rng(0)
    ends = np.sort(draw.integers(1, 300, (20_000, 4)), axis=1)
    slots = np.arange(300)
    inside = [(slots >= ends[:, [k]]) & (slots < ends[:, [k + 1]]) for k in (0, 2)]
    log = Log.from_matrix(inside[0] | inside[1])
    assert len(np.unique(ends, axis=0)) < len(ends)
    assert len(np.unique(_patterns(log))) == log.num_clients


def test_the_chance_of_an_absence_follows_its_tail():
    """Geometric absences end soon; among Pareto's ones, one as long is met now and then."""
    draw = np.random.default_rng(1)
    heavy = np.ceil(3 * draw.pareto(1.3, (40, 60))).astype(int)
    light = draw.geometric(1 / heavy.mean(), (40, 60))
    chances = []
    for lengths in (light, heavy):
        rows = np.zeros((40, 3000), bool)
        for row, own in zip(rows, lengths, strict=True):
            at = np.cumsum(own + 1)
            row[at[at < 3000]] = True
        log = Log.from_matrix(rows)
        asked = np.arange(40)
        chances.append(np.median(chance_of_absence(log, absences(log), asked, np.full(40, 300))))
    assert chances[0] < 1e-4
    assert chances[1] > 0.02


def test_an_absence_must_be_twice_as_long_as_any_before_it():
    present = np.tile(np.arange(600) % 60 < 45, (20, 1))
    present[:, :] ^= np.random.default_rng(0).random(present.shape) < 0.2
    present[:, -28:] = False
    assert not churn(Log.from_matrix(present)).vanished.any()


def test_the_variance_of_spells_counts_each_spell_once():
    """Spells of 2 there and 2 away, π = 1/2: no variance. One spell of 4 and 4: ±2."""
    regular = Log.from_matrix(np.tile([True, True, False, False], 3)[None])
    assert spells_variance(regular)[0] == 0
    one = Log.from_matrix(np.array([[True] * 6 + [False] * 2 + [True] * 2 + [False] * 6]))
    assert spells_variance(one)[0] == pytest.approx(2**2 + 2**2)
    late = Log.from_matrix(np.array([[False] * 4 + [True] * 4]))
    assert spells_variance(late)[0] == pytest.approx(2**2 + 2**2)


def test_one_long_spell_is_no_change_of_rate():
    """Twenty short spells and one of half of the log: its place says nothing."""
    draw = np.random.default_rng(3)
    rows = []
    for _ in range(40):
        spells = draw.permutation(np.r_[draw.integers(1, 6, 40), 300])
        rows.append(np.repeat(np.arange(len(spells)) % 2 == 0, spells)[:400])
    log = Log.from_matrix(np.array([np.pad(row, (0, 400 - len(row))) for row in rows]))
    findings = examine(log)
    assert not drift(log, findings.rates, findings.cycles).drifting.any()


def test_what_chance_gives_is_told(churn_fleets):
    """½ E|X - np| / np of a binomial number, by its law: 6.9 % of 300 rounds of 10 in 100."""
    found = weights(churn_fleets.drawn(np.random.default_rng(0), 100, 10, 300))
    law = np.random.default_rng(1).binomial(300, 0.1, 200_000)
    assert found.by_chance == pytest.approx(np.abs(law - 30).mean() / 60, rel=0.01)
    assert found.is_chance
    assert found.beyond_chance < 0.05 < found.weighted_distance
    unlike = Log.from_matrix(np.random.default_rng(2).random((100, 300)) < np.linspace(0.02, 0.2, 100)[:, None])
    assert not weights(unlike).is_chance
    assert weights(unlike).beyond_chance > 0.1


def test_a_server_that_draws_uniformly_needs_no_cure(churn_fleets):
    log = churn_fleets.drawn(np.random.default_rng(0), 20, 4, 40)
    diagnosis = diagnose(log, seeds=1, rounds=0)
    ranks = (Rank("last_word", 0.0, 0.0, True, 0.0, ""), Rank("fedavg", 0.09, 0.0, False, 0.0, ""))
    ranking = Ranking(ranks, 100, 20, diagnosis.findings.weights.most_by_chance)
    words = diagnosis_words(replace(diagnosis, ranking=ranking))
    assert words["summary"][0].startswith("FedAvg will do")
    assert "chance gives" in words["summary"][1]
    assert any("one of participation, as every round has exactly 4" in line for line in words["log"])
    assert set(diagnosis.fitted.parameters["pi"]) == {0.2}


def test_a_distance_that_chance_gives_is_no_reason_for_another_strategy():
    def of(by_chance):
        plain = Rank("fedavg", 0.07, 0.0, False, 0.0, "")
        fair = Rank("last_word", 0.0, 0.0, True, 0.0, "")
        return Ranking((fair, plain), 100, 4, by_chance).recommended.strategy

    assert (of(0.0), of(0.06)) == ("last_word", "fedavg")


def test_a_fleet_that_grows_from_nothing_has_no_outages():
    draw = np.random.default_rng(0)
    joins = np.r_[3, np.linspace(30, 300, 59)]
    present = (draw.random((60, 400)) < 0.3) & (np.arange(400) >= joins[:, None])
    assert (present[:, :25].sum(axis=0) == 0).sum() > 10
    assert not examine(Log.from_matrix(present)).outages.found


def test_what_a_log_shows(tmp_path):
    def shown(text, **options):
        path = tmp_path / "log.csv"
        path.write_text(text)
        return examine(read_log(path, **options)).shows

    rows = "".join(f"{t},{k}\n" for t in range(12) for k in "abc" if (t + ord(k)) % 3 or t % 2)
    plain = shown("round,client\n" + rows)
    assert (plain.kind, plain.surely) == ("participation", False)
    assert shown("round,client\n" + rows, shows="availability").because == "you say so"
    asked = "".join(f"{line},{n % 2}\n" for n, line in enumerate(rows.split()))
    told = shown("round,client,selected\n" + asked)
    assert (told.kind, told.surely) == ("availability", True)
    assert shown("client,start,end\na,0,6000\nb,0,3000\n").kind == "availability"
    same = Log.from_matrix(np.eye(3, dtype=bool)[np.arange(12) % 3].T)
    assert examine(same).shows.kind == "participation"
    with pytest.raises(ValueError, match="must be availability, participation, work or sessions"):
        read_log(tmp_path / "log.csv", shows="both")


def test_only_who_was_asked_counts_where_a_column_says_so(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("round,client,asked,arrived\n0,a,1,1\n0,b,0,\n1,a,1,0\n1,b,1,1\n2,a,0,\n2,b,1,1\n")
    log = read_log(path)
    assert log.matrix().astype(int).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert log.averaged.matrix([0, 1], 3).astype(int).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert log.uploads.tolist() == [2, 2]
    assert log.arrived.tolist() == [0.5, 1.0]
