"""Effective weights in closed form, for the strategies and worlds that have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout import strategies as known
from turnout.availability.bernoulli import Bernoulli
from turnout.availability.clustered import Clustered
from turnout.availability.finite_chain import FiniteChain
from turnout.availability.markov import Markov
from turnout.availability.minimum_separation import MinimumSeparation
from turnout.server.facts import Oracle
from turnout.simulator.trial import Trial
from turnout.theory.effective_weights import (
    effective_c_a_fedavg,
    effective_debiased,
    effective_fedacs,
    effective_fednova,
    effective_raw,
    normalised_round_weights,
    normalised_round_weights_of_law,
)
from turnout.types import Fleet

UNSETTLED = 1e-6  # relative spread below which numbers count as equal


@dataclass(frozen=True)
class Setting:
    """What closed forms are made of, one entry a client."""

    trial: Trial
    target: np.ndarray  # α
    pi: np.ndarray  # π
    success: np.ndarray  # 1 - q
    reach: np.ndarray  # E ‖a‖₁

    @property
    def knows(self) -> bool:
        """Whether the server is told the truth."""
        return isinstance(self.trial.facts, Oracle)

    @property
    def all_there(self) -> bool:
        return bool((self.pi == 1).all())

    def divided(self, weights: np.ndarray) -> np.ndarray | None:
        """E[q_k 1_k / Σ_j q_j 1_j] over what arrives, where it can be had."""
        process, lossless = self.trial.world.availability, bool((self.success == 1).all())
        if isinstance(process, Bernoulli | Markov):
            return normalised_round_weights(self.pi * self.success, weights)
        if not lossless:
            return None  # arrivals of clients that move together do not thin out independently
        if isinstance(process, Clustered):
            cluster = np.asarray(process.cluster)
            totals = np.bincount(cluster, weights)
            pi = np.zeros(totals.size)
            pi[cluster] = self.pi
            return normalised_round_weights(pi, totals)[cluster] * weights / totals[cluster]
        if isinstance(process, FiniteChain):
            law = np.asarray(process.law, np.float64)
            return normalised_round_weights_of_law(np.asarray(process.masks), law / law.sum(), weights)
        if isinstance(process, MinimumSeparation):
            unit = np.asarray(process.unit)
            totals = np.bincount(unit, weights)
            # One unit at a time, or units of one weight: what is divided by does not depend on who else came.
            if process.batch == 1 or np.ptp(totals) <= UNSETTLED * totals.max():
                return self.pi * weights / totals[unit]
        return None


def exact_weights(trial: Trial, fleet: Fleet) -> np.ndarray | None:
    """Shares that the clients have in the long run, or None where no closed form is known.

    Ω_k ∝ E[weight given to k's update in a round, 0 if it does not arrive] · E ‖a_k‖₁. For strategies that remember or
    estimate, the limit once all have come.
    """
    form = _FORMS.get(type(trial.strategy))
    law = trial.world.law()
    if form is None or law is None:
        return None
    measured = (fleet.target, law[0], trial.world.links.mean_success())
    target, pi, success = (np.asarray(each, np.float64) for each in measured)
    weights = form(trial.strategy, Setting(trial, target, _cleaned(pi), _cleaned(success), _reach(trial)))
    return None if weights is None else weights / weights.sum()


def _cleaned(chances: np.ndarray) -> np.ndarray:
    """Single precision leaves 1 - 1e-8 for certainty."""
    return np.where(chances > 1 - UNSETTLED, 1.0, chances)


def _reach(trial: Trial) -> np.ndarray:
    """Mean reach of a client's work."""
    compute = trial.world.compute
    table = trial.local.reach(jnp.arange(compute.most + 1), trial.local.rate(0), compute.most)
    return compute.mean_of(np.asarray(table, np.float64))


def _fedavg(strategy: known.FedAvg, setting: Setting) -> np.ndarray | None:
    share = _averaged(strategy, setting)
    return None if share is None else share * setting.reach


def _fednova(strategy: known.FedNova, setting: Setting) -> np.ndarray | None:
    """The reach is divided out, if the common length of the step does not depend on who came."""
    alike = np.ptp(setting.reach) <= UNSETTLED * setting.reach.max() and setting.trial.world.compute.common is not None
    return _averaged(strategy, setting) if alike or strategy.effective_steps is not None else None


def _averaged(strategy: known.FedAvg | known.FedNova, setting: Setting) -> np.ndarray | None:
    if strategy.normaliser == "draws":
        return effective_fednova(setting.target, 1 - setting.success) if setting.all_there else None
    if strategy.cohort is not None:
        return None
    if strategy.normaliser == "all":
        return effective_raw(setting.pi * setting.success, setting.target)
    return setting.divided(setting.target)


def _unbiased(strategy: known.Unbiased, setting: Setting) -> np.ndarray | None:
    if not setting.knows:
        return None
    return effective_raw(setting.pi * setting.success, setting.target / setting.pi, setting.reach)


def _more_available(strategy: known.MoreAvailable, setting: Setting) -> np.ndarray | None:
    kept = np.float32(setting.pi) >= np.float32(strategy.threshold)
    return np.where(kept, setting.target * setting.success * setting.reach, 0.0) if setting.knows else None


def _adafed(strategy: known.AdaFed, setting: Setting) -> np.ndarray | None:
    """Divided by the sum over who is there, whether it arrives or not."""
    if not setting.knows or not (setting.success == 1).all():
        return None
    share = setting.divided(setting.target / setting.pi)
    return None if share is None else share * setting.reach


def _over_available(strategy: Any, setting: Setting) -> np.ndarray:
    return effective_raw(setting.pi * setting.success, setting.target, setting.reach)


def _remembered(strategy: Any, setting: Setting) -> np.ndarray:
    """The latest update stands in for who is away."""
    return setting.target * setting.reach


def _debiased(strategy: known.Debiased, setting: Setting) -> np.ndarray | None:
    """Batches of one size only: else the size goes together with who is in it."""
    if not isinstance(setting.trial.world.availability, MinimumSeparation) or not (setting.success == 1).all():
        return None
    return effective_debiased(setting.target) * setting.reach


def _fedacs(strategy: known.FedACS, setting: Setting) -> np.ndarray | None:
    return effective_fedacs(setting.target) if setting.knows and setting.all_there else None


def _c_a_fedavg(strategy: known.CAFedAvg, setting: Setting) -> np.ndarray | None:
    return effective_c_a_fedavg(setting.target, setting.reach) if setting.knows and setting.all_there else None


Form = Callable[[Any, Setting], np.ndarray | None]
_FORMS: dict[type, Form] = {
    known.FedAvg: _fedavg,
    known.FedNova: _fednova,
    known.Unbiased: _unbiased,
    known.MoreAvailable: _more_available,
    known.AdaFed: _adafed,
    known.ImportanceSampling: _over_available,
    known.UniformSampling: _over_available,
    known.OptimalSampling: _over_available,
    known.NormSampling: _over_available,
    known.MIFA: _remembered,
    known.FedVARP: _remembered,
    known.FedLaAvg: _remembered,
    known.Debiased: _debiased,
    known.FedACS: _fedacs,
    known.CAFedAvg: _c_a_fedavg,
}
