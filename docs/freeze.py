"""Put the results of `turnout benchmark` into the table of stored scores, and renew the manifest of the frozen files.

python docs/freeze.py runs/benchmark     results of both sizes, as far as they are there; strategies not run again stay
"""

import json
import sys
from pathlib import Path

from turnout.files.manifest import MANIFEST, Manifest
from turnout.workbench.benchmark.scores import Scored
from turnout.workbench.benchmark.worlds import SCORES, Worlds, frozen_folder, label_of, listed_strategies
from turnout.workbench.reproduction.stored import read_result, reproductions

SIZES = ("quick", "full")


def main() -> None:
    """Results of other worlds than the present ones are left out, and so are strategies that are not listed."""
    folder = frozen_folder()
    write_manifest(folder)
    scores = json.loads((folder / SCORES).read_text()) if (folder / SCORES).is_file() else {}
    listed = {label_of(entry): entry for entry in listed_strategies()}
    for size in SIZES:
        digest = Worlds.read(size).digest
        for place in reproductions(Path(sys.argv[1]) / size, "*"):
            result = read_result(place)
            if result["digest"] == digest and listed.get(result["label"]) == result["strategy"]:
                table = Scored.parse(result["label"], result).table()
                scores.setdefault(size, {})[result["label"]] = table | {"device": result["device"]["kind"]}
        scores[size] = {label: scores[size][label] for label in listed if label in scores.get(size, {})}
        print(f"{size}: {len(scores[size])} of {len(listed)} strategies")
    (folder / SCORES).write_text(written(scores), encoding="utf-8")
    write_manifest(folder)


def written(scores: dict) -> str:
    """A world per line."""
    text = json.dumps(scores, ensure_ascii=False, indent=1)
    return text + "\n"


def write_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text(Manifest.of(folder).text(), encoding="utf-8")


if __name__ == "__main__":
    main()
