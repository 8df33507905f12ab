"""How much a client's presence varies by chance, from whole spells of it rather than from single slots."""

from __future__ import annotations

import numpy as np

from turnout.workbench.diagnosis.findings.run_sums import PerClient, own_time
from turnout.workbench.diagnosis.reading.log import Log


def spells_variance(log: Log) -> PerClient:
    """Variance of the number of slots in which each client is present, if its spells could have come in any order.

    A presence of a slots and the absence of b after it add a - π(a + b) to a sum that ends at 0. In random order its
    maximum has the law of Kolmogorov's statistic, times the root of the sum of squares. That holds for heavy tails,
    too, where few long spells decide and no variance over slots can be estimated.
    """
    present, observed = own_time(log)
    count, length = log.num_clients, observed.length.astype(np.int64)
    pi = np.bincount(present.client, present.length, minlength=count) / np.maximum(length, 1)
    begins = np.diff(present.client, prepend=-1) != 0
    following = np.append(present.first[1:], 0).astype(np.int64)
    until = np.where(np.append(begins[1:], True), length[present.client], following)[: len(present.client)]
    steps = present.length - pi[present.client] * (until - present.first)
    before = np.zeros(count)  # the absence that the log begins with
    before[present.client[begins]] = present.first[begins]
    return np.bincount(present.client, steps**2, minlength=count) + (pi * before) ** 2
