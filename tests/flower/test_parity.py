"""The same world, data and seeds through the compiled simulator and through Flower's messages give the same model."""

import numpy as np
import pytest
import stage

from every_strategy import ONE_EACH, SETTINGS

pytest.importorskip("flwr")

from inprocess import InProcessGrid

from turnout.flower import FlowerStrategy, Members, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.strategies import FedAvg, OptimalSampling
from turnout.uploads import Chain, Clip, EightBit, ErrorFeedback, TopK


def steps_of(place):
    return int(stage.natures("sure")[0][2][place])


def train(arrays, config, context):
    place = int(context.node_config["client-id"])
    end, loss = stage.work(place, arrays["x"], steps_of(place), config["lr"], config["seed"])
    return {"x": end}, {"loss": loss, "reach": steps_of(place), "num-examples": 8}


def loss(arrays, config, context):
    return stage.probe(int(context.node_config["client-id"]), arrays["x"], config["seed"])


ON_NODES = [name for name, strategy in ONE_EACH.items() if strategy.client_side is None and not strategy.needs_lost]
APP = client_app(train=train, loss=loss)
TARGET = {name.removeprefix("id:"): worth for name, worth in stage.IMPORTANCE.items()}


def listed_in(world):
    """Who is there, round by round."""
    natures = stage.natures(world)
    return lambda t: [str(place) for place in range(stage.NUM_CLIENTS) if natures[t][0][place]]


def losing_in(world):
    """The server hears of an error in place of a lost upload: it knows of the client, but has no update of it."""
    natures = stage.natures(world)

    def behave(name, t, message):
        uploads = message.metadata.message_type in ("train", "query.upload")
        keeps = message.content.config_records.get("config", {}).get("keep-update", False)
        return "lost" if uploads and not keeps and not natures[t][1][int(name)] else "answer"

    return behave


def play(strategy, world, app=APP):
    grid = InProcessGrid(app, listed_in(world), losing_in(world))
    # Here the list of nodes is the truth, as availability is in the simulator.
    flower = FlowerStrategy(
        strategy, target=TARGET, local=stage.LOCAL, evaluate_every=0, members=Members(listed="available")
    )
    result = flower.start(grid, to_record(stage.START), num_rounds=stage.ROUNDS, timeout=5.0)
    assert len(flower.records) == stage.ROUNDS
    return to_numpy(result.arrays)["x"]


@pytest.mark.parametrize("name", [*ON_NODES, "fedavg draws"])
def test_flower_trains_the_model_of_the_simulator(name):
    strategy = SETTINGS[name]
    expected = stage.simulated(strategy, "lossy")
    np.testing.assert_allclose(play(strategy, "lossy"), expected, atol=1e-5)
    assert np.abs(expected - stage.START["x"]).max() > 0.01


UPLOADS = {
    "feedback": ErrorFeedback(TopK(0.3)),  # one entry of three
    "bytes": EightBit(),
    "few bytes": ErrorFeedback(Chain((Clip(0.5), TopK(0.6), EightBit()))),
}


@pytest.mark.parametrize("world", ["lossy", "sure"])
@pytest.mark.parametrize("name", UPLOADS)
def test_uploads_are_those_of_the_simulator(name, world):
    upload, strategy = UPLOADS[name], FedAvg()
    expected = stage.simulated(strategy, world, uploads=upload)
    got = play(strategy, world, client_app(train=train, uploads=upload))
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert np.abs(expected - stage.simulated(strategy, world)).max() > 1e-3


def test_lengths_that_decide_who_uploads_are_those_of_what_is_sent():
    upload, strategy = UPLOADS["feedback"], OptimalSampling(cohort=2)
    got = play(strategy, "lossy", client_app(train=train, uploads=upload))
    np.testing.assert_allclose(got, stage.simulated(strategy, "lossy", uploads=upload), atol=1e-5)
