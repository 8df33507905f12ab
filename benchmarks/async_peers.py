"""Asynchronous federated learning by FLGo or APPFL, measured on request, in an environment that has that library alone.

    python benchmarks/arrivals.py --flgo ENV/bin/python --appfl ENV/bin/python

starts this file there, once per library, and writes a line for every turn; the answer is a line with seconds,
seconds of the processor, and arrivals. So the contenders alternate, and a noisy machine is noisy for all.

The work: 100 clients with 60 features, 10 classes and 90 samples each, 5 SGD steps of batch 32 on a linear model. All
are always there and at work; work takes 2 to 21 ticks; the server steps at every ten updates (FedBuff). No evaluation,
no log, no file. Each library is driven as its own loop drives it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import time
from importlib.metadata import version

import numpy as np
import torch

CLIENTS, SAMPLES, FEATURES, CLASSES = 100, 90, 60, 10
STEPS, BATCH, RATE, BUFFER = 5, 32, 0.05, 10
TURN = 100  # arrivals of one turn, at least
TURN_OF_APPFL = 10  # each takes a second or so: it has Python collect its garbage several times per training


def lengths() -> list[int]:
    """Ticks beyond the first, log-normal, one number per client."""
    draws = 5.0 * np.exp(0.9 * np.random.default_rng(3).standard_normal(CLIENTS))
    return np.clip(np.rint(draws), 1, 20).astype(int).tolist()


def flgo_turns():
    """FLGo's FedBuff under its simulator, one step of its clock after another."""
    import flgo
    import flgo.algorithm.fedbuff as fedbuff
    import flgo.benchmark.synthetic_regression as synthetic
    from flgo.simulator.base import BasicSimulator

    ticks = lengths()

    class Slow(BasicSimulator):
        def update_client_responsiveness(self, client_ids, *args, **kwargs):
            self.set_variable(client_ids, "latency", [ticks[self.id2idx([each])[0]] for each in client_ids])

    folder = tempfile.mkdtemp()
    # A tenth of each client's samples is held out for testing by the task.
    data = {"num_clients": CLIENTS, "mean_datavol": SAMPLES / 0.85, "dimension": FEATURES, "num_classes": CLASSES}
    flgo.gen_task({"benchmark": {"name": synthetic, "para": data}}, folder + "/task")
    option = {
        "num_steps": STEPS,
        "batch_size": BATCH,
        "learning_rate": RATE,
        "proportion": 1.0,
        "sample": "uniform_available",
        "num_rounds": 10**9,
        "eval_interval": 0,
        "train_holdout": 0.0,
        "no_tqdm": True,
        "no_log_console": True,
        "algo_para": [BUFFER / CLIENTS, 1.0],
    }
    server = flgo.init(folder + "/task", fedbuff, option=option, Simulator=Slow)
    arrived = 0
    handle = server.package_handler

    def counted(packages):
        nonlocal arrived
        arrived += len(packages["__cid"])
        return handle(packages)

    server.package_handler = counted

    def turn() -> int:
        before = arrived
        while arrived < before + TURN:
            server.gv.clock.step()
            if server.iterate():
                server.current_round += 1
        return arrived - before

    return f"flgo {version('flgo')}", turn


class LinearModel(torch.nn.Linear):
    """APPFL reads its model, and its metric, from a file by their names."""

    def __init__(self):
        super().__init__(FEATURES, CLASSES)


def accuracy(truth, scores):
    return float((scores.argmax(axis=1) == truth).mean())


def appfl_turns():
    """APPFL's FedBuff under its driver in virtual time.

    Before the first answer it trains all clients that it asks, one after another. With Python 3.11 or newer it needs
    omegaconf below 2.4.
    """
    from appfl.agent import SimClientAgent, SimServerAgent
    from appfl.vsim import AsyncSimDriver, ClientProfile

    config = {
        "model_configs": {"model_path": __file__, "model_name": "LinearModel"},
        "log_configs": {"logging_output_dirname": tempfile.mkdtemp()},
        "algorithm_configs": {
            "num_global_epochs": 0,
            "scheduler": "AsyncScheduler",
            "scheduler_kwargs": {"num_clients": CLIENTS},
            "aggregator": "FedBuffAggregator",
            "aggregator_kwargs": {
                "K": BUFFER,
                "num_clients": CLIENTS,
                "alpha": CLIENTS / BUFFER,
                "staleness_fn": "polynomial",
                "staleness_fn_kwargs": {"a": 0.5},
            },
            "trainer": "VanillaTrainer",
            "trainer_kwargs": {
                "mode": "step",
                "num_local_steps": STEPS,
                "optim": "SGD",
                "optim_args": {"lr": RATE},
                "loss_fn": "CrossEntropyLoss",
                "metric_path": __file__,
                "metric_name": "accuracy",
                "do_validation": False,
                "train_batch_size": BATCH,
            },
        },
    }
    clients = []
    for client in range(CLIENTS):
        data = torch.utils.data.TensorDataset(torch.randn(SAMPLES, FEATURES), torch.randint(CLASSES, (SAMPLES,)))
        clients.append(SimClientAgent(config, client_id=str(client), client_dataset=data))
    server = SimServerAgent(config, num_clients=CLIENTS)
    profiles = {
        str(client): ClientProfile(compute_factor=ticks + 1, bandwidth=0) for client, ticks in enumerate(lengths())
    }
    driver = AsyncSimDriver(
        server, clients, profiles, CLIENTS, logging.getLogger("quiet"), base_step_time=1 / STEPS, eval_every=0
    )
    settings = server.server_agent_config.server_configs

    def turn() -> int:
        settings.num_global_epochs += TURN_OF_APPFL
        driver.run()
        return TURN_OF_APPFL

    return f"appfl {version('appfl')}", turn


LIBRARIES = {"flgo": flgo_turns, "appfl": appfl_turns}


def main() -> None:
    logging.disable(logging.INFO)
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # libraries print what they do
        name, turn = LIBRARIES[sys.argv[1]]()
        turn()
        print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True, file=answers)
        for _ in sys.stdin:
            began = time.perf_counter(), time.process_time()
            arrivals = turn()
            print(time.perf_counter() - began[0], time.process_time() - began[1], arrivals, flush=True, file=answers)


if __name__ == "__main__":
    main()
