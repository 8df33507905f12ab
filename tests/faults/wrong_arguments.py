"""Public calls with wrong arguments: each works, or is refused by an error of our own; as JSON, what came of them.

A program of its own, since tests check types at every call, which users do not. Its arguments are the number of calls,
the seed, and the groups of calls. With `every` for the number, each argument of each call meets each value once. It
writes files into the working folder.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import io
import itertools
import json
import random
import sys
import traceback
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import public_calls
from counts import SECONDS, limited

from turnout import strategies
from turnout.errors import frames, is_mistake, package_of

NAN, INF = float("nan"), float("inf")
# What no argument can mean, whatever its kind.
NOTHING = [
    NAN,
    np.float32(NAN),
    jnp.float32(NAN),
    1j,
    object(),
    b"1",
    {1, 2},
    np.array(["a"]),
    10**400,
    ...,
    [NAN, 1.0],
]
NOTHING += [np.full(public_calls.CLIENTS, NAN), [NAN] * public_calls.CLIENTS]
NOTHING += [[None, None], jax.random.key(0), [[1.0], [1.0, 2.0]], np.array(1j), iter([1])]
NUMBERS = [-1, -0.5, 0, 0.5, 1, 2, 2.5, 3, 3.0, 7, 1e-30, 1e30, 2**24, 2**31, 2**32, 2**63, INF, -INF]
SCALARS = [np.int64(2), np.int64(-1), np.float32(0.5), np.float64(-1), np.array(2), np.array(0.5), np.array(-1.0)]
SCALARS += [jnp.int32(2), jnp.float32(0.5), jnp.float32(-1)]
TRUTHS = [True, False, np.True_, jnp.array(True)]
TEXTS = ["", "x", "12", "sgd", "1.0"]
LISTS = [[], [1], [1.5], [0.5, 0.5], [1, 1], [-1.0], [True, False], ["x"], (1, 2), range(3), np.ones(2), jnp.ones(3)]
LISTS += [np.ones((2, 2)), [[1.0]], {"a": 1}, {}, [0.5] * public_calls.CLIENTS, [[0.5, 0.5], [0.5, 0.5]]]
LISTS += [np.full(public_calls.CLIENTS, -1.0), np.full(public_calls.CLIENTS, 7.5), [-1] * public_calls.CLIENTS]
OBJECTS = [None, strategies.FedAvg(), strategies.FedAvg, public_calls.WORLD, public_calls.TASK, public_calls.PROCESS]
OBJECTS += [float, print, len, lambda t: 0.1, lambda t: NAN, lambda: 1, np, jnp.zeros, [strategies.FedAvg()]]
VALUES = [NOTHING, NUMBERS, SCALARS, TRUTHS, TEXTS, LISTS, OBJECTS]
# Numbers that may be below zero; no other may.
SIGNED = {"lam", "centres", "first", "second", "start", "shift", "scale", "peak_hour", "mean", "gap", "zones"}
SIGNED |= {"spread", "curvature", "optimum", "amplitude", "tail", "clock_start"}
LONG_WORK = 2**24  # a number from which on a call may take long, and rightly


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_row(value: Any) -> bool:
    """Whether this is a row of numbers."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(is_number, value))
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.size > 0 and value.dtype.kind in "iuf"


def plain(value: Any) -> Any:
    """A number of numpy or of jax as Python's own."""
    is_array = isinstance(value, np.ndarray | np.generic | jax.Array) and not jnp.issubdtype(
        value.dtype, jax.dtypes.extended
    )
    return np.asarray(value).item() if is_array and np.ndim(value) == 0 else value


def has_no_meaning(name: str, right: Any, value: Any) -> str:
    """Why an argument that is right with one value cannot mean another; empty where it may."""
    if any(value is one for one in NOTHING):
        return "nothing"
    value = plain(value)
    if isinstance(value, bool) and not isinstance(right, bool) and right is not None:
        return "a truth value"
    if is_number(right):
        if isinstance(value, str):
            return "a text for a number"
        if isinstance(right, int) and isinstance(value, float) and name not in ("spread", "cutoff"):
            return "a float for a count"
        if is_number(value) and value < 0 and name not in SIGNED:
            return "below zero"
    if is_row(right) and is_row(value) and np.min(value) < 0 and name not in SIGNED:
        return "below zero"
    if isinstance(right, str) and is_number(value):
        return "a number for a text"
    if isinstance(right, list) and is_number(right[0]) and isinstance(value, str):
        return "a text for numbers"
    return ""


# Each group with the file of its calls; some need files in the working folder, some need packages of their own.
OF_CALLS = ("ENGINE", "STRATEGIES", "UPLOADS", "AVAILABILITY", "WORLDS", "BUILDERS", "RESULTS")
GROUPS = dict.fromkeys(OF_CALLS, "public_calls") | {"IN_TIME": "calls_in_time", "WITH_DATA": "calls_with_data"}
GROUPS |= {"CHECKS": "calls_with_data", "WORKBENCH": "calls_of_workbench"}
ALL = tuple(GROUPS)
GROUPS["ON_NODES"] = "calls_on_nodes"
FORGET = 500  # calls after which compiled programs are forgotten, since each may hold memory


