"""Start a run, wait for its end, and say by the exit code whether it was completed.

    train.py APP CONNECTION [--run-config 'key=value ...']

For a service manager, which starts it again after a failure: the ServerApp then goes on from its checkpoint.
"""

import json
import subprocess
import sys
import time

PATIENCE = 20  # questions in a row that may go unanswered while the SuperLink is away, one every EVERY seconds
EVERY = 15.0


def ask(*words: str) -> dict:
    """What `flwr` prints as JSON, empty if it fails."""
    found = subprocess.run(["flwr", *words, "--format", "json"], capture_output=True, text=True, check=False)
    begin = found.stdout.find("{")
    if found.returncode or begin < 0:
        print(found.stdout + found.stderr, file=sys.stderr)
        return {}
    return json.loads(found.stdout[begin:])


def main(app: str, link: str, *options: str) -> int:
    run = ask("run", app, link, *options).get("run-id")
    if run is None:
        return 1
    print(f"run {run} has started; `flwr log {run} {link}` shows what it says", flush=True)
    unanswered = 0
    while unanswered < PATIENCE:
        time.sleep(EVERY)
        runs = ask("list", link, "--run-id", str(run)).get("runs", [])
        unanswered = 0 if runs else unanswered + 1
        if runs and runs[0]["status"].startswith("finished"):
            print(f"run {run} is {runs[0]['status']}", flush=True)
            return 0 if runs[0]["status"] == "finished:completed" else 1
    print(f"the SuperLink does not tell of run {run}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
