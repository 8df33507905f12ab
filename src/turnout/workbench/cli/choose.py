"""`turnout choose`: the questions that lead to a strategy, and an experiment to try it in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from turnout.errors import FolderError, UserError, nearest
from turnout.workbench.cli.command import Output, command

if TYPE_CHECKING:
    from turnout.workbench.experiment.advised import Question

WORDS = {"y": True, "yes": True, "n": False, "no": False}


@command(quiet="Print the experiment's path and nothing else.")
def choose_command(
    answers: Annotated[
        list[str] | None,
        Option("--answer", metavar="KEY=yes|no", help="Answer a question beforehand, such as memory=no."),
    ] = None,
    out: Annotated[Path, Option(help="The experiment to write.")] = Path("experiment.toml"),
    *,
    output: Output,
) -> None:
    """Ask what you know of your fleet, name a strategy for it, and write an experiment."""
    from turnout.files.whole import whole_file
    from turnout.workbench.experiment.advised import choose
    from turnout.workbench.report.page.labels import paper_label

    if out.exists():
        raise FolderError(f"{out}: exists already: name another file (--out FILE.toml)")
    given = _read(answers or [])
    choice = choose(lambda question: _answer(question, given))
    with whole_file(out) as draft:
        draft.write_text(choice.to_toml(), encoding="utf-8")
    found = {"strategy": choice.strategy, "cost": choice.step.cost, "answers": given, "experiment": str(out)}

    def print_advice() -> None:
        settings = [f"{key} = {value}" for key, value in choice.strategy.items() if key != "name"]
        strategy = " with ".join([paper_label(choice.strategy["name"]), *settings])
        typer.echo(f"Use {strategy}. Its cost: {choice.step.cost}.")
        typer.echo(f"Experiment: {out}")
        typer.echo(f"Next: {shlex.join(['turnout', 'audit', str(out)])}   (which clients each strategy trains for)")

    output.tell(out, lambda: found, print_advice)


def _read(answers: list[str]) -> dict[str, bool]:
    """Answers by the key of their question."""
    from turnout.workbench.experiment.advised import QUESTIONS

    keys = [question.key for question in QUESTIONS]
    given = {}
    for answer in answers:
        key, _, word = answer.partition("=")
        if key not in keys:
            raise UserError(f"--answer {answer}: there is no question {key!r}: {nearest(key, keys)}")
        if word.lower() not in WORDS:
            raise UserError(f"--answer {answer}: give {key}=yes or {key}=no")
        given[key] = WORDS[word.lower()]
    return given


def _answer(question: Question, given: dict[str, bool]) -> bool:
    """The answer to a question, which is asked if it was not given, and noted."""
    while question.key not in given:
        typer.echo(f"{question.text} [y/n] ", nl=False, err=True)
        try:
            word = input().strip().lower()
        except EOFError:
            raise UserError(
                f"no answer to {question.text!r}: give --answer {question.key}=yes or {question.key}=no"
            ) from None
        if word in WORDS:
            given[question.key] = WORDS[word]
    return given[question.key]
