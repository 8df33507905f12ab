import json

import pytest

from turnout.workbench import Experiment, ExperimentError, load
from turnout.workbench.experiment.build import build, calibrate_batch
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.sweep import points


def test_true_is_the_first_and_a_label_is_itself(tiny):
    assert Experiment.read(tiny).calibrate is None
    for given, expected in ((True, "fedavg"), (False, None), ("unbiased", "unbiased")):
        tiny["calibrate"] = given
        experiment = Experiment.read(tiny)
        assert experiment.calibrate == expected
        assert Experiment.read(experiment.document()) == experiment


@pytest.mark.parametrize(
    ("given", "complaint"),
    [(3, "calibrate: given 3, expected true or the label"), ("fedavgg", "did you mean 'fedavg'")],
)
def test_mistakes(tiny, given, complaint):
    tiny["calibrate"] = given
    with pytest.raises(ExperimentError, match=complaint):
        Experiment.read(tiny)


def test_factors_are_applied_recorded_and_read_back(tiny, tmp_path):
    tiny["strategies"] = [{"name": "fedavg"}, {"name": "fedavg", "normaliser": "all", "label": "all"}]
    tiny["availability"] = {"name": "bernoulli", "pi": 0.5}
    tiny["calibrate"] = True
    finished = run(Experiment.read(tiny), out=tmp_path / "run")
    factors = json.loads((tmp_path / "run" / "run.json").read_text())["rate_factors"]
    assert factors["fedavg"] == 1.0
    assert factors["all"] == pytest.approx((1 - 0.5**5) / 0.5, rel=0.25)  # few rounds are played
    assert load(tmp_path / "run")["all"].rate_factor == finished["all"].rate_factor == factors["all"]


def test_each_point_is_calibrated_by_the_reference_in_its_own_world(tiny):
    tiny["availability"] = {"name": "bernoulli", "pi": {"sweep": [0.5, 1.0]}}
    tiny["strategies"] = [{"name": "fedavg", "normaliser": "all"}, {"name": "unbiased"}]
    tiny["calibrate"] = True
    (batch,) = build(points(Experiment.read(tiny)))
    after = calibrate_batch(batch, "fedavg", rounds=400)
    found = dict(zip([point.label for point in after.points], after.rate_factors, strict=True))
    assert found["fedavg pi=0.5"] == found["fedavg pi=1"] == 1.0
    assert found["unbiased pi=0.5"] == pytest.approx(0.5, rel=1e-4)
    assert found["unbiased pi=1"] == pytest.approx(1.0, rel=1e-4)
    assert after.setups[0].trials[2].local.learning_rate == pytest.approx(0.1 * found["unbiased pi=0.5"])
