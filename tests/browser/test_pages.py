"""The pages in a browser: nothing goes wrong, nothing is fetched, and what can be touched does what it says."""

import pytest

from made_up import made_up_run
from turnout import audit, availability
from turnout.strategies import AdaFed, FedAvg, Unbiased
from turnout.workbench import Experiment, run
from turnout.workbench.diagnosis.diagnose import diagnose
from turnout.workbench.experiment.store import save
from turnout.workbench.report.audit import audit_page
from turnout.workbench.report.diagnosis.diagnosis_page import diagnosis_page
from turnout.workbench.report.run.run_page import write_report
from turnout.world import World

pytestmark = pytest.mark.browser
PAGES = ("report", "diagnosis", "audit")
SMOOTH = 500  # milliseconds that a page may be deaf at most


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    saved = save(made_up_run(4, 3, 50, 40), folder / "run")
    write_report([saved], folder / "report.html")
    log = folder / "log.csv"
    rows = [f"{t},c{k}" for t in range(200) for k in range(12) if (t * (k + 3)) % 7 < 1 + k % 5]
    log.write_text("round,client\n" + "\n".join(rows))
    (folder / "diagnosis.html").write_text(diagnosis_page(diagnose(str(log), rounds=0)))
    world = World(availability.two_classes(20))
    found = audit(world, {"plain": FedAvg(), "unbiased": Unbiased(), "adafed": AdaFed()}, rounds=200)
    (folder / "audit.html").write_text(audit_page(found, "<A world>", "rounds = 1"))
    return folder


@pytest.fixture(scope="module")
def large_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    return write_report([save(made_up_run(10, 10, 500, 1000), folder / "run")], folder / "report.html")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_alone_and_fits(browser, pages, name, dark, width):
    browser.open(pages / f"{name}.html", width=width, dark=dark)
    browser.scroll_through()
    assert browser.errors == []
    assert browser.requests == [(pages / f"{name}.html").as_uri()]
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("[...document.querySelectorAll('canvas')].every(c => c.closest('figure').chart)")


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_says_its_values_and_has_its_numbers(browser, pages, name):
    browser.open(pages / f"{name}.html")
    browser.scroll_through()
    for chart in browser.run("[...document.querySelectorAll('figure[data-chart]')].map(f => f.dataset.chart)"):
        figure = f"document.querySelector('figure[data-chart=\"{chart}\"]')"
        rows = browser.run(
            f"(async () => {{ const d = {figure}.querySelector('details'); d.open = true;"
            "await new Promise(done => setTimeout(done, 50)); return d.querySelectorAll('tbody tr').length; })()"
        )
        assert rows > 0, chart
        browser.run(f"{figure}.querySelector('canvas').focus()")
        for _ in range(2):
            browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
        browser.settle()
        kind = browser.run(f"{figure}.chart.spec.kind")
        if kind != "dots":  # between dots there may be nothing to say
            assert ":" in browser.run(f"{figure}.querySelector('.live').textContent"), chart


def box_of(browser, chart):
    """Where a chart is on the screen, once it has come into view and been drawn."""
    canvas = f"document.querySelector('figure[data-chart=\"{chart}\"] canvas')"
    browser.run(f"{canvas}.scrollIntoView({{block: 'center'}})")
    browser.settle()
    return browser.run(
        f"(() => {{ const b = {canvas}.getBoundingClientRect();"
        "return {x: b.x, y: b.y, width: b.width, height: b.height}; })()"
    )


