"""What came out where work takes time: for whom servers train, and how well after the same time."""

import numpy as np
from tables import folder_of, size_of, table

from turnout.statistics import Interval
from turnout.workbench.reproduction.curve_table import CURVES, Measured, read_curves

WORLDS = ("always there", "two classes")


def whom_shares() -> dict[str, dict[str, dict[str, float]]]:
    """By server, world and measure, in percent: shares of the slow clients and weights on the wrong ones."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for curve in read_curves(folder_of("time_whom") / CURVES):
        of_server = found.setdefault(curve.label, {world: {} for world in WORLDS})
        of_server[curve.panel][curve.metric] = 100 * float(curve.values.mean())
    return found


def whom() -> str:
    """As played, and by formula where there is one."""
    rows = []
    for server, worlds in whom_shares().items():
        cells = [server]
        for world in WORLDS:
            for kind in ("", "by_formula_"):
                slow, off = (worlds[world].get(f"{kind}{what}") for what in ("slow_share", "off_target"))
                cells.append("–" if slow is None else f"{slow:.1f} % ({off:.1f})")
        rows.append(cells)
    head = ("server", "always there", "by formula", "two classes", "by formula")
    return table(head, rows) + f"\n\n{size_of('time_whom')}."


def same_time() -> str:
    """Accuracy after the same time, the best first, with what it took."""
    measured = Measured(read_curves(folder_of("time_accuracy") / CURVES))

    def last(label: str, metric: str) -> np.ndarray:
        return measured.curve("", label, metric).values[:, -1]

    finals = {label: 100 * last(label, "test_accuracy") for label in measured.labels("")}
    rows = []
    for label in sorted(finals, key=lambda each: -finals[each].mean()):
        lead = Interval.of(finals["LastWord"] - finals[label])
        wasted = last(label, "wasted_steps").mean() / last(label, "local_steps").mean()
        rows.append(
            [
                label,
                f"{finals[label].mean():.1f} ± {finals[label].std(ddof=1):.1f}",
                "–" if label == "LastWord" else f"{-lead.mean:+.1f} [{-lead.high:+.1f}, {-lead.low:+.1f}]",
                f"{last(label, 'server_steps').mean():,.0f}",
                f"{100 * wasted:.0f} %",
            ]
        )
    head = ("server", "test accuracy, %", "against LastWord, points", "steps of the server", "wasted work")
    return table(head, rows) + f"\n\n{size_of('time_accuracy')}."
