import tomllib

import pytest

from turnout.server.settings import PLAIN_STEP
from turnout.uploads import Chain, EightBit, ErrorFeedback, TopK
from turnout.workbench import Experiment, ExperimentError, read_experiment
from turnout.workbench.experiment import registry, toml
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.sweep import points


def change(document, *settings):
    return Experiment.read(toml.override(document, settings))


def test_defaults_are_filled_in(tiny):
    experiment = Experiment.read(tiny)
    assert experiment.evaluate_every == 1
    assert experiment.seeds == (0, 1)
    assert experiment.links.name == "perfect"
    assert experiment.facts.name == "oracle"
    assert experiment.availability.arguments["gap"] == 0.4
    assert experiment.local.arguments["batch_size"] == 32
    assert experiment.strategies[0].strategy.arguments["normaliser"] == "received"


def test_forty_evaluations_if_not_said(tiny):
    assert change(tiny, "rounds=200").evaluate_every == 5


def test_precision_is_a_key_of_local_work(tiny):
    assert change(tiny, "local.precision=bfloat16").local.build().precision == "bfloat16"


def test_devices_may_share_the_clients(tiny):
    assert "spread" not in Experiment.read(tiny).document()
    assert Experiment.read(tiny | {"spread": "clients"}).document()["spread"] == "clients"
    with pytest.raises(ExperimentError, match='spread: given "rounds", expected "lanes" or "clients"'):
        Experiment.read(tiny | {"spread": "rounds"})


def test_steps_is_short_for_fixed_compute(tiny):
    assert Experiment.read(tiny).compute.table() == {"name": "fixed", "steps": 2, "unit": "steps"}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("round=3", "unknown key 'round': did you mean 'rounds'"),
        ("rounds=0", "rounds: given 0, expected a whole number from 1 to 16,777,216"),
        ("rounds=2.5", "rounds: given 2.5"),
        ("rounds=2147483648", "rounds: given 2147483648, expected a whole number from 1 to 16,777,216"),
        ("seeds=1000000000000", "seeds: given 1000000000000, expected a whole number from 1 to 1,000,000"),
        ("seeds=[4294967296]", r"seeds: given \[4294967296\], expected .* from 0 to 2³² - 1"),
        ("task.seed=4294967296", "task.seed: given 4294967296, expected a whole number from 0 to 2³² - 1"),
        ("task.seed=[0, -1]", r"task.seed: given \[0, -1\], expected a whole number from 0"),
        ("task.num_clients=2147483648", "task.num_clients: given 2147483648, expected a whole number below 2³¹"),
        ("local.steps=2147483648", "compute.steps: given 2147483648, expected a whole number below 2³¹"),
        ("local.learning_rate=nan", "local.learning_rate: given nan, expected a number"),
        ("local.learning_rate=1" + "0" * 400, "local.learning_rate: given 10"),
        ("seeds=[1, 1]", r"seeds: given \[1, 1\]"),
        ("seeds=-1", "seeds: given -1"),
        ("title=3", "title: given 3, expected text"),
        ("evaluate_every=often", 'evaluate_every: given "often"'),
        ("task=3", "task: given 3, expected a table"),
        ("task.name=quadratic", "task: there is no 'quadratic' among the tasks: did you mean 'quadratics'"),
        ("task.name=[1]", "task.name: given"),
        ("task.dimensions=3", "task: unknown key 'dimensions': did you mean 'dimension'"),
        ("task.dimension=two", 'task.dimension: given "two", expected a whole number'),
        ("task.dimension=2.5", "task.dimension: given 2.5, expected a whole number"),
        ("task.dimension=true", "task.dimension: given true, expected a whole number"),
        ("availability.split=neither", 'availability.split: given "neither", expected one of "both", "unavail'),
        ("availability.shuffle=1", "availability.shuffle: given 1, expected true or false"),
        ("availability={ name = 'bernoulli' }", "availability: 'pi' is missing, expected a number or a list"),
        ("availability={ gap = 0.1 }", "availability.name: given nothing"),
        ("local.batch_sizes=3", "local: unknown key 'batch_sizes': did you mean 'batch_size'"),
        ("local.precision=float16", 'local.precision: given "float16", expected one of "float32", "bfloat16"'),
        ("local.optimizer=addam", "local.optimizer: there is no 'addam' among the optimizers: did you mean 'adam'"),
        ("local.optimizer={ name = 'sgd', learning_rate = 0.1 }", "local.optimizer: unknown key 'learning_rate'"),
        ("local.optimizer={ momentum = 0.9 }", "local.optimizer: given"),
        ("compute={ name = 'fixed' }", "local.steps: compute is given too"),
        ("facts=offline", "facts: there is no 'offline' among the facts: did you mean 'online'"),
        ("facts={ name = 'online', prior = 1 }", "facts: unknown key 'prior'"),
        ("server=1.0", "server: given 1.0, expected a table"),
        ("strategies=[]", r"strategies: given \[\], expected a list of one table or more"),
        ("strategies.0.cohort=ten", r'strategies\[0\].cohort: given "ten", expected a number'),
        ("strategies.0.cohort=[2, 'x']", r'strategies\[0\].cohort\[1\]: given "x", expected a number'),
        ("strategies.0.cohort=[]", r"strategies\[0\].cohort: given an empty list"),
        ("strategies.1.cohort=2", r"strategies\[1\]: unknown key 'cohort'"),
        ("strategies.1.server.rate=2", r"strategies\[1\].server: unknown key 'rate'"),
        ("strategies.1.server.learning_rate=x", r'strategies\[1\].server.learning_rate: given "x", expected a number'),
        ("strategies.1.local.steps=3", r"strategies\[1\].local.steps: the amount of local work is the same for all"),
        ("strategies.1.label=3", r"strategies\[1\].label: given 3, expected text"),
        ("strategies.1.label=fedavg", r"strategies\[1\].label: 'fedavg' is also the label of strategies\[0\]"),
        ("strategies.1=3", r"strategies\[1\]: given 3, expected a table"),
    ],
)
def test_a_mistake_says_where_it_is_and_what_is_expected(tiny, setting, complaint):
    with pytest.raises(ExperimentError, match=complaint):
        change(tiny, setting)


