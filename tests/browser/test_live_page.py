"""The live page in a browser: it moves its bar by itself, and loads anew when a strategy is finished."""

import json
import threading

import pytest

from made_up import made_up_run
from turnout.workbench.experiment.kept import KeptPoint, KeptPoints
from turnout.workbench.experiment.progress import PROGRESS
from turnout.workbench.report.run.live_page import POLL, LiveServer

pytestmark = pytest.mark.browser


@pytest.fixture
def under_way(tmp_path):
    """The `unfinished` folder of a run, and the address of its page."""
    unfinished = tmp_path / "run" / "unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "start.json").write_text(json.dumps({"experiment": {"title": "Under way"}}))
    with LiveServer(tmp_path / "run", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL,))
        thread.start()
        yield unfinished, server.address
        server.shutdown()
        thread.join()


def note(unfinished, share):
    (unfinished / PROGRESS).write_text(json.dumps({"share": share, "left": 60.0, "latest": {"train_loss": 0.5}}))


def waited(browser, condition):
    """Whether something comes true in the page within a few seconds."""
    return browser.run(
        "(async () => { for (let i = 0; i < 100; i++) { "
        f"if ({condition}) return true; await new Promise(done => setTimeout(done, 100)); }} return false; }})()"
    )


def test_the_live_page_renews_itself(browser, under_way):
    unfinished, address = under_way
    note(unfinished, 0.1)
    browser.open(address)
    assert "No strategy is finished yet" in browser.run("document.body.textContent")
    assert waited(
        browser, "document.querySelector('#progress p').textContent.startsWith('10 % done, about 60 seconds')"
    )
    note(unfinished, 0.4)
    assert waited(browser, "document.querySelector('#progress progress').value === 0.4")
    outcome = made_up_run(1, 2, 10, 12).points[0]
    browser.loaded = False
    KeptPoints(unfinished, "asked").keep(outcome.label, KeptPoint(outcome.history, 1.0, 1.0))
    browser.wait_until_loaded()
    browser.scroll_through()
    assert browser.run("document.querySelectorAll('canvas').length") > 0
    assert waited(browser, "document.querySelector('#progress progress').value === 0.4")
    assert browser.errors == []
    assert {request.removeprefix(address) for request in browser.requests} == {"", "progress"}
