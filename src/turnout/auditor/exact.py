"""Effective weights in closed form, for the strategies and worlds that have one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout import strategies
from turnout.availability.bernoulli import Bernoulli
from turnout.availability.clustered import Clustered
from turnout.availability.finite_chain import FiniteChain
from turnout.availability.markov import Markov
from turnout.availability.minimum_separation import MinimumSeparation
from turnout.server.facts import Oracle
from turnout.simulator.trial import Trial
from turnout.strategies.base import Strategy
from turnout.theory.bias import (
    effective_importance_sampling,
    effective_raw,
    normalised_round_weights,
    normalised_round_weights_of_law,
)
from turnout.types import Fleet, PyTree

MAX_SPREAD = 1e-6  # relative, of numbers that count as equal


@dataclass(frozen=True)
class Setting:
    """What closed forms depend on, one entry per client."""

    trial: Trial
    target: np.ndarray  # α
    pi: np.ndarray  # π
    success: np.ndarray  # 1 - q
    reach: np.ndarray  # E ‖a‖₁

    @property
    def knows(self) -> bool:
        """Whether the server knows the true rates and links."""
        return isinstance(self.trial.facts, Oracle)

    @property
    def arriving(self) -> np.ndarray:
        """Share of rounds in which an update arrives, if all that are available are asked."""
        return self.pi * self.success

    @property
    def all_there(self) -> bool:
        return bool((self.pi == 1).all())

    def divided(self, weights: np.ndarray) -> np.ndarray | None:
        """E[q_k 1_k / Σ_j q_j 1_j] over what arrives, or None without a closed form."""
        process, lossless = self.trial.world.availability, bool((self.success == 1).all())
        if isinstance(process, Bernoulli | Markov):
            return normalised_round_weights(self.arriving, weights)
        if not lossless:
            return None  # losses of clients that come together do not thin the cohort independently
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
            # One unit at a time, or units of equal weight: the divisor does not depend on who else came.
            if process.batch == 1 or np.ptp(totals) <= MAX_SPREAD * totals.max():
                return self.pi * weights / totals[unit]
        return None


def exact_weights(trial: Trial, fleet: Fleet) -> np.ndarray | None:
    """Long-run shares of the clients, or None if no closed form is known.

    Ω_k ∝ E[weight of k's update in a round, 0 if it does not arrive] · E ‖a_k‖₁. For strategies with a memory or an
    estimate it is the limit once every client has come.
    """
    form = _FORMS.get(type(trial.strategy))
    law = trial.world.law()
    if form is None or law is None or trial.server.rest is not None or trial.timed:
        return None
    measured = (fleet.target, law.pi, trial.world.links.mean_success())
    target, pi, success = (np.asarray(each, np.float64) for each in measured)
    weights = form(trial.strategy, Setting(trial, target, _clean(pi), _clean(success), _reach(trial)))
    return None if weights is None else weights / weights.sum()


def _clean(chances: np.ndarray) -> np.ndarray:
    """Chances just below 1, which single precision has rounded down, as exactly 1."""
    return np.where(chances > 1 - MAX_SPREAD, 1.0, chances)


def _reach(trial: Trial) -> np.ndarray:
    """Mean reach of each client's work."""
    compute = trial.world.compute
    table = trial.client.local.reach(jnp.arange(compute.most + 1), trial.local.rate(0), compute.most)
    return compute.mean_of(np.asarray(table, np.float64))


def _fedavg(strategy: strategies.FedAvg, setting: Setting) -> np.ndarray | None:
    share = _averaged(strategy, setting)
    return None if share is None else share * setting.reach


def _fednova(strategy: strategies.FedNova, setting: Setting) -> np.ndarray | None:
    """The reach cancels if the common length of the step does not depend on who came."""
    equal = np.ptp(setting.reach) <= MAX_SPREAD * setting.reach.max() and setting.trial.world.compute.common is not None
    return _averaged(strategy, setting) if equal or strategy.effective_steps is not None else None


def _averaged(strategy: strategies.FedAvg | strategies.FedNova, setting: Setting) -> np.ndarray | None:
    if strategy.normaliser == "draws":
        return effective_importance_sampling(setting.target, 1 - setting.success) if setting.all_there else None
    if strategy.cohort is not None:
        return None
    if strategy.normaliser == "all":
        return effective_raw(setting.arriving, setting.target)
    return setting.divided(setting.target)


def _adafed(strategy: strategies.AdaFed, setting: Setting) -> np.ndarray | None:
    """The divisor is the sum over the available clients, whether their update arrives or not."""
    if not setting.knows or not (setting.success == 1).all():
        return None
    share = setting.divided(setting.target / setting.pi)
    return None if share is None else share * setting.reach


def _over_available(strategy: Strategy[PyTree], setting: Setting) -> np.ndarray:
    return effective_raw(setting.arriving, setting.target, setting.reach)


def _remembered(strategy: Strategy[PyTree], setting: Setting) -> np.ndarray:
    """The latest update stands in for an absent client."""
    return setting.target * setting.reach


def _debiased(strategy: strategies.Debiased, setting: Setting) -> np.ndarray | None:
    """Only for batches of one size: otherwise the size depends on who is in the batch."""
    if not isinstance(setting.trial.world.availability, MinimumSeparation) or not (setting.success == 1).all():
        return None
    return setting.target * setting.reach


Form = Callable[[Any, Setting], np.ndarray | None]  # each takes strategies of its own kind
_FORMS: dict[type, Form] = {
    strategies.FedAvg: _fedavg,
    strategies.FedNova: _fednova,
    strategies.Unbiased: lambda _, s: effective_raw(s.arriving, s.target / s.pi, s.reach) if s.knows else None,
    strategies.MoreAvailable: lambda strategy, s: (
        np.where(np.float32(s.pi) >= np.float32(strategy.threshold), s.target * s.success * s.reach, 0.0)
        if s.knows
        else None
    ),
    strategies.AdaFed: _adafed,
    strategies.ImportanceSampling: _over_available,
    strategies.UniformSampling: _over_available,
    strategies.OptimalSampling: _over_available,
    strategies.NormSampling: _over_available,
    strategies.MIFA: _remembered,
    strategies.FedVARP: _remembered,
    strategies.FedLaAvg: _remembered,
    strategies.LastWord: lambda _, s: s.target,  # per unit of work, and fading alike for all in the long run
    strategies.Debiased: _debiased,
    strategies.FedACS: lambda _, s: s.target if s.knows and s.all_there else None,
    strategies.CAFedAvg: lambda _, s: s.target * s.reach if s.knows and s.all_there else None,
}
