"""How long a large report takes to write, how large it is, and how smoothly a browser opens it.

    python benchmarks/report.py [--strategies 10] [--seeds 10] [--rounds 500] [--clients 1000] [--out FILE.html]

The run is made up: random curves, weights and absences of the given size, every round evaluated, written as a run
folder and read back. The longest task of the page's main thread is taken from headless Chromium where there is one.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "browser"))

from devtools import Browser, chromium

from made_up import made_up_run
from turnout.workbench import save, write_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("strategies", 10), ("seeds", 10), ("rounds", 500), ("clients", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    run = made_up_run(given.strategies, given.seeds, given.rounds, given.clients)
    with tempfile.TemporaryDirectory() as place:
        folder = save(run, Path(place) / "run")
        out = given.out or Path(place) / "report.html"
        begin = time.perf_counter()
        write_report([folder], out)
        seconds = time.perf_counter() - begin
        size = f"{given.strategies} strategies, {given.seeds} seeds, {given.rounds} rounds, {given.clients:,} clients"
        print(f"{size}: written in {seconds:.2f} s, {out.stat().st_size / 2**20:.2f} MiB")
        _open(out)


def _open(out: Path) -> None:
    if chromium() is None:
        print("no Chromium was found: the page was not opened")
        return
    with Browser() as browser:
        browser.open(out)
        browser.scroll_through()
        print(f"longest task of the main thread: {browser.longest_task():.0f} ms")


if __name__ == "__main__":
    main()
