import jax.numpy as jnp
import numpy as np
import pytest

from turnout.availability import bernoulli, minimum_separation
from turnout.simulator import simulate
from turnout.strategies import FedAvg, MoreAvailable, Separated, Strategy, Unbiased
from turnout.tasks.quadratics import quadratics
from turnout.types import Ask
from turnout.workbench import Experiment, ExperimentError
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.sweep import points
from turnout.world import World, links


def test_who_took_part_rests_by_hand(play):
    game = play(Separated(FedAvg(), separation=1))
    assert game.round([1, 1, 0], [2.0, 4.0, 100.0]) == pytest.approx(3.0)
    assert game.round([1, 1, 1], [100.0, 100.0, 5.0]) == pytest.approx(3.0 + 5.0)
    assert game.round([1, 0, 1], [1.0, 100.0, 100.0]) == pytest.approx(8.0 + 1.0)
    np.testing.assert_array_equal(game.state.strategy.rest, [1.0, 0.0, 0.0])
    assert game.round([1, 1, 1], [100.0, 2.0, 4.0]) == pytest.approx(9.0 + 3.0)


def test_two_rounds_of_rest_and_rounds_in_which_all_rest(play):
    game = play(Separated(FedAvg(), separation=2))
    asked = []
    for _ in range(7):
        game.round([1, 1, 1], [1.0, 1.0, 1.0])
        asked.append(game.asked.sum())
    assert asked == [3, 0, 0, 3, 0, 0, 3]


def test_a_lost_upload_is_a_participation(play):
    game = play(Separated(FedAvg(), separation=1), start=1.0)
    assert game.round([1, 1, 1], [2.0, 4.0, 6.0], arrived=[0, 0, 0]) == 1.0
    assert game.round([1, 1, 1], [2.0, 4.0, 6.0]) == 1.0
    assert game.round([1, 1, 1], [2.0, 4.0, 6.0]) == pytest.approx(5.0)


def test_the_first_round_may_be_empty(play):
    game = play(Separated(Unbiased(), separation=3), start=2.0)
    assert game.round([0, 0, 0], [1.0, 1.0, 1.0]) == 2.0
    assert game.round([1, 0, 0], [3.0, 1.0, 1.0]) == pytest.approx(2.0 + 3.0 / 3 / 0.5)


@pytest.mark.parametrize("separation", [0, 1, 3])
def test_never_the_same_client_within_the_separation(play, separation):
    game = play(Separated(FedAvg(cohort=2), separation), importance=(1.0,) * 9)
    draw, last, soonest = np.random.default_rng(0), np.full(9, -100), 100
    for t in range(60):
        game.round(draw.random(9) < 0.7, np.ones(9))
        soonest = min(soonest, *(t - last[game.asked]), 100)
        last[game.asked] = t
    assert soonest == separation + 1


def test_no_separation_is_the_strategy_itself():
    task, scene = quadratics(num_clients=6, dimension=2), World(bernoulli(6, 0.5), links.bernoulli(6, 0.8))
    for inner in (FedAvg(cohort=2), Unbiased()):
        bare = simulate(task, scene, inner, rounds=20, seeds=2)
        wrapped = simulate(task, scene, Separated(inner, 0), rounds=20, seeds=2)
        np.testing.assert_allclose(wrapped.params, bare.params, rtol=1e-6)


def test_one_draw_a_round_has_the_participation_of_the_process_that_has_the_rest_built_in():
    """Draws by α among the rested are the chain of Sun et al. 2025, whose participation rates are known exactly."""
    odds = [0.1, 0.15, 0.3, 0.45]
    task = quadratics(num_clients=4, dimension=1, importance=odds)
    strategy = Separated(FedAvg(cohort=1, normaliser="draws"), separation=2)
    run = simulate(task, World(bernoulli(4, 1.0), compute=1), strategy, rounds=2000, seeds=16)
    share = run.clients["asked"] / 2000
    expected = minimum_separation(4, odds, separation=2).stationary()
    error = share.std(axis=0, ddof=1) / 4
    assert (np.abs(share.mean(axis=0) - expected) <= 5 * error + 1e-3).all()


