"""What a participation log of your system says, without training anything.

    python examples/04_diagnose_a_log.py [LOG.csv]     columns: round, client (and others, see docs/diagnose.md)

Without a log, one is generated: phones that train while they charge at night, a third of them often, the others seldom.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import turnout
from turnout.workbench import diagnosis_words, save_diagnosis


def phones(path: Path) -> str:
    """Three weeks in rounds of an hour, with the time of each round."""
    generator = np.random.default_rng(0)
    rates = np.where(np.arange(60) < 20, 0.8, 0.15)
    with path.open("w") as file:
        file.write("round,client,time\n")
        for hour in range(21 * 24):
            night = 0.5 + 0.5 * np.cos((hour % 24 - 3) / 24 * 2 * np.pi)
            for phone in np.flatnonzero(generator.random(60) < rates * night):
                file.write(f"{hour},phone {phone},{3600 * hour}\n")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    log = sys.argv[1] if len(sys.argv) > 1 else phones(Path(folder) / "log.csv")
    diagnosis = turnout.diagnose(log, rounds=0)  # with rounds = 4000 it also ranks strategies by an audit
    for lines in diagnosis_words(diagnosis).values():
        print(*lines[:1])
    page = save_diagnosis(diagnosis, Path(folder) / "diagnosis") / "diagnosis.html"
    print(f"The page has {page.stat().st_size // 1000} kB; `turnout diagnose LOG.csv` writes it under runs/.")
