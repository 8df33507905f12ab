"""The walk to a strategy recommends only what the strategies themselves say they are good for."""

import functools
import importlib
import re
import sys
from pathlib import Path

import pytest

from turnout.statistics import Interval
from turnout.workbench.experiment import registry
from turnout.workbench.experiment.advised import STEPS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "choose.md").read_text()
MODEL_PER_CLIENT = "O(N · model)"
ALIKE = "alike for all"
# What a strategy must say of itself to stand in the row with these words in bold.
FITS = {
    "one model per client": lambda t: t["server_memory"] == MODEL_PER_CLIENT and "work" not in t["consistent"],
    "alike": lambda t: t["needs"] == () and t["server_memory"] == "O(1)" and ALIKE in t["consistent"],
    "uploads fail": lambda t: "success" in t["needs"] and "if everybody is available and links" in t["consistent"],
    "local steps differ": lambda t: "work" not in t["consistent"] and "availability and links" in t["consistent"],
    "rates known": lambda t: t["needs"] == ("pi",) and t["server_memory"] == "O(1)",
    "nothing known": lambda t: t["needs"] == () and t["server_memory"] == "O(N)",
}
STEERING = {"scaffold", "amplified_scaffold", "feddyn", "focus"}  # by what each client keeps
ROWS = re.findall(r"^\| \d \| (.*?) \| (.*?) \|", PAGE, re.MULTILINE)


def traits(name):
    return registry.entries("strategies")[name].traits


def named(text):
    return re.findall(r"\(strategies/(\w+)\.md\)", text)


def bold(text):
    (word,) = re.findall(r"\*\*(.*?)\*\*", text)
    return word


def test_every_question_is_there():
    assert [bold(question) for question, _ in ROWS] == list(FITS)


@pytest.mark.parametrize(("question", "answer"), ROWS, ids=list(FITS))
def test_recommended_strategies_fit_the_question(question, answer):
    assert named(answer)
    for name in named(answer):
        assert FITS[bold(question)](traits(name)), name


def test_the_command_asks_what_the_page_asks():
    assert [step.text for step in STEPS] == [question.replace("**", "") for question, _ in ROWS]
    for step, (_, answer) in zip(STEPS, ROWS, strict=True):
        strategies = [asked.strategy["name"] for asked in (step, step.otherwise) if asked is not None]
        assert set(strategies) <= set(named(answer))


def test_those_that_count_arrivals_do_not_ask_for_equal_links():
    counting, told = ("fedau", "debiased", "mifa", "fedvarp", "fedlaavg"), ("unbiased", "ca_fed", "f3ast", "adafed")
    assert not [name for name in counting if "links" in traits(name)["consistent"]]
    assert not [name for name in told if "links" not in traits(name)["consistent"]]


def test_only_three_and_those_that_steer_clients_make_up_for_unequal_work():
    unequal = {name for name in registry.entries("strategies") if "work" not in traits(name)["consistent"]}
    assert {"fednova", "fedacs", "last_word"} | STEERING <= unequal
    assert unequal <= {"fednova", "fedacs", "last_word", "more_available"} | STEERING


@functools.cache
def sections():
    sys.path.append(str(ROOT / "docs"))  # at the end: docs/site.py must not hide Python's own
    return importlib.import_module("sections")


@pytest.mark.parametrize("page", sections().PAGES)
def test_what_comes_from_stored_numbers_is_as_they_are(page):
    text = (ROOT / page).read_text()
    assert sections().PART.search(text)
    assert sections().rewritten(text) == text, f"{page} is behind its numbers: make sections"


def test_what_is_said_of_real_phones_is_what_came_out():
    """Who remembers is ahead of who counts, which gain a third to three quarters of it; CA-Fed is level with AdaFed."""
    for claim in ("trace_flash", "trace_stunner"):
        leads = sections().leads(claim)
        means = {label: lead.mean for label, lead in leads.items()}
        assert sections().memory_of(max(means, key=means.__getitem__)) == MODEL_PER_CLIENT
        best = max(means["FedVARP"], means["MIFA"])
        assert min(leads["FedVARP"].low, leads["MIFA"].low) > 0
        assert all(0.33 < means[label] / best < 0.76 for label in ("FedAU", "F3AST"))
        assert min(means["FedAU"], means["F3AST"]) > means["AdaFed"] > means["Unbiased"]
        assert leads["CA-Fed"].low < means["AdaFed"] < leads["CA-Fed"].high


def test_what_is_said_of_lossy_links_is_what_came_out():
    lossy = {label: values.mean() for label, values in sections().accuracies()["lossy links"].items()}
    assert max(lossy.values()) - lossy["FedAvg"] < 1.0


def test_what_is_said_of_last_word_is_what_came_out():
    """First in seven of eight worlds and level with the first in the other; far ahead where all troubles meet."""
    text = " ".join(PAGE.split())
    accuracy = sections().accuracies()
    troubled = [world for world in accuracy if world != sections().CEILING]
    assert f"of {len(accuracy['two classes'])} strategies it was first in seven of eight worlds" in text
    firsts = [world for world in troubled if sections().ranks(accuracy[world])["LastWord"] == 1]
    assert (len(troubled), len(firsts)) == (8, 7)
    for world in troubled:
        others = [values for label, values in accuracy[world].items() if label != "LastWord"]
        leads = [Interval.of(accuracy[world]["LastWord"] - values) for values in others]
        assert min(lead.low for lead in leads) > (1.5 if world.startswith("joint") else -0.3)
    phones = [accuracy[world] for world in ("FLASH", "STUNner")]
    of = [one["LastWord"].mean() - one[other].mean() for other in ("FedAvg", "FedAU") for one in phones]
    assert f"LastWord is {of[0]:.1f} and {of[1]:.1f} points ahead of FedAvg there" in text
    assert f"and {of[2]:.1f} and {of[3]:.1f} ahead of FedAU" in text


def test_the_readme_counts_right():
    readme = (ROOT / "README.md").read_text()
    assert f"[{len(registry.entries('strategies'))} strategies]" in readme
    assert f"[{len(registry.entries('availability'))} processes]" in readme
