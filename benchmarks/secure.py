"""What secure sums cost beside a plain sum: processor time of a client and of the server, and bytes, in one process.

`python benchmarks/secure.py [--clients 10 100 1000] [--parameters 100000] [--gone 0.1]`

A tenth of the clients is gone when uploads are due. Times are of the processor, not of the clock. Bytes are those of
the protocol, without the envelopes of Flower and without training. The plain sum is that of the same vectors as floats.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

import numpy as np

from turnout.flower.secure import packing, vectors
from turnout.flower.secure.party import Party
from turnout.flower.secure.summer import Summer

QUANTUM, NUMBERS = 2.0**-16, 5  # three of LastWord, and two of a loss
TAG = "benchmark|1"


class Clock:
    """Processor seconds by what they were for."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    def of(self, what, function, *arguments):
        begun = time.process_time()
        found = function(*arguments)
        self.spent[what] += time.process_time() - begun
        return found


def measure(clients: int, parameters: int, gone: float, seed: int = 0) -> dict[str, float]:
    """One round."""
    draw, clock = np.random.default_rng(seed), Clock()
    names = draw.choice(2**62, clients, replace=False).tolist()
    update = (draw.integers(-(2**20), 2**20, parameters) * QUANTUM).astype(np.float32)
    away = set(names[: round(gone * clients)])
    parties = {name: Party(name, TAG) for name in names}
    summer = Summer(TAG, vectors.size_of(parameters, NUMBERS))
    up = down = 0
    keys = {name: clock.of("client", party.keys) for name, party in parties.items()}
    groups = clock.of("server", summer.take_keys, keys)
    boxes = {name: clock.of("client", parties[name].shares, group, summer.threshold) for name, group in groups.items()}
    mail = clock.of("server", summer.take_shares, boxes)
    uploaded, plain = 0, np.zeros(parameters, np.float32)
    for name, own in mail.items():
        if name in away:
            continue
        vector = clock.of("client", vectors.to_whole, update, [1.0] * NUMBERS, QUANTUM)
        masked = clock.of("client", parties[name].masked, own, vector)
        clock.of("server", summer.add, name, masked)
        clock.of("plain server", np.add, plain, update, plain)
        uploaded += 1
    asked = clock.of("server", summer.to_unmask)
    told = {name: clock.of("client", parties[name].unmask, *lists) for name, lists in asked.items()}
    total = clock.of("server", summer.result, told)
    sums, _ = clock.of("server", vectors.from_sum, total, parameters, QUANTUM)
    assert np.array_equal(sums, uploaded * update.astype(np.float64)), "the sum is not exact"
    one = next(iter(asked))
    up = 96 + len(packing.rows(boxes[one])) + 8 * NUMBERS + len(packing.rows(told[one]))
    down = len(packing.rows({name: b"".join(own) for name, own in groups[one].items()})) + len(packing.rows(mail[one]))
    down += sum(len(packing.names(some)) for some in asked[one])
    return {
        "group": len(groups[one]),
        "client ms": 1e3 * clock.spent["client"] / clients,
        "server s": clock.spent["server"],
        "plain server s": clock.spent["plain server"],
        "bytes up": up,
        "% up": 100 * up / (4 * parameters),
        "bytes down": down,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--parameters", type=int, default=100_000)
    parser.add_argument("--gone", type=float, default=0.1)
    options = parser.parse_args()
    measure(10, 1000, options.gone)  # so that nothing is loaded in what counts
    print(f"{'clients':>8} " + " ".join(f"{name:>15}" for name in measure(10, 100, options.gone)))
    for clients in options.clients:
        found = measure(clients, options.parameters, options.gone)
        print(f"{clients:>8} " + " ".join(f"{value:>15.4g}" for value in found.values()), flush=True)


if __name__ == "__main__":
    main()
