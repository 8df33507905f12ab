"""One description of a table and its writers: terminal, page, Markdown, records."""

import io

import numpy as np
from rich.console import Console

from page_walker import walked
from turnout.workbench.report.page.colours import BLUE, Style
from turnout.workbench.report.page.table import Cell, Column, Table

TABLE = Table(
    (
        Column("name", (Cell("a <b>", "a", style=Style.of(BLUE)), Cell("b|c", "b", style=Style.of(BLUE))), "label"),
        Column(
            "loss",
            (
                Cell("1.5", {"mean": np.float32(1.5)}, "± 0.2", "1.3 to 1.7"),
                Cell("2", {"mean": np.nan}, "± 1", best=True),
            ),
            "train.loss",
            "final",
            "nats",
            intervals="95 % interval",
        ),
        Column.of("note", ["many words", ""], words=True, page_only=True),
        Column.hidden("settings", [{"rate": 0.1}, {}]),
    ),
    "The title",
    "The note.",
    sections=(0,),
)


def printed(table):
    console = Console(width=80, record=True, force_terminal=True, file=io.StringIO())
    console.print(table)
    return console.export_text(styles=True)


def test_a_terminal_has_spreads_and_no_column_that_is_too_wide():
    text = printed(TABLE)
    for words in ("The title", "The note.", "loss", "(nats)", "1.5 ± 0.2", "a <b>"):
        assert words in text
    assert "\x1b[1m    2 ± 1\x1b" in text  # the best, bold and to the right
    for words in ("many words", "interval", "1.3", "settings"):
        assert words not in text
    assert text.count("├") == 1  # the line below the first row


def test_a_page_has_intervals_in_place_of_spreads():
    html = TABLE.html()
    walked(html)
    assert 'loss (nats), 95 % interval</th><th scope="col" class="words">note</th>' in html
    assert '1.5<span class="interval">1.3 to 1.7</span>' in html
    assert "<strong>2 ± 1</strong>" in html
    assert '<td class="words">many words</td>' in html
    assert "settings" not in html


def test_a_row_of_a_page_is_hidden_with_its_line():
    html = TABLE.html()
    assert '<tr data-label="a &lt;b&gt;"><th scope="row"><svg class="swatch"' in html
    assert "data-label" not in Table((Column.of("name", ["a"]),)).html()


def test_markdown_keeps_to_its_cells():
    table = Table((Column.of("name", ["b|c"]), Column.of("says", ["two\nlines"])))
    assert list(table.markdown()) == ["| name | says |", "|---|---|", "| b\\|c | two lines |"]


def test_records_are_plain_and_keep_a_dot_in_a_name():
    assert TABLE.records() == [
        {"label": "a", "final": {"train.loss": {"mean": 1.5}}, "settings": {"rate": 0.1}},
        {"label": "b", "final": {"train.loss": {"mean": None}}, "settings": {}},
    ]
    assert TABLE.row_count == 2


def test_numbers_are_never_cut_in_a_narrow_terminal():
    numbers = ["0.123456 ± 0.0123"]
    wide = Table((Column.of("strategy", ["fedavg"]), *(Column.of(f"metric {k}", numbers) for k in range(6))))
    console = Console(width=80, file=io.StringIO())
    console.print(wide, crop=False)
    assert console.file.getvalue().count(numbers[0]) == 6


def test_a_narrow_terminal_leaves_out_the_last_of_what_is_spare():
    spare = (Column.of(name, ["123456789"], if_room=True) for name in ("uploads", "steps"))
    table = Table((Column.of("strategy", ["fedavg"]), *spare, Column.of("loss", ["0.5"])))
    for width, shown in ((80, ["strategy", "uploads", "steps", "loss"]), (40, ["strategy", "uploads", "loss"])):
        console = Console(width=width, file=io.StringIO())
        console.print(table, crop=False)
        lines = console.file.getvalue().splitlines()
        assert lines[1].replace("┃", "").split() == shown
        assert max(map(len, lines)) <= width
    assert "steps" in table.html()


def test_a_page_sorts_by_the_number_behind_a_text():
    html = TABLE.html()
    assert '<table class="sortable">' in html
    assert '<td data-value="1.5">1.5<span' in html
    assert "<td><strong>2 ± 1</strong></td>" in html  # nothing finite to sort by
    assert "sortable" not in Table((Column.of("name", ["a"]),)).html()
