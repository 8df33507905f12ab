"""How fast participation forgets: relaxation times and autocorrelation curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from turnout.workbench.diagnosis.findings.rates import Rates
from turnout.workbench.diagnosis.findings.run_sums import PerClient, PerSlot, excess_of, representative, sample
from turnout.workbench.diagnosis.reading.log import Log

Lags = Int[np.ndarray, " lags"]
PerLag = Float[np.ndarray, " lags"]

MAX_CELLS, MAX_CLIENTS = 20_000_000, 1000  # of the matrix whose autocorrelation is taken
MAX_LAGS, SHORT_LAGS, FAR_LAGS = 500, 24, 60  # the largest; all up to here; so many beyond


@dataclass(frozen=True)
class Mixing:
    """Relaxation times in slots, and the autocorrelation of the log."""

    relaxation: PerClient  # 1 / (1 - |λ̂|), of each client
    relaxation_low: PerClient
    relaxation_high: PerClient
    slowest: int  # the client with the largest lower end of the relaxation time
    integrated: PerClient  # Σ_s λ^|s| = (1 + λ̂) / (1 - λ̂): slots worth one independent slot
    lags: Lags
    curve: PerLag  # median autocorrelation of the clients at each lag
    curve_low: PerLag  # quartiles
    curve_high: PerLag
    fleet_curve: PerLag  # autocorrelation of the share of the fleet that is present
    sampled: int | None  # clients behind the curve, if not all


def mixing(log: Log, rates: Rates) -> Mixing:
    """Relaxation times from λ̂, and autocorrelation curves from pairs of slots that were both watched."""
    lags = lags_of(log)
    chosen = sample(log, MAX_CELLS, MAX_CLIENTS)
    curves = autocorrelation(log.matrix(chosen), log.watched_matrix(chosen), lags)
    defined = curves[np.isfinite(curves[:, 0])]
    if not len(defined):
        defined = np.full((1, len(lags)), np.nan)
    low, middle, high = np.quantile(defined, [0.25, 0.5, 0.75], axis=0)
    return Mixing(
        relaxation=1 / (1 - np.abs(rates.lam)),
        relaxation_low=1 / (1 - _least_size(rates.lam_low, rates.lam_high)),
        relaxation_high=1 / np.maximum(1 - np.maximum(np.abs(rates.lam_low), np.abs(rates.lam_high)), 1e-12),
        slowest=int(np.argmax(_least_size(rates.lam_low, rates.lam_high))),
        integrated=(1 + rates.lam) / (1 - rates.lam),
        lags=lags,
        curve=middle,
        curve_low=low,
        curve_high=high,
        fleet_curve=autocorrelation_of(_fleet(log, rates), lags),
        sampled=len(chosen) if len(chosen) < log.num_clients else None,
    )


def lags_of(log: Log) -> Lags:
    """The lags at which autocorrelation is taken, from 0."""
    return _space_lags(min(log.num_slots // 2, MAX_LAGS))


def _fleet(log: Log, rates: Rates) -> PerSlot:
    """Share of the fleet that is present, minus what its clients' rates predict; NaN where few are watched."""
    excess, watched = excess_of(log, rates.pi)
    return np.where(representative(watched), excess, np.nan)


def autocorrelation(
    present: Bool[np.ndarray, "clients slots"], watched: Bool[np.ndarray, "clients slots"], lags: Lags
) -> Float[np.ndarray, "clients lags"]:
    """Autocorrelation of each row at each lag, over the pairs of watched slots; NaN for rows that never change."""
    return np.concatenate(
        [
            _autocorrelate(present[rows].astype(np.float64), watched[rows].astype(np.float64), lags)
            for rows in _pieces(*present.shape)
        ]
    )


def autocorrelation_of(series: PerSlot, lags: Lags) -> PerLag:
    """Autocorrelation of one series over the slots where it is known."""
    defined = np.isfinite(series)
    return _autocorrelate(np.where(defined, series, 0.0)[None], defined[None].astype(np.float64), lags)[0]


def lagged_sums(values: Float[np.ndarray, "rows slots"], most: int) -> Float[np.ndarray, "rows lags"]:
    """Σ_t v_t v_{t+s} of each row for s = 0, …, most, by Fourier transform."""
    length = 1 << (values.shape[1] + most).bit_length()
    return np.concatenate(
        [
            np.fft.irfft(np.abs(np.fft.rfft(values[rows], length, axis=1)) ** 2, length, axis=1)[:, : most + 1]
            for rows in _pieces(len(values), length)
        ]
    )


def _pieces(count: int, slots: int) -> list[slice]:
    """Slices of rows, such that their transforms take little memory."""
    step = max(1, 4_000_000 // max(slots, 1))
    return [slice(begin, begin + step) for begin in range(0, max(count, 1), step)]


def _autocorrelate(
    values: Float[np.ndarray, "rows slots"], watched: Float[np.ndarray, "rows slots"], lags: Lags
) -> Float[np.ndarray, "rows lags"]:
    number = np.maximum(watched.sum(axis=1, keepdims=True), 1)
    centred = (values - (values * watched).sum(axis=1, keepdims=True) / number) * watched
    most = int(lags.max(initial=0))
    pairs = np.maximum(np.round(lagged_sums(watched, most)[:, lags]), 1)
    products = lagged_sums(centred, most)[:, lags] / pairs
    variance = (centred**2).sum(axis=1, keepdims=True) / number
    return np.where(variance > 1e-12, products / np.maximum(variance, 1e-12), np.nan)


def _space_lags(most: int) -> Lags:
    """All short lags, then geometrically spaced ones."""
    if most < 1:
        return np.zeros(1, np.int64)
    far = np.round(np.geomspace(min(SHORT_LAGS, most), most, FAR_LAGS)).astype(np.int64)
    return np.unique(np.r_[np.arange(min(SHORT_LAGS, most) + 1), far])


def _least_size(low: PerClient, high: PerClient) -> PerClient:
    """Least |λ| in an interval."""
    return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
