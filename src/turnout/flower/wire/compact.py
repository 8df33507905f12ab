"""An update in few bytes: which entries, and their values as 32-bit floats or as signed bytes with a scale per array.

Entries are counted through all trained arrays, in the order of their names. Nothing here raises, whatever was sent.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from turnout.flower.wire.client_metrics import Dropped, length
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.replies import Reply, ReplyRules, accept, no_records, of_another_round, too_long
from turnout.uploads.eight_bit import as_levels

INDICES, VALUES, LEVELS, SCALES = "indices", "values", "levels", "scales"
_KINDS = {INDICES: np.uint32, VALUES: np.float32, LEVELS: np.int8, SCALES: np.float32}
_DTYPES = {name: np.dtype(kind) for name, kind in _KINDS.items()}
_FORMS = ({VALUES}, {INDICES, VALUES}, {LEVELS, SCALES}, {INDICES, LEVELS, SCALES})


def compact(update: Mapping[str, np.ndarray]) -> Arrays:
    """The parts of an update, in the shortest of its equivalent forms."""
    rows = [np.ravel(update[name]) for name in sorted(update)]
    forms = [{VALUES: np.concatenate(rows)}]
    if (rounded := _round_to_levels(rows)) is not None:
        forms.append(rounded)
    forms += [_without_zeros(form) for form in forms]
    return min(forms, key=lambda form: sum(part.nbytes for part in form.values()))


def most_bytes(layout: Layout) -> dict[str, int]:
    """The most bytes per part of an update of such a model."""
    total = sum(_sizes(layout).values())
    counts = {INDICES: total, VALUES: total, LEVELS: total, SCALES: len(layout.trained)}
    return {name: count * _DTYPES[name].itemsize for name, count in counts.items()}


def check_parts(parts: object, metrics: object, rules: ReplyRules) -> Reply | Dropped:
    """The update that these parts make up, or why it is dropped; everything else as in `check_reply`."""
    if not isinstance(parts, Mapping) or not isinstance(metrics, Mapping):
        return Dropped(no_records(parts, metrics))
    if (reason := of_another_round(metrics, rules.t)) is not None:
        return Dropped(reason)
    update = _unpacked(parts, rules.layout, rules.row)
    return update if isinstance(update, Dropped) else accept(update, length(update), metrics, rules)


def check_second(parts: Mapping[Any, Any], layout: Layout, limit: float | None, row: Arrays) -> Arrays | Dropped:
    """The second vector that these parts make up, written to its row, or why the whole answer is dropped."""
    second = _unpacked(parts, layout, row)
    if isinstance(second, Dropped):
        return Dropped(f"its second vector is of no use: {second.reason}")
    reason = too_long(length(second), limit, "second vector")
    return second if reason is None else Dropped(reason)


def _unpacked(parts: Mapping[Any, Any], layout: Layout, row: Arrays | None) -> Arrays | Dropped:
    """The vector that these parts make up, in the row if there is one, or what is wrong with them."""
    arrays, sizes = _in_form(parts), _sizes(layout)
    if isinstance(arrays, Dropped):
        return arrays
    reason = _wrong_entries(arrays, sum(sizes.values())) or _wrong_numbers(arrays, len(sizes))
    if reason is not None:
        return Dropped(reason)
    vector = {name: rows[0, ...] for name, rows in layout.rows(1).items()} if row is None else row
    _write(vector, arrays, sizes)
    return vector


def _sizes(layout: Layout) -> dict[str, int]:
    """Number of entries per trained array, in the order in which they are counted."""
    return {name: int(np.prod(layout.shapes[name], dtype=np.int64)) for name in sorted(layout.trained)}


def _round_to_levels(rows: list[np.ndarray]) -> Arrays | None:
    levels, scales = [], []
    for row in rows:
        if (pair := as_levels(row)) is None:
            return None
        levels.append(pair[0])
        scales.append(pair[1])
    return {LEVELS: np.concatenate(levels), SCALES: np.array(scales, np.float32)}


def _without_zeros(form: Arrays) -> Arrays:
    entries = LEVELS if LEVELS in form else VALUES
    kept = np.flatnonzero(form[entries])
    return {**form, INDICES: kept.astype(np.uint32), entries: form[entries][kept]}


def _in_form(parts: Mapping[object, object]) -> Arrays | Dropped:
    if set(parts) not in _FORMS:
        names = sorted(map(str, parts))
        return Dropped(f"the parts of its upload are {names!s:.200}, not values, or levels with scales")
    arrays: Arrays = {}
    for name, part in parts.items():
        dtype = _DTYPES[str(name)]
        if not isinstance(part, np.ndarray) or part.dtype != dtype or part.ndim != 1:
            shown = f"{part.dtype}{part.shape}" if isinstance(part, np.ndarray) else type(part).__name__
            return Dropped(f"{name!r} of its upload is a {shown:.80}, not a row of {dtype}")
        arrays[str(name)] = part
    return arrays


def _wrong_entries(parts: Arrays, total: int) -> str | None:
    entries, indices = parts[LEVELS if LEVELS in parts else VALUES], parts.get(INDICES)
    if indices is None:
        return None if len(entries) == total else f"its upload has {len(entries)} entries, but the model {total}"
    if len(entries) != len(indices):
        return f"its upload has {len(indices)} indices, but {len(entries)} entries"
    if not np.all(indices[1:] > indices[:-1]):
        return "the indices of its upload do not rise: each may appear once, in order"
    if len(indices) and indices[-1] >= total:
        return f"its upload has an entry number {indices[-1]}, but the model only {total} entries"
    return None


def _wrong_numbers(parts: Arrays, num_arrays: int) -> str | None:
    scales = parts.get(SCALES)
    if scales is not None and len(scales) != num_arrays:
        return f"its upload has {len(scales)} scales, but the model {num_arrays} trained arrays"
    floats = VALUES if scales is None else SCALES
    if not np.isfinite(parts[floats]).all():
        return f"{floats!r} of its upload hold a value that is not finite"
    return None


def _write(update: Arrays, parts: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
    """Write the entries to their places, and zeros elsewhere."""
    entries, indices = parts[LEVELS if LEVELS in parts else VALUES], parts.get(INDICES)
    scales = parts.get(SCALES, np.ones(len(sizes), np.float32))
    edges = np.cumsum([0, *sizes.values()])
    ends = edges if indices is None else np.searchsorted(indices, edges)
    with np.errstate(all="ignore"):
        for number, name in enumerate(sizes):
            row, between = update[name].reshape(-1), slice(ends[number], ends[number + 1])
            if indices is None:
                np.multiply(entries[between], scales[number], out=row)
            else:
                row[:] = 0.0
                row[indices[between] - edges[number]] = entries[between] * scales[number]
