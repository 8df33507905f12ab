"""Mistakes that people make: each is answered in one line that says what would be right, and at once."""

import time

import pytest

SECONDS = 10.0  # of processor time, once everything is imported: ten times what it takes, for slow machines

LOG = "round,client\n" + "".join(f"{t},{k}\n" for t in range(12) for k in range(3) if t % (k + 1) == 0)
FILES = {
    "log.csv": LOG,
    "empty.csv": "",
    "header.csv": "round,client\n",
    "words.csv": "this is not,a log\nat,all\n",
    "negative.csv": "round,client\n-1,a\n",
    "text_round.csv": "round,client\nfirst,a\n",
    "short_row.csv": "round,client\n0,a\n1\n",
    "backwards.csv": "client,start,end\na,900,0\n",
    "events.jsonl": '{"round": 0, "client"\n',
    "flower.txt": "INFO :      [ROUND 1]\nINFO :      configure_fit: strategy sampled 2 clients (out of 2)\n",
    "broken.toml": "rounds = = 3\n",
    "list.toml": "[[rounds]]\n",
    "data.csv": "x,y\n1,2\n",
}


# What was typed after `turnout`, and what the answer must say.
MISTAKES = {
    "rnu": "Did you mean 'run'?",
    "run --ronds 3": "--rounds",
    "run --rounds": "requires an argument",
    "run --rounds three": "not a valid integer",
    "run --rounds 0": "rounds: given 0, expected a whole number from 1",
    "run --rounds -5": "rounds: given -5, expected a whole number from 1",
    "run --seeds 0": "seeds: given 0, expected",
    "run tiny.toml more.toml": "unexpected extra argument",
    "run tinny.toml": "there is no such file: did you mean 'tiny.toml'?",
    "run demmo": "did you mean 'demo'?",
    "run .": "name a TOML file, or a run folder",
    "run log.csv": "not a TOML file",
    "run broken.toml": "not a TOML file",
    "run list.toml": "'task' is missing: every experiment has rounds, task",
    "run tiny.toml --set rounds": "must be key=value, such as task.gamma=1",
    "run tiny.toml --set round=3": "did you mean 'rounds'?",
    "run tiny.toml --set rounds=many": "expected a whole number",
    "run tiny.toml --set rounds=2.5": "expected a whole number",
    "run tiny.toml --set seeds=[1,1]": "different whole numbers",
    "run tiny.toml --set evaluate_every=0": "evaluate_every: given 0, expected",
    "run tiny.toml --set strategies=[]": "expected a list of one table or more",
    "run tiny.toml --set strategies=fedavg": "expected a list of one table or more",
    "run tiny.toml --set strategies.3.cohort=2": "a list of 1 is counted 0 to 0",
    "run tiny.toml --set strategies.0.cohrt=2": "did you mean 'cohort'?",
    "run tiny.toml --set strategies.0.cohort=0": "cohort",
    "run tiny.toml --set strategies.0.cohort=99": "cohort",
    "run tiny.toml --set strategies.0.cohort=two": "cohort",
    'run tiny.toml --set strategies=[{name="fedavgg"}]': "did you mean 'fedavg'?",
    'run tiny.toml --set strategies=[{name="FedAvg"}]': "did you mean 'fedavg'?",
    'run tiny.toml --set strategies=[{name="no_module:Mine"}]': "cannot import 'no_module:Mine'",
    'run tiny.toml --set strategies=[{name="math:pi"}]': "is not a class or a function",
    'run tiny.toml --set strategies=[{label="a"}]': "name",
    "run tiny.toml --set task.name=quadratic": "did you mean 'quadratics'?",
    "run tiny.toml --set task.dimensions=3": "did you mean 'dimension'?",
    "run tiny.toml --set task.num_clients=0": "num_clients",
    "run tiny.toml --set task=mnst": "did you mean 'mnist'?",
    "run tiny.toml --set availability=markof": "did you mean 'markov'?",
    "run tiny.toml --set availability={name='bernoulli',pi=1.5}": "pi",
    "run tiny.toml --set availability={name='bernoulli'}": "pi",
    "run tiny.toml --set availability={name='trace',path='none.csv',slot=60}": "none.csv",
    "run tiny.toml --set links=perfekt": "did you mean 'perfect'?",
    "run tiny.toml --set local.learning_rate=fast": "learning_rate",
    "run tiny.toml --set local.learning_rat=1": "did you mean 'learning_rate'?",
    "run tiny.toml --set local.steps=-1": "steps",
    "run tiny.toml --set server.optimizer=adamm": "did you mean 'adam'?",
    'run tiny.toml --set metrics=["accuracy"]': "accuracy",
    "run tiny.toml --set calibrate=fedprox": "no strategy is called 'fedprox'",
    "run tiny.toml --set facts=orakle": "did you mean 'oracle'?",
    "run tiny.toml --set task={name='csv',path='absent.csv'}": "absent.csv",
    "run tiny.toml --set task={name='csv',path='data.csv'}": "data.csv",
    "run tiny.toml --out .": "exists already: choose another folder",
    "run --resume .": "there is nothing to resume",
    "run --resume tiny.toml": "nothing to resume",
    "run tiny.toml --resume there": "leave out experiment",
    "run tiny.toml --cells 3/2 --out there": "from 1/8 to 8/8",
    "run tiny.toml --cells 1/2": "--out DIR",
    "run tiny.toml --on slurm": "give ray, or ray:ADDRESS",
    "run tiny.toml --log-to wandbb": "did you mean 'wandb'?",
    "tune tiny.toml --metric accuracyy": "accuracyy",
    "audit tiny.toml --rounds 0": "rounds",
    "audit tinny.toml": "did you mean 'tiny.toml'?",
    "diagnose": "Missing argument",
    "diagnose none.csv": "none.csv",
    "diagnose empty.csv": "empty.csv",
    "diagnose header.csv": "header.csv",
    "diagnose words.csv": "client",
    "diagnose negative.csv": "line 2",
    "diagnose text_round.csv": "line 2",
    "diagnose backwards.csv": "line 2",
    "diagnose events.jsonl": "events.jsonl",
    "diagnose flower.txt": "Flower",
    "diagnose log.csv --columns client=Device": "Device",
    "report": "Missing argument",
    "report there": "those of `turnout run` are in runs/",
    "report .": "it has no run.json",
    "report --watch .": "neither finished nor under way",
    "plot . curves": "it has no run.json",
    "plot there curves": "there is no such folder",
    "reproduce": "name",
    "reproduce debiased_fig": "did you mean 'debiased_fig",
    "verify there": "there",
    "list strategy": "did you mean 'strategies'?",
    "cite unbiasd": "did you mean 'unbiased'?",
    "new tiny.toml": "exists already: choose another name",
    "new": "Missing argument 'NAME'",
    "choose --answer memry=no": "did you mean 'memory'?",
    "choose --answer memory=maybe": "give memory=yes or memory=no",
    "choose --out tiny.toml": "name another file (--out FILE.toml)",
}


@pytest.fixture
def typed(turnout, tmp_path):
    """What a command answers in a folder with files of all kinds."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return lambda line: turnout(*line.split(" "))


def timed(typed, line):
    begun = time.process_time()
    return typed(line), time.process_time() - begun


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_on_the_command_line_is_answered_in_one_line(typed, tmp_path, line):
    before = {path.name for path in tmp_path.iterdir()}
    result, seconds = timed(typed, line)
    if seconds >= SECONDS:  # it was the first to import something
        result, seconds = timed(typed, line)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert MISTAKES[line] in result.stderr
    assert seconds < SECONDS
    assert {path.name for path in tmp_path.iterdir()} == before


def test_there_are_enough_of_them():
    assert len(MISTAKES) >= 54
