"""Groups of settings of FlowerStrategy: what they refuse, and what becomes of arguments that stand in a group."""

import inspect
from dataclasses import fields

import pytest

pytest.importorskip("flwr")

from turnout.flower import Files, FlowerStrategy, Limits, Members, Waiting
from turnout.flower.settings import Identity, _check_choice
from turnout.strategies import FedAvg


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (Waiting, {"greeting": -1.0}, "greeting of Waiting must be 0 seconds or more, not -1.0"),
        (Members, {"retire_after": -1.0}, "retire_after must be 0 seconds or more"),
        (Files, {"every": 0}, "every of Files must be 1 or more rounds, not 0"),
        (Limits, {"norm": 0.0}, "the limit of norm must be above 0"),
    ],
)
def test_senseless_settings_are_refused(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(**wrong)


def test_a_choice_is_one_of_its_names():
    _check_choice("identity", "key", Identity)  # not through Members, whose types are checked first in tests
    with pytest.raises(ValueError, match="identity must be one of 'declared', 'key', 'node', not 'by name'"):
        _check_choice("identity", "by name", Identity)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("poll", r"waiting=Waiting\(poll=…\)"),
        ("clock", r"waiting=Waiting\(clock=…\)"),
        ("greeting_timeout", r"waiting=Waiting\(greeting=…\)"),
        ("probe_timeout", r"waiting=Waiting\(probe=…\)"),
        ("identity", r"members=Members\(identity=…\)"),
        ("checkpoint", r"files=Files\(checkpoint=…\)"),
        ("checkpoint_every", r"files=Files\(every=…\)"),
        ("fraction_trian", "did you mean 'fraction_train'"),
    ],
)
def test_an_argument_that_stands_elsewhere_is_refused_with_its_place(given, place):
    with pytest.raises(TypeError, match=f"FlowerStrategy has no argument '{given}': .*{place}"):
        FlowerStrategy(FedAvg(), **{given: 1})


def test_no_argument_has_the_name_of_a_setting():
    settings = {one.name for kind in (Waiting, Members, Files) for one in fields(kind)}
    assert not settings & inspect.signature(FlowerStrategy.__init__).parameters.keys()
