"""Start a run, wait for its end, and say by the exit code whether it was completed.

    train.py APP CONNECTION [--run-config 'key=value ...']

For a service manager, which starts it again after a failure: the ServerApp then continues from its checkpoint. On
SIGTERM this program stops the run first.
"""

import json
import signal
import subprocess
import sys
import time

MAX_UNANSWERED = 20  # requests in a row while the SuperLink is away
PAUSE_SECONDS = 15.0  # between two requests


def ask(*words: str) -> dict:
    """What `flwr` prints as JSON, empty if it fails."""
    result = subprocess.run(["flwr", *words, "--format", "json"], capture_output=True, text=True, check=False)
    begin = result.stdout.find("{")
    if result.returncode or begin < 0:
        print(result.stdout + result.stderr, file=sys.stderr, flush=True)
        return {}
    return json.loads(result.stdout[begin:])


def end_of(run: str, link: str) -> str:
    """The status in which a run has ended."""
    unanswered = 0
    while unanswered < MAX_UNANSWERED:
        time.sleep(PAUSE_SECONDS)
        runs = ask("list", link, "--run-id", run).get("runs", [])
        unanswered = 0 if runs else unanswered + 1
        if runs and runs[0]["status"].startswith("finished"):
            return runs[0]["status"]
    return "unknown to the SuperLink"


def main(app: str, link: str, *options: str) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    run = str(ask("run", app, link, *options).get("run-id", ""))
    if not run:
        return 1
    print(f"run {run} has started; `flwr log {run} {link}` shows what it says", flush=True)
    try:
        status = end_of(run, link)
    except BaseException:
        ask("stop", run, link)
        raise
    print(f"run {run} is {status}", flush=True)
    return 0 if status == "finished:completed" else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
