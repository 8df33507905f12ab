"""One colour per strategy, the same in every figure, also for colour-blind readers."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

# Okabe and Ito's palette without its yellow, which is too pale for a line on white.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
BROWN, GREY, OLIVE, MAROON = "#8C510A", "#7F7F7F", "#7F7F00", "#7A1F3D"  # for strategies that appear among many
PALETTE = (ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, BLACK)
USUAL = {  # strategies that are often compared get different colours
    "fedavg": VERMILION,
    "unbiased": BLUE,
    "more_available": ORANGE,
    "adafed": GREEN,
    "ca_fed": BLACK,
    "fedau": SKY,
    "mifa": PURPLE,
    "f3ast": BROWN,
    "fedvarp": GREY,
    "last_word": ORANGE,
    "fedlaavg": OLIVE,
    "fedawe": MAROON,
    "debiased": BLUE,
    "uniform_sampling": GREEN,
    "fedacs": GREEN,
    "c_a_fedavg": ORANGE,
    "fednova": BROWN,
    "optimal_sampling": BLUE,
}
DARK_PAPER = "#16181C"  # of pages
LEAST_CONTRAST = 3.5  # of a line on dark paper
PALEST = 0.6  # share of white in the last of many lines of one colour
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (1, 3), (12, 4))


@dataclass(frozen=True)
class Style:
    """How a line is drawn: its colour on light and on dark paper, and its dash."""

    light: str
    dark: str
    dash: tuple[int, ...] = DASHES[0]

    @classmethod
    def of(cls, shade: str, dash: tuple[int, ...] = DASHES[0]) -> Style:
        return cls(shade, on_dark(shade), dash)


def colour(strategy: str) -> str:
    """The colour of a strategy, by its name."""
    return USUAL.get(strategy) or PALETTE[zlib.crc32(strategy.encode()) % len(PALETTE)]


def guess_strategy(label: str, strategies: Collection[str]) -> str:
    """The strategy at the beginning of a label ("CA-Fed kappa=0.1" is ca_fed), else the label before its settings."""
    letters = _letters(label)
    named = [strategy for strategy in strategies if letters.startswith(_letters(strategy))]
    return max(named, key=len, default=label.partition("=")[0].rpartition(" ")[0] if "=" in label else label)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def line_styles(labels: Sequence[str], strategies: Sequence[str]) -> dict[str, Style]:
    """The style of each label, given its strategy; lines of one colour differ by tint and dash."""
    chosen = _distinct(strategies)
    colours = [chosen[strategy] for strategy in strategies]
    styles = {}
    for place, (label, shade) in enumerate(zip(labels, colours, strict=True)):
        before, in_all = colours[:place].count(shade), colours.count(shade)
        styles[label] = Style.of(_tint(shade, PALEST * before / max(1, in_all - 1)), DASHES[before % len(DASHES)])
    return styles


def _distinct(strategies: Sequence[str]) -> dict[str, str]:
    """The colour of each strategy; one of your own gives way to the others where the palette has a free colour."""
    chosen = {strategy: USUAL[strategy] for strategy in strategies if strategy in USUAL}
    for strategy in strategies:
        if strategy not in chosen:
            wanted = colour(strategy)
            free = (shade for shade in (wanted, *PALETTE) if shade not in chosen.values())
            chosen[strategy] = next(free, wanted)
    return chosen


def _tint(shade: str, share: float) -> str:
    """A colour mixed with this share of white."""
    parts = (int(shade[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02X}" for part in parts)


def on_dark(shade: str) -> str:
    """The colour on dark paper: black becomes white, and dark colours are lightened until they are legible."""
    if shade == BLACK:
        return "#F2F2F2"
    for share in range(20):
        lighter = _tint(shade, share / 20)
        if contrast(lighter, DARK_PAPER) >= LEAST_CONTRAST:
            return lighter
    return "#FFFFFF"


def contrast(first: str, second: str) -> float:
    """Ratio of the relative luminances of two colours, as WCAG counts it: 1 to 21."""
    light, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(shade: str) -> float:
    parts = (int(shade[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
