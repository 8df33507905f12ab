import pytest

from turnout.workbench import ExperimentError
from turnout.workbench.reproduction.claim import claim_names, merge, read_claim

SHIPPED = claim_names()


def test_profiles_change_what_they_name(tiny_claim, write_claim):
    path = write_claim(tiny_claim)
    quick, full = read_claim(path), read_claim(path, "full")
    assert (quick.profile, full.profile) == ("quick", "full")
    assert [len(one.panels[""].seeds) for one in (quick, full)] == [2, 3]
    assert [one.panels[""].rounds for one in (quick, full)] == [4, 40]
    assert quick.panels[""].task == full.panels[""].task


def test_panels_are_the_experiment_with_changes(tiny_claim, write_claim):
    tiny_claim["panels"] = {"small": {}, "large": {"task": {"num_clients": 9}}}
    claim = read_claim(write_claim(tiny_claim))
    assert [panel.task.arguments["num_clients"] for panel in claim.panels.values()] == [5, 9]
    assert all(panel.task.arguments["dimension"] == 2 for panel in claim.panels.values())


def test_a_table_of_another_name_replaces():
    base = {"task": {"name": "a", "x": 1}, "rounds": 3}
    assert merge(base, {"task": {"name": "b", "y": 2}}) == {"task": {"name": "b", "y": 2}, "rounds": 3}
    assert merge(base, {"task": {"x": 2}}) == {"task": {"name": "a", "x": 2}, "rounds": 3}
    assert base == {"task": {"name": "a", "x": 1}, "rounds": 3}


def test_settings_come_last(tiny_claim, write_claim):
    assert read_claim(write_claim(tiny_claim), "full", ("experiment.rounds=7",)).panels[""].rounds == 7


def test_some_panels_alone(tiny_claim, write_claim, tmp_path):
    tiny_claim["panels"] = {"small": {}, "large": {"task": {"num_clients": 9}}}
    tiny_claim["checks"] = [tiny_claim["checks"][0] | {"panel": panel} for panel in ("small", "large")]
    claim = read_claim(write_claim(tiny_claim), settings=("experiment.rounds=7",), only_panels=("large",))
    assert list(claim.panels) == ["large"]
    assert [check["panel"] for check in claim.document["checks"]] == ["large"]
    assert claim.document["changed"] == ["experiment.rounds=7", "panel=large"]
    (tmp_path / "again.toml").write_text(claim.to_toml(), encoding="utf-8")
    assert read_claim(tmp_path / "again.toml").document == claim.document
    with pytest.raises(ExperimentError, match="did you mean 'large'"):
        read_claim(write_claim(tiny_claim), only_panels=("lage",))


def test_a_panel_alone_leaves_out_the_checks_that_name_another(tiny_claim, write_claim):
    names = {"panels": {"a": {}, "b": {"rounds": 2}}}
    check = tiny_claim["checks"][0] | {"panel": "b", "of": ["a: slow"]}
    path = write_claim(tiny_claim | names | {"checks": [check]})
    assert len(read_claim(path).document["checks"]) == 1
    assert read_claim(path, only_panels=("b",)).document["checks"] == []


def test_what_was_run_reads_back(tiny_claim, write_claim, tmp_path):
    claim = read_claim(write_claim(tiny_claim), "full")
    (tmp_path / "again.toml").write_text(claim.to_toml(), encoding="utf-8")
    again = read_claim(tmp_path / "again.toml")
    assert (again.name, again.profile, again.runs, again.panels) == (claim.name, "full", claim.runs, claim.panels)
    with pytest.raises(ExperimentError, match="holds the full size only"):
        read_claim(tmp_path / "again.toml", "quick")


def test_a_claim_may_look_at_the_runs_of_another(tiny_claim, write_claim):
    first = write_claim(tiny_claim)
    says = {key: tiny_claim[key] for key in ("title", "claim", "checks", "figure")}
    second = write_claim(says | {"title": "Otherwise", "same_runs_as": str(first)}, "other")
    assert read_claim(second, "full").runs == read_claim(first, "full").runs
    with pytest.raises(ExperimentError, match="costs, experiment would change the runs"):
        read_claim(write_claim(tiny_claim | {"same_runs_as": str(first)}, "third"))


def test_a_claim_that_looks_at_the_runs_of_another_has_its_own_checks_in_each_size(tiny_claim, write_claim):
    others = [tiny_claim["checks"][0] | {"label": "slow"}]
    tiny_claim["profiles"]["quick"]["checks"] = others * 2
    first = write_claim(tiny_claim)
    says = {key: tiny_claim[key] for key in ("title", "claim", "checks", "figure")} | {"same_runs_as": str(first)}
    plain, sized = write_claim(says, "a"), write_claim(says | {"profiles": {"full": {"checks": others}}}, "b")
    assert read_claim(plain, "quick").document["checks"] == tiny_claim["checks"]
    assert read_claim(sized, "full").document["checks"] == others
    assert read_claim(sized, "full").runs == read_claim(first, "full").runs
    changed = says | {"profiles": {"full": {"experiment": {"rounds": 3}}}}
    with pytest.raises(ExperimentError, match="experiment would change the runs"):
        read_claim(write_claim(changed, "c"))


