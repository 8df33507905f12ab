"""The folder of a diagnosis: the page, the numbers, and the fitted world; whole or absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from turnout import __version__
from turnout.files.whole import free_folder, whole_or_absent
from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.experiment.fitted import world_toml
from turnout.workbench.report.diagnosis.diagnosis_page import diagnosis_page
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words

MOST_CLIENTS = 100_000  # whose own numbers are written


def diagnosis_summary(diagnosis: Diagnosis, clients: bool | None = None) -> dict[str, Any]:
    """All numbers with the sentences about them; `clients`: with those of every client, if not a very large fleet."""
    wanted = diagnosis.log.num_clients <= MOST_CLIENTS if clients is None else clients
    return {"turnout": __version__, "sentences": diagnosis_words(diagnosis)} | diagnosis.numbers(wanted)


def save_diagnosis(diagnosis: Diagnosis, out: str | Path) -> Path:
    """Write `diagnosis.html`, `diagnosis.json` and `world.toml`; if anything fails on the way, nothing is left."""
    folder = free_folder(out)
    with whole_or_absent(folder) as work:
        (work / "diagnosis.html").write_text(diagnosis_page(diagnosis), encoding="utf-8")
        text = json.dumps(diagnosis_summary(diagnosis), allow_nan=False)
        (work / "diagnosis.json").write_text(text + "\n", encoding="utf-8")
        (work / "world.toml").write_text(world_toml(diagnosis), encoding="utf-8")
    return folder