@pytest.mark.parametrize("key", ["rounds", "task", "availability", "strategies"])
def test_what_must_be_there_is_named_when_missing(tiny, key):
    del tiny[key]
    with pytest.raises(ExperimentError, match=f"'{key}' is missing"):
        Experiment.read(tiny)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("availability.gap=0.6", "availability: mean = 0.5, gap = 0.6"),
        ("availability={ name = 'bernoulli', pi = 0.5, num_clients = 3 }", "availability: describes 3 clients, but"),
        ("strategies.0.cohort=9", r"strategies\[0\]: cohort must be between 1 and the 5"),
        ("strategies.0.normaliser=draws", None),
        ("task.condition=0.5", "task: condition must be a number from 1"),
        ("local.batch_size=0", "local: batch_size must be a whole number from 1"),
        ("local.learning_rate=-1", "local: learning_rate must be a finite number of 0 or more or a function, not -1.0"),
        ("server.learning_rate=inf", "server: learning_rate must be a finite number of 0 or more or"),
        ("local.steps=0", "compute: steps must be a whole number from 1 to 16,777,216, not 0"),
        ("local.steps=20000000", "compute: steps must be a whole number from 1 to 16,777,216, not 20000000"),
        ("links={ name = 'bernoulli', success = 2.0 }", "links: success must be a number from 0 to 1 or a list"),
    ],
)
def test_what_only_the_builder_knows_is_told_with_its_place(tiny, setting, complaint):
    experiment = change(tiny, setting)
    if complaint is None:
        assert build(points(experiment))
        return
    with pytest.raises(ExperimentError, match=complaint):
        build(points(experiment))


def test_a_strategy_that_sets_the_model_has_its_own_server(tiny):
    common = "server={ learning_rate = [0.5, 1.0], optimizer = 'adam' }"
    with pytest.raises(ExperimentError, match=r"strategies\[1\]: FedAWE sets the model itself, .* must be 1, not 0.5"):
        build(points(change(tiny, common, "strategies=['fedavg', 'fedawe']")))
    own = "{ name = 'fedawe', server = { learning_rate = 1.0, optimizer = 'sgd' } }"
    assert build(points(change(tiny, common, f"strategies=['fedavg', {own}]")))


def test_the_server_takes_any_optimizer_and_a_radius(tiny):
    momentum = change(tiny, "server={ optimizer = { name = 'sgd', momentum = 0.9 } }")
    adaptive = change(tiny, "server={ optimizer = { name = 'adam', eps = 1e-3 }, learning_rate = 0.01, radius = 5 }")
    for experiment, radius in ((momentum, None), (adaptive, 5)):
        assert Experiment.read(tomllib.loads(experiment.to_toml())) == experiment
        trial = build(points(experiment))[0].setups[0].trials[0]
        assert trial.server.radius == radius
        assert trial.server.optimizer is not PLAIN_STEP
    with pytest.raises(ExperimentError, match="radius must be a number above 0, not 0"):
        build(points(change(tiny, "server.radius=0")))