@pytest.mark.parametrize("profiles", [3, {"full": 3}])
def test_profiles_that_are_no_tables_are_told_also_beside_the_runs_of_another(tiny_claim, write_claim, profiles):
    first = write_claim(tiny_claim)
    says = {key: tiny_claim[key] for key in ("title", "claim", "checks", "figure")} | {"same_runs_as": str(first)}
    with pytest.raises(ExperimentError, match=r"other: profiles.*: given 3, expected"):
        read_claim(write_claim(says | {"profiles": profiles}, "other"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titl": "x"}, "did you mean 'title'"),
        ({"paper": "nobody1999"}, "no reference is called 'nobody1999'"),
        ({"checks": []}, "expected a list"),
        ({"checks": [{"name": "aheadd"}]}, "did you mean 'ahead'"),
        ({"checks": [{"name": "ahead", "label": "fast"}]}, "'measure' is missing"),
        ({"checks": [{"name": "ahead", "label": 3, "measure": {"name": "final", "metric": "x"}}]}, "expected text"),
        ({"checks": [{"name": "ahead", "label": "a", "measure": {"name": "finl"}}]}, "did you mean 'final'"),
        ({"procedure": {"name": "x"}}, "either an experiment or a procedure"),
        ({"tuning": {"metric": "test_accuracy"}}, "test data"),
        ({"tuning": {"metric": "train_loss", "rounds": 5}}, "needs seeds"),
        ({"clients": ["wait"]}, "did you mean 'weight'"),
        ({"clients": 3}, "clients: given 3, expected a list, each text"),
        ({"name": 3}, "name: given 3, expected text"),
        ({"same_runs_as": ["x"]}, r'same_runs_as: given \["x"\], expected text'),
        ({"paper": {}}, "paper: given {}, expected text"),
        ({"exact": 1}, "exact: given 1, expected true or false"),
        ({"figure": [1]}, r"figure: given \[1\], expected a table"),
        ({"panels": {"a": [1]}}, r"panels.a: given \[1\], expected a table"),
        ({"panels": {"a": {"step": {}}}}, "panels.a.step: given {}, expected text"),
        ({"tuning": {"metric": 3}}, "tuning.metric: given 3, expected text"),
        ({"tuning": {"metric": "train_loss", "seeds": 3}}, "tuning.seeds: given 3, expected a list"),
        ({"tuning": {"metric": "train_loss", "seeds": [-1]}}, r"tuning: seeds\[0\] must be a whole number"),
        ({"tuning": {"metric": "train_loss", "seeds": [1], "rounds": 0}}, "tuning: rounds must be a whole number"),
        ({"checks": [{"name": "ahead", "label": {}, "measure": {"name": "final"}}]}, "label: given {}, expected text"),
        (
            {"checks": [{"name": "table", "numbers": {"a": "often"}, "measure": {"name": "final", "metric": "x"}}]},
            r'checks\[0\].numbers.a: given "often", expected a number or never',
        ),
        ({"panels": 3}, "panels: given 3, expected a table"),
        ({"experiment": 3, "profiles": {}}, "experiment: given 3, expected a table"),
        ({"profiles": {"fast": {}}}, "there are quick and full, not fast"),
        ({"profiles": 3}, "profiles: given 3, expected the tables quick and full"),
        ({"profiles": {"quick": 3}}, "profiles.quick: given 3, expected a table"),
        ({"experiment": {"rounds": 0}}, "whole number from 1 to|is missing"),
        ({"panels": {"a": {"step": "tunedd"}}}, "panel 'a': step: there is no \"tunedd\": did you mean 'tuned'"),
    ],
)
def test_mistakes_are_told(tiny_claim, write_claim, change, message):
    with pytest.raises(ExperimentError, match=message) as caught:
        read_claim(write_claim(tiny_claim | change))
    assert str(caught.value).startswith("tiny: ")


def test_an_unknown_claim_is_told():
    with pytest.raises(ExperimentError, match="there is no claim"):
        read_claim("ca_fed_fig99")


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_claims_can_be_read_in_both_sizes(name, profile):
    claim = read_claim(name, profile)
    assert claim.panels or claim.procedure
    assert claim.document["claim"].endswith(".")


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", SHIPPED)
def test_tables_of_shipped_claims_name_strategies_that_run(name, profile):
    claim = read_claim(name, profile)
    for check in claim.document["checks"]:
        for panel, experiment in claim.panels.items():
            if "numbers" in check and check.get("panel", panel) == panel:
                assert set(check["numbers"]) <= {entrant.label for entrant in experiment.strategies}
