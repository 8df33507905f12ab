"""Exact results and bounds as plain functions on arrays, in double precision."""

from turnout.theory.biased_optimum import BiasedOptimum, biased_optimum, biased_optimum_of_quadratics
from turnout.theory.bounds_ca_fed import MarkovBound, markov_bound, mixing_lags
from turnout.theory.bounds_fedacs import (
    SamplingBound,
    fedacs_bound,
    largest_sampling_step,
    sampling_bound,
    surrogate_bound,
)
from turnout.theory.bounds_fedavg import CorrelatedBound, correlated_fedavg_bound
from turnout.theory.bounds_fedlaavg import (
    AlternatingBound,
    StaleBound,
    fedlaavg_alternating_bound,
    fedlaavg_bound,
    fedlaavg_learning_rate,
    fedlaavg_local_steps_bound,
    longest_staleness,
)
from turnout.theory.decomposition import (
    ErrorDecomposition,
    GradientDecomposition,
    bias_bound_chi_square,
    bias_bound_total_variation,
    error_decomposition,
    gradient_decomposition,
)
from turnout.theory.distances import (
    chi_square_to_effective,
    chi_square_to_target,
    kl_to_effective,
    kl_to_target,
    total_variation,
)
from turnout.theory.effective_weights import (
    effective_c_a_fedavg,
    effective_debiased,
    effective_fedacs,
    effective_fednova,
    effective_importance_sampling,
    effective_minimum_separation,
    effective_normalised,
    effective_raw,
    normalised_round_weights,
    normalised_round_weights_of_law,
)
from turnout.theory.optimal_weights import fastest_value, fastest_weights, trade_off_value, trade_off_weights
from turnout.theory.terms import Terms

__all__ = [
    "AlternatingBound",
    "BiasedOptimum",
    "CorrelatedBound",
    "ErrorDecomposition",
    "GradientDecomposition",
    "MarkovBound",
    "SamplingBound",
    "StaleBound",
    "Terms",
    "bias_bound_chi_square",
    "bias_bound_total_variation",
    "biased_optimum",
    "biased_optimum_of_quadratics",
    "chi_square_to_effective",
    "chi_square_to_target",
    "correlated_fedavg_bound",
    "effective_c_a_fedavg",
    "effective_debiased",
    "effective_fedacs",
    "effective_fednova",
    "effective_importance_sampling",
    "effective_minimum_separation",
    "effective_normalised",
    "effective_raw",
    "error_decomposition",
    "fastest_value",
    "fastest_weights",
    "fedacs_bound",
    "fedlaavg_alternating_bound",
    "fedlaavg_bound",
    "fedlaavg_learning_rate",
    "fedlaavg_local_steps_bound",
    "gradient_decomposition",
    "kl_to_effective",
    "kl_to_target",
    "largest_sampling_step",
    "longest_staleness",
    "markov_bound",
    "mixing_lags",
    "normalised_round_weights",
    "normalised_round_weights_of_law",
    "sampling_bound",
    "surrogate_bound",
    "total_variation",
    "trade_off_value",
    "trade_off_weights",
]