def test_whole_numbers_become_floats_where_floats_are_due(tiny):
    experiment = change(tiny, "server.learning_rate=2")
    assert isinstance(experiment.server.arguments["learning_rate"], float)
    assert isinstance(change(tiny, "strategies.0.cohort=2").strategies[0].strategy.arguments["cohort"], int)


def test_a_resolved_experiment_reads_back_as_itself(tiny):
    tiny["claim"] = 'A "claim" with\nπ and \\ in it'
    tiny["seeds"] = [3, 1]
    tiny["facts"] = {"name": "online", "prior_on": [1, 2.5]}
    tiny["server"] = {"optimizer": {"name": "adam", "b1": 0.5}}
    tiny["local"]["optimizer"] = {"name": "sgd", "momentum": [0.0, 0.9]}
    tiny["strategies"][1] |= {"server": {"learning_rate": [1, 2]}, "facts": "oracle", "label": "U"}
    experiment = Experiment.read(tiny)
    again = Experiment.read(tomllib.loads(experiment.to_toml()))
    assert again == experiment
    assert again.to_toml() == experiment.to_toml()
    assert [point.label for point in points(again)] == [point.label for point in points(experiment)]


@pytest.mark.parametrize("name", registry.entries("experiments"))
def test_shipped_experiments_can_be_read(name):
    experiment = read_experiment(name)
    assert Experiment.read(tomllib.loads(experiment.to_toml())) == experiment


def test_third_party_builders_take_part(tiny):
    tiny["strategies"].append({"name": "turnout.strategies.fedavg:FedAvg", "normaliser": "all"})
    experiment = Experiment.read(tiny)
    trials = build(points(experiment))[0].setups[0].trials
    assert trials[-1].strategy.normaliser == "all"


def test_schedules_of_optax_are_learning_rates(tiny):
    tiny["local"]["learning_rate"] = {"name": "exponential_decay", "init_value": 0.1, "transition_steps": 1}
    tiny["local"]["learning_rate"]["decay_rate"] = [0.5, 0.9]
    found = points(Experiment.read(tiny))
    trial = build(found[:1])[0].setups[0].trials[0]
    assert float(trial.local.rate(1)) == pytest.approx(0.05)
    assert found[0].settings == {"strategy.cohort": 2, "local.learning_rate.decay_rate": 0.5}


def test_uploads_are_tables_that_nest(tiny):
    chain = "{ name = 'chain', parts = ['eight_bit', { name = 'top_k', share = 0.5 }] }"
    nested = f"uploads={{ name = 'error_feedback', inner = {chain} }}"
    experiment = change(tiny, nested)
    assert Experiment.read(tomllib.loads(experiment.to_toml())) == experiment
    trial = build(points(experiment))[0].setups[0].trials[0]
    assert trial.uploads == ErrorFeedback(Chain((EightBit(), TopK(0.5))))
    assert build(points(change(tiny)))[0].setups[0].trials[0].client.upload is None
    own = change(tiny, nested, "strategies.1.uploads={ name = 'top_k', share = [0.1, 0.2] }")
    assert [str(trial.uploads) for trial in build(points(own))[0].setups[0].trials[-2:]] == [
        "TopK(share=0.1)",
        "TopK(share=0.2)",
    ]


@pytest.mark.parametrize(
    ("uploads", "complaint"),
    [
        ("{ name = 'top_k' }", "uploads: 'share' is missing, expected a number"),
        ("{ name = 'topk', share = 0.1 }", "there is no 'topk' among the uploads: did you mean 'top_k'?"),
        ("{ name = 'top_k', share = 2.0 }", "uploads: share must be a number above 0 and at most 1, not 2.0"),
        (
            "{ name = 'chain', parts = [{ name = 'error_feedback', inner = 'eight_bit' }] }",
            "ErrorFeedback cannot be a part of a chain",
        ),
        (
            "{ name = 'chain', parts = [{ name = 'clip', norm = [1.0, 2.0] }] }",
            r"uploads.parts\[0\].norm: a list of tables cannot be swept",
        ),
    ],
)
def test_uploads_that_make_no_sense_are_refused(tiny, uploads, complaint):
    with pytest.raises(ExperimentError, match=complaint):
        build(points(change(tiny, f"uploads={uploads}")))
