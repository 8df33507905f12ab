"""A headless Chromium through its DevTools pipe: no driver and no package needed."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--remote-debugging-pipe",
    "about:blank",
)
CONNECT = "import os, sys; [os.dup2(int(sys.argv[k - 2]), k) for k in (3, 4)]; os.execv(sys.argv[3], sys.argv[3:])"
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver(list => longTasks.push(...list.getEntries().map(e => e.duration)))
  .observe({type: 'longtask', buffered: true});
"""


def chromium():
    """Path of a Chromium, or None; the environment may name one."""
    named = os.environ.get("TURNOUT_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page; what it asks for and what goes wrong in it is written down."""

    def __init__(self, timeout=60.0):
        self.timeout, self.number, self.buffer = timeout, 0, b""
        self.errors, self.requests, self.loaded = [], [], False

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self.to_it = os.pipe()
        self.from_it, theirs_out = os.pipe()
        high_in, high_out = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out))

        # The browser talks through descriptors 3 and 4. A second program puts them there: a fork of this one, which may
        # run jax's threads, is not safe to do more than to start a program.
        start = [sys.executable, "-c", CONNECT, str(high_in), str(high_out)]
        command = [*start, chromium(), f"--user-data-dir={self.folder.name}", *SWITCHES]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, pass_fds=(high_in, high_out), **silent)
        for end in (theirs_in, theirs_out, high_in, high_out):
            os.close(end)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=LONG_TASKS)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self.session = None
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.to_it)
        os.close(self.from_it)
        self.folder.cleanup()

    def call(self, method, **params):
        self.number += 1
        wanted = self.number
        message = {"id": wanted, "method": method, "params": params} | (
            {"sessionId": self.session} if self.session else {}
        )
        os.write(self.to_it, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next(time.monotonic() + self.timeout)
            if got.get("id") == wanted:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']['message']}")
                return got["result"]

    def _next(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.from_it], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.from_it, 1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message):
        params, method = message.get("params", {}), message.get("method")
        if method == "Runtime.exceptionThrown":
            detail = params["exceptionDetails"]
            self.errors.append(detail.get("exception", {}).get("description") or detail["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([one.get("value") for one in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def open(self, path, width=1280, height=900, dark=False, query=""):
        """Open a file, or an address, and wait until it is loaded and drawn; a narrow screen is one that is touched."""
        self.errors, self.requests, self.loaded = [], [], False
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        address = path if str(path).startswith("http://") else Path(path).absolute().as_uri()
        self.call("Page.navigate", url=address + query)
        self.wait_until_loaded()

    def wait_until_loaded(self):
        """Wait until a page that was asked for is loaded and drawn."""
        until = time.monotonic() + self.timeout
        while not self.loaded:
            self._next(until)
        self.settle()

    def run(self, script):
        """The value of an expression in the page; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def settle(self):
        """Two frames later everything is asked for; our charts say when they are drawn."""
        self.run(
            "new Promise(done => { const look = () => typeof waiting === 'undefined' || !waiting.size"
            " ? done(1) : requestAnimationFrame(look); requestAnimationFrame(() => requestAnimationFrame(look)); })"
        )

    def scroll_through(self):
        """Look at the whole page once, screen by screen, and come back."""
        for place in range(0, int(self.run("document.documentElement.scrollHeight")), 600):
            self.run(f"scrollTo(0, {place})")
            self.settle()
        self.run("scrollTo(0, 0)")
        self.settle()

    def longest_task(self):
        """Milliseconds for which the page was deaf at most, since it was opened; below 50 nothing is counted."""
        return self.run("new Promise(done => setTimeout(() => done(Math.max(0, ...longTasks)), 300))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start, end, y):
        self.mouse("mouseMoved", start, y)
        self.mouse("mousePressed", start, y, button="left", clickCount=1)
        for step in range(1, 5):
            self.mouse("mouseMoved", start + (end - start) * step / 4, y, button="left")
        self.mouse("mouseReleased", end, y, button="left", clickCount=1)
        self.settle()

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))