class Campaign:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: dict[str, str] = {}
        self.refused = ""  # the last refusal

    def play(self, name: str, call: public_calls.Call) -> None:
        """One call with one or two wrong arguments."""
        arguments, meant = dict(call.arguments), ""
        count = 1 if self.draw.random() < 0.8 else 2
        for argument in self.draw.sample(sorted(arguments), min(count, len(arguments))):
            value = self.draw.choice(self.draw.choice(VALUES))
            if callable(value) and callable(call.arguments[argument]):
                continue  # what a function of the user raises is the user's
            meant = meant or has_no_meaning(argument, call.arguments[argument], value)
            arguments[argument] = value
        self.judge(described(name, call, arguments), call, arguments, meant)

    def play_every(self, name: str, call: public_calls.Call) -> None:
        """Every argument with every value, one by one."""
        for argument, right in call.arguments.items():
            for value in itertools.chain.from_iterable(VALUES):
                if not (callable(value) and callable(right)):
                    arguments = {**call.arguments, argument: value}
                    meant = has_no_meaning(argument, right, value)
                    self.judge(described(name, call, arguments), call, arguments, meant)

    def judge(self, shown: str, call: public_calls.Call, arguments: dict[str, Any], meant: str) -> None:
        self.counts["calls"] += 1
        try:
            quiet = contextlib.redirect_stdout(io.StringIO())
            with warnings.catch_warnings(), quiet, limited(SECONDS):
                warnings.simplefilter("ignore")
                call.use(call.function(**arguments))
        except public_calls.Reached:
            self.counts["reached"] += 1
        except Exception as error:  # whatever comes from below
            if isinstance(error, TimeoutError) and any(map(is_long_work, arguments.values())):
                self.counts["long"] += 1
                return
            if is_mistake(error) or is_answer(shown, error):
                self.counts["refused"] += 1
                self.refused = f"{shown}: {error}"
                if "\n" in str(error) or not str(error):
                    self.note("not one line", shown, str(error))
                return
            last = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in last if "turnout" in frame.filename]
            place = f"{ours[-1].filename.partition('turnout/')[2]}:{ours[-1].lineno}" if ours else "?"
            self.note("an error from below", f"{shown}: {type(error).__name__} at {place}", str(error)[:200])
            return
        self.counts["accepted"] += 1
        if meant:
            self.note(f"accepted, though it is {meant}", shown, "")

    def note(self, kind: str, shown: str, said: str) -> None:
        self.counts[kind] += 1
        self.faults.setdefault(shown, f"{kind}: {said}")


def is_answer(shown: str, error: Exception) -> bool:
    """Whether this is what a call is for: a contract that is broken, or a formula that tells that it did not settle."""
    if shown.startswith("testing."):
        return isinstance(error, AssertionError)
    is_ours = package_of(frames(error)[-1]) == "turnout"
    return shown.startswith("theory.") and type(error) is RuntimeError and is_ours


def is_long_work(value: Any) -> bool:
    number = plain(value)
    return is_number(number) and LONG_WORK <= number < INF


def described(name: str, call: public_calls.Call, arguments: dict[str, Any]) -> str:
    """A call with what is wrong in it."""
    wrong = (f"{key}={short(value)}" for key, value in arguments.items() if value is not call.arguments[key])
    return f"{name}({', '.join(wrong)})"


def short(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:60]
    except ValueError:  # a number of too many digits
        return "10**400"


def calls_of(groups: str) -> dict[str, public_calls.Call]:
    """The calls of groups, and the files that they read in the working folder."""
    calls: dict[str, public_calls.Call] = {}
    for group in ALL if groups == "ALL" else groups.split(","):
        file = importlib.import_module(GROUPS[group])
        calls |= getattr(file, group)
        if hasattr(file, "write_files"):
            file.write_files()
    return calls


def main() -> None:
    count, seed, groups = sys.argv[1:]
    campaign = Campaign(int(seed))
    calls = calls_of(groups)
    public_calls.stub()
    for name, call in calls.items():  # with nothing wrong
        campaign.judge(f"{name}()", call, dict(call.arguments), "")
    if campaign.counts["accepted"] != len(calls):
        raise SystemExit(f"calls with right arguments are refused: {campaign.faults or campaign.refused}")
    if groups in ("ALL", "ENGINE") and not campaign.counts["reached"]:
        raise SystemExit("no call reached the compiled program: it is not replaced by a stub")
    names = sorted(calls)
    for number in range(len(names) if count == "every" else int(count)):
        name = names[number % len(names)]
        (campaign.play_every if count == "every" else campaign.play)(name, calls[name])
        if count == "every" or number % FORGET == FORGET - 1:
            jax.clear_caches()
    print(json.dumps({"counts": campaign.counts, "faults": campaign.faults}))


if __name__ == "__main__":
    main()
