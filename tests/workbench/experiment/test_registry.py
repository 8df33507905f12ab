import subprocess
import sys

import pytest

from turnout.workbench.experiment import registry, schema
from turnout.workbench.experiment.errors import ExperimentError


def test_strategies_are_found_by_their_file():
    found = registry.entries("strategies")
    assert {"fedavg", "unbiased", "more_available", "adafed"} <= set(found)
    assert not {"base", "sampling", "__init__"} & set(found)


def test_files_without_a_builder_are_not_listed():
    assert "arguments" not in registry.entries("availability")
    parts = {"models", "losses", "partition", "networks", "layers", "image_sets", "idx", "png"}
    assert not parts & set(registry.entries("tasks"))


def test_single_modules_list_their_lower_case_functions():
    assert set(registry.entries("links")) == {"perfect", "bernoulli", "drawn", "redrawn", "bursty"}
    assert set(registry.entries("compute")) == {"fixed", "per_client", "drawn", "redrawn"}
    assert set(registry.entries("facts")) == {"oracle", "online"}


@pytest.mark.parametrize("kind", [*registry.PACKAGES, *registry.MODULES])
def test_everything_listed_can_be_imported_and_says_what_it_is(kind):
    for name, entry in registry.entries(kind).items():
        assert callable(registry.find(kind, name, "here")), name
        assert entry.summary, name


def test_parameters_are_shown_as_in_the_source():
    assert registry.entries("strategies")["fedavg"].parameters == {"cohort": "None", "normaliser": "'received'"}
    assert registry.entries("availability")["bernoulli"].parameters == {"pi": None}


@pytest.mark.parametrize("kind", [*registry.PACKAGES, *registry.MODULES])
def test_parameters_of_the_source_are_those_of_the_builder(kind):
    for name, entry in registry.entries(kind).items():
        skip = () if kind == "tasks" else registry.FILLED
        arguments = schema.parameters(registry.find(kind, name, "here")).values()
        assert list(entry.parameters) == [argument.name for argument in arguments if argument.name not in skip], name
        given = {argument.name for argument in arguments if argument.default is schema.REQUIRED}
        assert {key for key, default in entry.parameters.items() if default is None} == given - set(skip), name


def test_a_task_shows_the_arguments_that_it_shares_with_others():
    tasks = registry.entries("tasks")
    mnist, cinic10 = tasks["mnist"].parameters.items(), tasks["cinic10"].parameters.items()
    assert {"num_clients": "100", "model": "'linear'", "validation": "0.2"}.items() <= mnist
    assert {"num_clients": "100", "model": "'cnn_fedacs_cinic10'"}.items() <= cinic10
    assert ("validation", "0.2") not in cinic10


def test_a_strategy_tells_its_traits_without_being_imported():
    found = {name: entry.traits for name, entry in registry.entries("strategies").items()}
    assert found["unbiased"]["needs"] == ("pi",)
    assert found["fedavg"]["needs"] == ()
    assert found["fedavg"]["server_memory"] == "O(1)"
    for name in found:
        cls = registry.find("strategies", name, "here")
        assert found[name]["references"] == cls.references
        assert found[name]["consistent"] == cls.consistent


def test_a_task_says_its_number_of_clients():
    assert registry.entries("tasks")["quadratics"].parameters["num_clients"] == "20"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ExperimentError, match=r"task: .*'quadratic'.*did you mean 'quadratics'\?.*two_clients"):
        registry.find("tasks", "quadratic", "task")


def test_an_unknown_kind_lists_the_kinds():
    with pytest.raises(ExperimentError, match="did you mean 'strategies'"):
        registry.entries("strategy")


def test_third_party_builders_are_imported():
    assert registry.find("strategies", "collections:OrderedDict.fromkeys", "here") is not None


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("no_such_module:X", "No module"), ("math:no_such", "no attribute"), ("math:pi", "not a class or a function")],
)
def test_third_party_mistakes_say_what_is_wrong(name, complaint):
    with pytest.raises(ExperimentError, match=f"here: .*{complaint}"):
        registry.find("strategies", name, "here")


def test_optimizers_are_those_of_optax_and_ours():
    import optax

    from turnout import optimizers

    assert registry.find("optimizers", "adam", "here") is optax.adam
    for name in ("fedavgm", "fedadagrad", "fedadam", "fedyogi", "heavy_ball"):
        assert registry.find("optimizers", name, "here") is getattr(optimizers, name)
    with pytest.raises(ExperimentError, match="did you mean 'adam'"):
        registry.find("optimizers", "addam", "here")


def test_shipped_experiments_have_a_path_and_a_title(tmp_path):
    assert registry.experiment_path("demo").is_file()
    assert registry.entries("experiments")["demo"].summary
    with pytest.raises(ExperimentError, match="did you mean 'demo'"):
        registry.experiment_path("dmo")
    with pytest.raises(ExperimentError, match="no such file"):
        registry.experiment_path(str(tmp_path / "absent.toml"))


def test_listing_imports_nothing_heavy():
    code = (
        "import sys, turnout; before = set(sys.modules); from turnout.workbench.experiment import registry;"
        "[registry.entries(kind) for kind in registry.LISTED_KINDS];"
        "print({'jax', 'optax', 'polars', 'altair'} & (set(sys.modules) - before))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "set()"
