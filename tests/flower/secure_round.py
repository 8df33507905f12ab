"""Rounds of the protocol in this process, with clients that drop out of every exchange."""

import random

import numpy as np

from turnout.flower.secure.party import Party
from turnout.flower.secure.rules import LostError, RefusedError, Rules
from turnout.flower.secure.summer import Summer


def keep_and_recall(party):
    """A client that was stopped between two exchanges."""
    return Party.from_bytes(party.to_bytes(), party.rules)


def play(vectors, dropouts=0.0, seed=0, neighbours=None, rules=None, restarts=False, tell=lambda *_: None):
    """The sum, or None where it was lost, and who is in it; `tell` sees what every exchange brought to the server."""
    luck, rules, tag = random.Random(seed), rules or Rules(), f"run|{seed}"
    names, size = list(vectors), len(next(iter(vectors.values())))
    parties = {name: Party(name, tag, rules) for name in names}
    summer = Summer(tag, size, neighbours, shuffle=random.Random(seed), least=rules.least)

    def answers(asked, answer):
        found = {}
        for name, message in asked.items():
            if luck.random() >= dropouts:
                if restarts and parties[name].stage != "new":
                    parties[name] = keep_and_recall(parties[name])
                try:
                    found[name] = answer(name, message)
                except RefusedError:
                    continue
        return found

    keys = answers(dict.fromkeys(names), lambda name, _: parties[name].keys())
    groups = summer.take_keys(keys)
    boxes = answers(groups, lambda name, group: parties[name].shares(group, summer.threshold))
    mail = summer.take_shares(boxes)
    uploads = answers(mail, lambda name, own: parties[name].masked(own, vectors[name]))
    for name, upload in uploads.items():
        assert summer.add(name, upload)
    told = answers(summer.to_unmask(), lambda name, asked: parties[name].unmask(*asked))
    tell(keys, boxes, uploads, told)
    try:
        return summer.result(told), sorted(summer.arrived)
    except LostError:
        return None, []


def random_vectors(count, size, seed=0):
    draw = np.random.default_rng(seed)
    return {int(name): draw.integers(0, 2**32, size, np.uint32) for name in draw.integers(1, 2**63, count)}
