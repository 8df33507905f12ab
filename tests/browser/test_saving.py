"""What a reader takes away from a page: a sorted table, a chart as a file, the page on paper."""

import base64
import csv
import io
import struct
from xml.etree import ElementTree

import pytest

from made_up import made_up_run
from turnout.workbench.experiment.store import save
from turnout.workbench.report.run.run_page import write_report

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"
FIGURES = "[...document.querySelectorAll('figure[data-chart]')]"
# What a click would save, in base64.
SAVED = """
(async () => {
  const blobs = [], make = URL.createObjectURL;
  URL.createObjectURL = (blob) => { blobs.push(blob); return make.call(URL, blob); };
  document.querySelector('figure[data-chart="%s"] [data-save=%s]').click();
  while (!blobs.length) await new Promise((done) => setTimeout(done, 20));
  URL.createObjectURL = make;
  const bytes = new Uint8Array(await blobs[0].arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
})()
"""
# How many of the pixels of each canvas are painted.
PAINTED = """
[...document.querySelectorAll('figure canvas')].map((c) => {
  const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
  let painted = 0;
  for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
  return painted;
})
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saving")
    return write_report([save(made_up_run(4, 3, 50, 40), folder / "run")], folder / "report.html")


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    return browser


def saved(browser, chart, form):
    return base64.b64decode(browser.run(SAVED % (chart, form)))


def column(browser, number):
    return browser.run(
        f"[...document.querySelector('table.sortable tbody').rows].map(r => r.cells[{number}].innerText.trim())"
    )


def test_a_click_on_a_head_sorts_the_table(opened):
    head = "document.querySelector('table.sortable thead').rows[0].cells[{}]"
    given = column(opened, 0)
    assert given == ["FedAvg", "Unbiased", "AdaFed", "CA-Fed"]
    opened.run(f"{head.format(1)}.querySelector('button').click()")
    rising = [float(text.split()[0]) for text in column(opened, 1)]
    assert rising == sorted(rising)
    assert opened.run(f"{head.format(1)}.ariaSort") == "ascending"
    opened.run(f"{head.format(1)}.querySelector('button').click()")
    assert [float(text.split()[0]) for text in column(opened, 1)] == rising[::-1]
    opened.run(f"{head.format(0)}.querySelector('button').click()")
    assert column(opened, 0) == ["AdaFed", "CA-Fed", "FedAvg", "Unbiased"]
    assert opened.run(f"{head.format(1)}.ariaSort") is None
    opened.run(f"{head.format(4)}.querySelector('button').click()")
    assert [text.split()[0] for text in column(opened, 4)] == ["-14.7", "-4.3", "–", "+1.3"]  # the first one is at 0
    assert opened.errors == []


def test_a_chart_is_saved_as_its_numbers(opened):
    header, *rows = csv.reader(io.StringIO(saved(opened, "curve-test_accuracy", "csv").decode()))
    assert header == ["series", "Round", "Test accuracy (%)", "low", "high"]
    assert len(rows) == 4 * 51
    assert {row[0] for row in rows} == {"FedAvg", "Unbiased", "AdaFed", "CA-Fed"}
    assert all(float(low) <= float(y) <= float(high) for _, _, y, low, high in rows)
    header, *rows = csv.reader(io.StringIO(saved(opened, "availability", "csv").decode()))
    assert header == ["client", "round", "state (FedAvg)"]
    assert {row[2] for row in rows} == {"away", "excluded", "failed", "active"}
    header, *rows = csv.reader(io.StringIO(saved(opened, "groups", "csv").decode()))
    assert "target" in {row[0] for row in rows}
    assert {len(row) for row in rows} == {len(header)}


def test_a_hidden_strategy_is_not_saved(opened):
    opened.run("document.querySelector('.legend [data-label=FedAvg]').click()")
    opened.settle()
    assert b"FedAvg" not in saved(opened, "curve-test_accuracy", "csv")
    assert b"FedAvg" not in saved(opened, "curve-test_accuracy", "svg")


@pytest.mark.parametrize("chart", ["curve-test_accuracy", "availability", "weights", "groups"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_chart_is_saved_as_a_picture_on_white(browser, page, chart, dark):
    browser.open(page, dark=dark)
    drawing = ElementTree.fromstring(saved(browser, chart, "svg").decode())
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert texts[0].startswith(browser.run(f"document.querySelector('figure[data-chart=\"{chart}\"] h3').textContent"))
    assert {"FedAvg", "CA-Fed"} <= set(texts) or "active" in texts  # the meaning of the colours
    assert drawing.find(f"{SVG}rect").attrib["fill"] == "#ffffff"
    assert "#F2F2F2" not in ElementTree.tostring(drawing, "unicode")  # CA-Fed on dark paper
    png = saved(browser, chart, "png")
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == tuple(3 * int(drawing.attrib[side]) for side in ("width", "height"))
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True])
def test_paper_has_every_chart_in_light_colours(browser, page, dark):
    browser.open(page, dark=dark)
    assert browser.run(f"{FIGURES}.some(f => !f.chart)")  # some have not been seen
    assert base64.b64decode(browser.call("Page.printToPDF")["data"]).startswith(b"%PDF")
    assert browser.run(f"{FIGURES}.every(f => f.chart)")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert all(painted > 1000 for painted in browser.run(PAINTED))
    assert not browser.run("isDark()")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("isDark()") is dark


def test_nothing_jumps_while_charts_are_drawn(opened):
    opened.run(
        "window.jumps = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) jumps += e.value; })"
        ".observe({ type: 'layout-shift', buffered: true })"
    )
    before = opened.run(f"{FIGURES}.map(f => f.offsetTop + ' ' + f.offsetHeight)")
    opened.scroll_through()
    assert opened.run("jumps") == 0
    assert opened.run(f"{FIGURES}.map(f => f.offsetTop + ' ' + f.offsetHeight)") == before
