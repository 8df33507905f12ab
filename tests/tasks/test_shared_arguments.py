import inspect
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from turnout import tasks
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.shared_arguments import with_arguments_of


@dataclass(frozen=True)
class Shared:
    num_clients: int = 2
    size: int = 3
    model: Literal["linear", "mlp"] = "linear"


@dataclass(frozen=True)
class Own(Shared):
    size: int = field(init=False, default=1)
    model: Literal["linear", "mlp"] = "mlp"


def task_of(options: Shared) -> DataTask:
    owners = np.repeat(np.arange(options.num_clients), options.size)
    rows = np.ones((owners.size, 2), np.float32)
    model = tasks.linear(2, 2) if options.model == "linear" else tasks.mlp(2, (3,), 2)
    return tasks.from_arrays((rows, owners % 2, owners), model=model, validation_share=0.0)


@with_arguments_of(Shared)
def shared(options: Shared) -> DataTask:
    """What it is."""
    return task_of(options)


@with_arguments_of(Own)
def own(options: Own) -> DataTask:
    return task_of(options)


def test_fields_are_arguments_by_place_and_by_name():
    assert shared().num_clients == 2
    assert shared(4, size=2).sizes.tolist() == [2, 2, 2, 2]


def test_the_signature_shows_the_fields_with_types_and_defaults():
    arguments = inspect.signature(shared).parameters
    assert list(arguments) == ["num_clients", "size", "model"]
    assert arguments["model"].annotation == Literal["linear", "mlp"]
    assert arguments["size"].default == 3
    assert (shared.__name__, shared.__doc__) == ("shared", "What it is.")


def test_a_derived_class_changes_a_default_and_takes_an_argument_away():
    assert {name: found.default for name, found in inspect.signature(own).parameters.items()} == {
        "num_clients": 2,
        "model": "mlp",
    }
    assert own().sizes.tolist() == [1, 1]
    assert own(2, "linear").model is tasks.linear(2, 2)


@dataclass(frozen=True, kw_only=True)
class Common:
    size: int = 3


@dataclass(frozen=True)
class Whose(Common):
    num_clients: int


@with_arguments_of(Whose)
def whose(options: Whose) -> DataTask:
    return task_of(Shared(options.num_clients, options.size))


def test_arguments_by_keyword_come_last():
    assert list(inspect.signature(whose).parameters) == ["num_clients", "size"]
    assert whose(2, size=1).sizes.tolist() == [1, 1]
    with pytest.raises(TypeError, match="missing a required argument: 'num_clients'"):
        whose()


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((), {"clients": 3}, r"own\(\): got an unexpected keyword argument 'clients'"),
        ((), {"size": 3}, r"own\(\): got an unexpected keyword argument 'size'"),
        ((1, "mlp", 3), {}, r"own\(\): too many positional arguments"),
        ((1,), {"num_clients": 3}, r"own\(\): multiple values for argument 'num_clients'"),
    ],
)
def test_a_wrong_argument_names_the_builder(given, named, message):
    with pytest.raises(TypeError, match=message):
        own(*given, **named)


def test_tasks_of_images_differ_in_few_defaults():
    mnist, cifar10, cinic10 = (
        inspect.signature(getattr(tasks, name)).parameters for name in ("mnist", "cifar10", "cinic10")
    )
    assert list(cifar10) == list(mnist)
    assert [name for name in mnist if mnist[name] != cifar10[name]] == ["model", "ridge"]
    assert list(cinic10) == [name for name in mnist if name != "validation"]