class Fussy(Strategy[None]):
    needs = ("reach",)
    probes = True
    moves_alone = True
    plain_step = True

    def select(self, state, view, key):
        return Ask.of(view.available, view.losses), state

    def start(self, state, params, client):
        return params + 1.0

    def admit(self, state, view, cohort, norms, key):
        return cohort


def test_what_the_inner_strategy_declares_holds_for_the_whole():
    plain, fussy = Separated(FedAvg(), 1), Separated(Fussy(), 1)
    assert (plain.needs, plain.probes, plain.moves_alone) == ((), False, False)
    assert (fussy.needs, fussy.probes, fussy.moves_alone) == (("reach",), True, True)
    assert (plain.plain_step, fussy.plain_step) == (False, True)
    assert plain.starts_shared
    assert plain.admits_all
    assert not fussy.starts_shared
    assert not fussy.admits_all
    assert Separated(FedAvg(cohort=3), 1).capacity(10) == 3
    state = fussy.init(quadratics(num_clients=2).fleet, jnp.zeros(()))
    assert float(fussy.start(state, jnp.zeros(()), jnp.asarray(0))) == 1.0


def test_losses_of_the_resting_are_hidden(play):
    game = play(Separated(Fussy(), 1))
    assert game.round([1, 0, 0], [1.0, 1.0, 1.0], losses=[2.0, 0.0, 0.0]) == pytest.approx(2.0)
    assert game.round([1, 1, 0], [1.0, 1.0, 1.0], losses=[2.0, 5.0, 0.0]) == pytest.approx(2.0 + 5.0)


@pytest.mark.parametrize("separation", [-1, 1.5])
def test_a_separation_that_is_no_number_of_rounds_is_refused(play, separation):
    with pytest.raises(ValueError, match="whole number of 0 or more"):
        play(Separated(FedAvg(), separation))


def test_the_inner_strategy_is_checked(play):
    with pytest.raises(ValueError, match="between 1 and the 3 clients"):
        play(Separated(FedAvg(cohort=9), 1))


DOCUMENT = {
    "rounds": 4,
    "task": {"name": "quadratics", "num_clients": 5, "dimension": 2},
    "availability": {"name": "two_classes"},
}


def read(*strategies):
    return Experiment.read(DOCUMENT | {"strategies": list(strategies)})


def test_in_an_experiment_the_inner_strategy_is_a_table():
    inner = {"name": "fedavg", "cohort": [2, 3]}
    experiment = read({"name": "separated", "separation": [1, 3], "strategy": inner})
    assert Experiment.read(experiment.document()) == experiment
    found = points(experiment)
    assert [point.label for point in found] == [f"separated cohort={c} separation={r}" for c in (2, 3) for r in (1, 3)]
    strategy = build(found)[0].setups[0].trials[1].strategy
    assert isinstance(strategy.strategy, FedAvg)
    assert (int(strategy.strategy.cohort), int(strategy.separation)) == (2, 3)


def test_a_name_alone_and_a_sweep_of_strategies():
    experiment = read({"name": "separated", "separation": 1, "strategy": ["unbiased", {"name": "more_available"}]})
    found = build(points(experiment))[0].setups[0].trials
    assert [type(trial.strategy.strategy) for trial in found] == [Unbiased, MoreAvailable]
    alone = build(points(read({"name": "separated", "separation": 1, "strategy": "unbiased"})))[0].setups[0].trials
    assert isinstance(alone[0].strategy.strategy, Unbiased)


@pytest.mark.parametrize(
    ("strategy", "complaint"),
    [
        ({"name": "separated", "separation": 1}, r"strategies\[0\]: 'strategy' is missing, expected a table"),
        (
            {"name": "separated", "separation": 1, "strategy": {"name": "fedavgg"}},
            r"strategies\[0\].strategy: there is no 'fedavgg' among the strategies: did you mean 'fedavg'",
        ),
        (
            {"name": "separated", "separation": 1, "strategy": {"name": "fedavg", "cohrt": 2}},
            r"strategies\[0\].strategy: unknown key 'cohrt': did you mean 'cohort'",
        ),
        ({"name": "separated", "separation": 1, "strategy": 3}, r"strategies\[0\].strategy: given 3, expected a table"),
    ],
)
def test_mistakes_inside_say_where_they_are(strategy, complaint):
    with pytest.raises(ExperimentError, match=complaint):
        build(points(read(strategy)))
