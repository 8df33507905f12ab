"""Every strategy, process and task of ours keeps the contract that users can check theirs against."""

import jax.numpy as jnp
import jax.random as jr
import pytest

from every_strategy import MEMORIES_ON_CLIENTS, ONE_EACH, SETTINGS
from steered import Corrected, Steered
from turnout import availability, strategies, tasks, tree
from turnout.strategies import MIFA, LastWord, Strategy
from turnout.testing import check_process, check_strategy, check_task
from turnout.types import Answer, Array, Ask, Move, PerClient

# Further settings of strategies whose first setting is checked anyway: longer, so that CI runs them apart.
FORMER = {"last_word plain rule": LastWord(rule="plain"), "mifa alone": MIFA(moves_when_empty=True)}
CHECKED = SETTINGS | MEMORIES_ON_CLIENTS | FORMER
VARIANTS = sorted(set(CHECKED) - set(ONE_EACH))


def test_every_exported_strategy_is_in_the_list():
    classes = map(vars(strategies).get, strategies.__all__)
    exported = {kind for kind in classes if issubclass(kind, Strategy) and kind is not Strategy}
    assert {type(strategy) for strategy in SETTINGS.values()} == exported
    for name, strategy in SETTINGS.items():
        assert type(strategy).__module__ == f"turnout.strategies.{name.split()[0]}"


@pytest.mark.parametrize("name", [*ONE_EACH, *(pytest.param(name, marks=pytest.mark.variant) for name in VARIANTS)])
def test_strategy(name):
    check_strategy(CHECKED[name])


TASKS = {
    "quadratics": lambda: tasks.quadratics(num_clients=5, dimension=3, condition=4.0, noise=0.5, num_samples=20),
    "two_clients": lambda: tasks.two_clients(first=0.0, second=3.0),
    "synthetic_leaf": lambda: tasks.synthetic_leaf(num_clients=8, num_features=10, samples_per_client=60),
    "synthetic_binary": lambda: tasks.synthetic_binary(num_clients=6),
    "robust_regression": lambda: tasks.robust_regression(num_clients=6),
    "digits": lambda: tasks.digits(num_clients=6, partition="dirichlet", swapped_pairs=1),
}


@pytest.mark.parametrize("name", TASKS)
def test_task(name):
    check_task(TASKS[name]())


class ForgetsPadding(tasks.Task):
    """A task whose loss counts padding as data."""

    points: PerClient

    @property
    def sizes(self):
        return jnp.ones(self.points.shape, jnp.int32)

    @property
    def importance(self):
        return jnp.ones_like(self.points)

    def init(self, key):
        return jnp.ones(())

    def batch(self, client, positions):
        return jnp.broadcast_to(self.points[client], positions.shape)

    def loss(self, params, batch, present):
        return jnp.sum((params - batch) ** 2)

    def per_client(self, params):
        return {"train_loss": (params - self.points) ** 2}


def test_a_broken_task_is_caught():
    with pytest.raises(AssertionError, match="padding"):
        check_task(ForgetsPadding(jnp.array([0.0, 2.0])))


class SaysHalf(availability.ErgodicProcess[tuple[()]]):
    """A process that is always there and says half of the time."""

    @property
    def num_clients(self):
        return 3

    def init(self, key):
        return ()

    def step(self, state, t, key):
        return (), jr.bernoulli(key, 0.9, (3,))

    def stationary(self):
        return jnp.full(3, 0.5)

    def correlation(self):
        return jnp.zeros(3)


def test_a_process_that_misstates_its_law_is_caught():
    with pytest.raises(AssertionError, match=r"stated as 0\.5000 but played as 0\.[89]"):
        check_process(SaysHalf())


class AsksTheAbsent(Strategy[None]):
    def select(self, state, view, key):
        return Ask.of(jnp.ones_like(view.available), view.target), state


class PrefersTheFirst(Strategy[None]):
    def select(self, state, view, key):
        return Ask.of(view.available, view.target * jnp.arange(view.num_clients, dtype=jnp.float32)), state


class FavoursPlaces(Strategy[None]):
    def aggregate(self, state, params, view, cohort, reports):
        return Move(cohort.factors * (1.0 + cohort.ids.astype(jnp.float32) / view.num_clients)), state


class Wrapped(Strategy[object]):
    """Another strategy with all of its methods handed on, so that it also seems to narrow who may upload."""

    inner: Strategy

    def init(self, fleet, params):
        return self.inner.init(fleet, params)

    def select(self, state, view, key):
        return self.inner.select(state, view, key)

    def admit(self, state, view, cohort, norms, key):
        return self.inner.admit(state, view, cohort, norms, key)

    def aggregate(self, state, params, view, cohort, reports):
        return self.inner.aggregate(state, params, view, cohort, reports)


class CountsPlaces(Strategy[None]):
    def select(self, state, view, key):
        return Ask.of(view.available, jnp.full_like(view.target, 1.0 / view.num_clients)), state


class DividesByZero(Strategy[Array]):
    def init(self, fleet, params):
        return jnp.zeros(())

    def aggregate(self, state, params, view, cohort, reports):
        return Move(cohort.factors), jnp.sum(cohort.weight) / jnp.sum(cohort.arrived, dtype=jnp.float32)


class LeapsWhenFewCome(Strategy[None]):
    def select(self, state, view, key):
        came = jnp.sum(jnp.where(view.available, view.target, 0.0))
        return Ask.of(view.available, view.target / came**4), state


class Speechless(Corrected):
    def goodbye(self, kept):
        return Answer(tree.zeros_like(kept))


class LeavesGhosts(Steered):
    @property
    def client_side(self):
        return Speechless(self.mu)


class Verbose(Corrected):
    def goodbye(self, kept):
        return Answer((kept, kept))


class SaysTooMuch(Steered):
    @property
    def client_side(self):
        return Verbose(self.mu)


class ChangesItsState(Strategy[object]):
    def init(self, fleet, params):
        return jnp.zeros(())

    def select(self, state, view, key):
        return Ask.of(view.available, view.target), state[None]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (PrefersTheFirst(), "alike"),
        (DividesByZero(), "stay finite"),
        (ChangesItsState(), "form of the state"),
        (FavoursPlaces(), "relabelling the clients must not change the model"),
        (Wrapped(FavoursPlaces()), "relabelling the clients must not change the model"),
        (AsksTheAbsent(), "only available"),
        (CountsPlaces(), "vacant places"),
        (LeapsWhenFewCome(), "stay near the fleet"),
        (LeavesGhosts(), "goodbye must take a client's word"),
        (SaysTooMuch(), "a goodbye must have the form of the model"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Strategy) else "",
)
def test_a_broken_strategy_is_caught(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_strategy(broken)
