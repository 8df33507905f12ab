"""Exact results and bounds as plain functions on arrays, in double precision.

A bound is returned as its terms, see `Terms`.
"""

from turnout.theory.biased_optimum import biased_optimum, biased_optimum_of_quadratics
from turnout.theory.bounds_ca_fed import markov_bound
from turnout.theory.bounds_fedacs import fedacs_bound, largest_sampling_step, sampling_bound
from turnout.theory.bounds_fedavg import correlated_fedavg_bound
from turnout.theory.bounds_fedlaavg import (
    alternating_limit,
    fedlaavg_alternating_bound,
    fedlaavg_bound,
    fedlaavg_learning_rate,
    longest_staleness,
)
from turnout.theory.bounds_last_word import faded_distance, last_word_bound, longest_age
from turnout.theory.chains import is_reversible, period, stationary_law
from turnout.theory.decomposition import (
    bias_bound_chi_square,
    bias_bound_total_variation,
    error_decomposition,
    gradient_decomposition,
)
from turnout.theory.distances import chi_square_to_effective, kl_to_effective, total_variation
from turnout.theory.effective_weights import (
    effective_c_a_fedavg,
    effective_debiased,
    effective_fedacs,
    effective_fednova,
    effective_importance_sampling,
    effective_normalised,
    effective_raw,
    normalised_round_weights,
    normalised_round_weights_of_law,
)
from turnout.theory.mixing import mixing_time, return_law, total_variation_over_time
from turnout.theory.optimal_weights import fastest_weights, trade_off_weights
from turnout.theory.order_chain import gap_law, order_chain, participation_law
from turnout.theory.products import client_chains, product_chain, product_masks, product_mixing_bounds
from turnout.theory.separation import mean_gap, minimum_separation, separation_curve, shortest_gap
from turnout.theory.spectrum import eigenvalues, second_eigenvalue
from turnout.theory.terms import Terms
from turnout.theory.two_state import (
    effective_rounds,
    feasible_correlation,
    mean_off_run,
    mean_on_run,
    two_state_mixing_time,
    variance_of_mean,
    wake_and_sleep,
)

__all__ = [
    "Terms",
    "alternating_limit",
    "bias_bound_chi_square",
    "bias_bound_total_variation",
    "biased_optimum",
    "biased_optimum_of_quadratics",
    "chi_square_to_effective",
    "client_chains",
    "correlated_fedavg_bound",
    "effective_c_a_fedavg",
    "effective_debiased",
    "effective_fedacs",
    "effective_fednova",
    "effective_importance_sampling",
    "effective_normalised",
    "effective_raw",
    "effective_rounds",
    "eigenvalues",
    "error_decomposition",
    "faded_distance",
    "fastest_weights",
    "feasible_correlation",
    "fedacs_bound",
    "fedlaavg_alternating_bound",
    "fedlaavg_bound",
    "fedlaavg_learning_rate",
    "gap_law",
    "gradient_decomposition",
    "is_reversible",
    "kl_to_effective",
    "largest_sampling_step",
    "last_word_bound",
    "longest_age",
    "longest_staleness",
    "markov_bound",
    "mean_gap",
    "mean_off_run",
    "mean_on_run",
    "minimum_separation",
    "mixing_time",
    "normalised_round_weights",
    "normalised_round_weights_of_law",
    "order_chain",
    "participation_law",
    "period",
    "product_chain",
    "product_masks",
    "product_mixing_bounds",
    "return_law",
    "sampling_bound",
    "second_eigenvalue",
    "separation_curve",
    "shortest_gap",
    "stationary_law",
    "total_variation",
    "total_variation_over_time",
    "trade_off_weights",
    "two_state_mixing_time",
    "variance_of_mean",
    "wake_and_sleep",
]
