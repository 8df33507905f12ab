"""Wrappers and subclasses that change the model between rounds, such as Flower's central differential privacy."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping
from inprocess import InProcessGrid
from test_strategy import APP, MODEL, on_train

from turnout.flower import Files, FlowerStrategy, Waiting
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg, FedAWE

SETTINGS = {"local": Local(learning_rate=0.5), "waiting": Waiting(poll=0.01, greeting=0.05)}


class Shifted(FlowerStrategy):
    """Adds one to the model after every round."""

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        model = to_numpy(arrays)
        return to_record({**model, "w": model["w"] + 1}), metrics


def grid_of(names="123", behave=None):
    grid = InProcessGrid(APP, lambda _t: list(names))
    grid.behave = behave or grid.behave
    return grid


def test_a_subclass_that_changes_the_model_is_heeded(tmp_path):
    """w ← w + (2 - w) / 2 + 1, from 0: 2, 3, 3.5; the checkpoint and the record have it too."""
    saved = tmp_path / "saved.npz"
    flower = Shifted(FedAvg(), files=Files(checkpoint=saved, record=tmp_path / "run"), evaluate_every=1, **SETTINGS)
    flower.start(grid_of(), to_record(MODEL), num_rounds=3, timeout=0.05)
    np.testing.assert_allclose(flower._driver.model()["w"], 3.5)
    np.testing.assert_allclose(flower.history.metrics["mean"][0], [0.0, 2.0, 3.0, 3.5])
    again = Shifted(FedAvg(), files=Files(checkpoint=saved), evaluate_every=0, **SETTINGS)
    again.start(grid_of(), to_record(MODEL), num_rounds=4, timeout=0.05)
    np.testing.assert_allclose(again._driver.model()["w"], 3.75)


def test_central_differential_privacy_clips_and_adds_noise():
    inner = FlowerStrategy(FedAvg(), evaluate_every=1, **SETTINGS)
    private = DifferentialPrivacyServerSideFixedClipping(inner, 1.0, 0.3, num_sampled_clients=3)
    result = private.start(grid_of(), to_record(MODEL), num_rounds=3, timeout=5.0)
    final = to_numpy(result.arrays)["w"]
    np.testing.assert_array_equal(inner._driver.model()["w"], final)
    assert len(np.unique(final)) == 4  # noise: all entries would be the same without
    # Each update was clipped to 0.3, over four entries 0.15 each; three rounds reach 0.45 at most, but for the noise.
    assert np.abs(final).max() < 0.45 + 3 * 5 * 0.3 / 3
    np.testing.assert_allclose(inner.history.metrics["mean"][0][-1], final.mean(), rtol=1e-6)


def test_without_noise_and_clipping_a_wrapper_changes_nothing():
    inner = FlowerStrategy(FedAvg(), evaluate_every=0, **SETTINGS)
    private = DifferentialPrivacyServerSideFixedClipping(inner, 0.0, 1e9, num_sampled_clients=3)
    result = private.start(grid_of("456"), to_record(MODEL), num_rounds=4, timeout=5.0)
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], 5.0 * (1 - 0.5**4), rtol=1e-6)


def test_a_round_that_a_wrapper_leaves_out_counts_as_one_without_updates():
    """One client raises in the first round: the wrapper then aggregates nothing."""

    def behave(name, turn, message):
        return on_train({"4": "raise"})(name, turn, message) if turn < 1 else "answer"

    inner = FlowerStrategy(FedAvg(), evaluate_every=0, **SETTINGS)
    private = DifferentialPrivacyServerSideFixedClipping(inner, 0.0, 1e9, num_sampled_clients=3)
    private.start(grid_of("456", behave), to_record(MODEL), num_rounds=3, timeout=5.0)
    assert [len(record.arrived) for record in inner.records] == [0, 3, 3]


def test_what_cannot_be_adopted_is_refused(tmp_path):
    with pytest.raises(ValueError, match="FedAWE sets the model itself"):
        Shifted(FedAWE(), evaluate_every=0, **SETTINGS).start(grid_of(), to_record(MODEL), num_rounds=2, timeout=0.05)
    driver = FlowerStrategy(FedAvg(), **SETTINGS)._ready(to_record(MODEL), ConfigRecord())
    with pytest.raises(ValueError, match="other arrays or shapes"):
        driver.adopt({"w": np.zeros(3, np.float32), "seen": np.array(5)})
    with pytest.raises(ValueError, match="not finite"):
        driver.adopt({"w": np.full((2, 2), np.nan, np.float32), "seen": np.array(5)})
    saved = tmp_path / "saved.npz"
    FlowerStrategy(FedAvg(), files=Files(checkpoint=saved), evaluate_every=0, **SETTINGS).start(
        grid_of(), to_record(MODEL), num_rounds=2, timeout=0.05
    )
    resumed = FlowerStrategy(FedAvg(), files=Files(checkpoint=saved), evaluate_every=0, **SETTINGS)
    private = DifferentialPrivacyServerSideFixedClipping(resumed, 1.0, 0.3, num_sampled_clients=3)
    with pytest.raises(ValueError, match="a wrapper cannot continue a checkpoint"):
        private.start(grid_of(), to_record(MODEL), num_rounds=3, timeout=0.05)


def test_a_checkpoint_that_leaves_no_rounds_says_so(tmp_path, caplog):
    saved = tmp_path / "saved.npz"
    for _ in range(2):
        flower = FlowerStrategy(FedAvg(), files=Files(checkpoint=saved), evaluate_every=0, **SETTINGS)
        assert "Nothing is trained" not in caplog.text
        with caplog.at_level("WARNING", logger="flwr"):
            flower.start(grid_of(), to_record(MODEL), num_rounds=2, timeout=0.05)
    assert f"Nothing is trained: the checkpoint {saved} has 2 rounds already, and num_rounds is 2." in caplog.text