def test_hovering_shows_the_values_of_all_strategies(browser, pages):
    browser.open(pages / "report.html")
    box = box_of(browser, "curve-test_accuracy")
    browser.mouse("mouseMoved", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    browser.settle()
    text = browser.run("document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")
    assert text.startswith("Round 2")
    for label in ("FedAvg", "Unbiased", "AdaFed", "CA-Fed"):
        assert label in text
    assert "%" in text


def test_a_strategy_is_hidden_everywhere_and_comes_back(browser, pages):
    browser.open(pages / "report.html")
    browser.scroll_through()
    shown = "charts.filter(c => c.spec.kind !== 'picture').every(c => c.shown().some(s => s.label === 'FedAvg'))"
    all_again = "document.querySelector('.legend [data-all]').offsetParent"
    assert browser.run(shown)
    assert browser.run(f"{all_again} === null")
    browser.run("document.querySelector('.legend [data-label=FedAvg]').click()")
    browser.settle()
    assert browser.run(f"{all_again} !== null")
    assert browser.run("charts.every(c => !c.shown().some(s => s.label === 'FedAvg'))")
    assert browser.run("document.querySelector('tr[data-label=FedAvg]').classList.contains('off')")
    assert browser.run("document.querySelector('figure[data-chart=availability] select').value") == "Unbiased"
    assert browser.run("document.querySelector('.legend [data-label=FedAvg]').ariaPressed") == "false"
    browser.run("document.querySelector('.legend [data-all]').click()")
    assert browser.run(shown)
    assert browser.errors == []


def test_curves_can_be_drawn_over_what_they_cost(browser, pages):
    browser.open(pages / "report.html")
    browser.scroll_through()
    chart = "document.querySelector('figure[data-chart=curve-test_accuracy]').chart"
    before = browser.run(f"{chart}.x.invert({chart}.box.right)")
    browser.run("document.querySelector('input[name=over][value=uploads]').click()")
    browser.settle()
    assert before == pytest.approx(50)
    assert browser.run(f"{chart}.x.invert({chart}.box.right)") > 1000
    assert browser.run(f"{chart}.xTitle") == "Uploads"


def test_time_is_drawn_over_hours_and_knows_who_is_at_work(browser, tmp_path):
    tables = {
        "rounds": 30,
        "task": {"name": "quadratics", "num_clients": 6, "dimension": 2},
        "availability": {"name": "bernoulli", "pi": 0.8},
        "links": {"name": "bernoulli", "success": 0.7},
        "durations": {"name": "fixed", "ticks": [0, 1, 2, 3, 4, 5], "leaving": "abort", "tick_seconds": 60.0},
        "pace": {"name": "buffered", "size": 2, "concurrency": 4},
        "strategies": ["fedbuff", "mifa"],
    }
    run(Experiment.read(tables), tmp_path / "run")
    browser.open(write_report([tmp_path / "run"], tmp_path / "report.html"))
    browser.scroll_through()
    chart = "document.querySelector('figure[data-chart=\"{}\"]').chart"
    assert browser.run(chart.format("curve-distance") + ".xTitle") == "Hours"
    assert browser.run("document.querySelector('input[name=over]:checked').value") == "hours"
    picture = chart.format("availability")
    rows = browser.run(f"{picture}.marks.points({picture})")
    assert rows[0][:2] == ["client", "tick"]
    assert {row[2] for row in rows[1:]} == {"away", "excluded", "failed", "active", "at work"}
    assert {row[2] for row in rows[1:31]} <= {"away", "excluded", "failed", "active"}  # work of one tick
    assert browser.errors == []


def test_dragging_zooms_and_the_button_shows_all_again(browser, pages):
    browser.open(pages / "report.html")
    box = box_of(browser, "curve-test_accuracy")
    browser.drag(box["x"] + 0.3 * box["width"], box["x"] + 0.6 * box["width"], box["y"] + 100)
    figure = "document.querySelector('figure[data-chart=curve-test_accuracy]')"
    low, high = browser.run(f"{figure}.chart.zoom")
    assert 5 < low < high < 40
    browser.run(f"{figure}.querySelector('.reset').click()")
    browser.settle()
    assert browser.run(f"{figure}.chart.zoom") is None


@pytest.mark.parametrize("name", PAGES)
def test_dark_and_light_by_the_button(browser, pages, name):
    browser.open(pages / f"{name}.html")
    browser.run("localStorage.clear()")
    browser.open(pages / f"{name}.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.run("document.querySelector('button.theme').click()")
    browser.settle()
    assert browser.run(paper) != light
    assert browser.run("isDark()")
    browser.run("document.querySelector('button.theme').click()")
    assert browser.run(paper) == light
    browser.run("localStorage.clear()")


def test_everything_that_can_be_pressed_has_a_name(browser, pages):
    for name in PAGES:
        browser.open(pages / f"{name}.html")
        unnamed = "[...document.querySelectorAll('button, canvas, select, input')].filter(e => !(e.ariaLabel || "
        assert browser.run(f"{unnamed} e.textContent.trim() || e.closest('label')?.textContent.trim())).length") == 0


def test_a_large_report_is_small_and_opens_smoothly(browser, large_report):
    assert large_report.stat().st_size < 5e6
    browser.open(large_report)
    browser.scroll_through()
    assert browser.errors == []
    assert browser.longest_task() < SMOOTH


def test_many_strategies_stay_below_five_megabytes(browser, tmp_path):
    page = write_report([save(made_up_run(60, 2, 500, 1000), tmp_path / "run")], tmp_path / "report.html")
    assert page.stat().st_size < 5e6
    browser.open(page, width=390)
    browser.scroll_through()
    assert browser.errors == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
