"""Exact results and bounds as plain functions on arrays, in double precision."""

from turnout.theory.alternating import alternating_limit
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
from turnout.theory.bounds_last_word import LastWordBound, faded_distance, last_word_bound, longest_age
from turnout.theory.chains import is_reversible, period, require_ergodic, stationary_law
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
    effective_normalised,
    effective_raw,
    normalised_round_weights,
    normalised_round_weights_of_law,
)
from turnout.theory.mixing import mixing_time, total_variation_over_time
from turnout.theory.optimal_weights import fastest_value, fastest_weights, trade_off_value, trade_off_weights
from turnout.theory.order_chain import OrderChain, gap_law, order_chain, participation_law
from turnout.theory.products import (
    client_chains,
    product_chain,
    product_law,
    product_masks,
    product_mixing_bounds,
    product_second_eigenvalue,
)
from turnout.theory.returns import return_law
from turnout.theory.separation import minimum_separation, participation_probability, separation_curve
from turnout.theory.separation_gaps import mean_gap, shortest_gap
from turnout.theory.spectrum import eigenvalues, relaxation_time, second_eigenvalue, spectral_gap
from turnout.theory.terms import Terms
from turnout.theory.two_state import (
    autocorrelation,
    effective_rounds,
    feasible_correlation,
    integrated_autocorrelation_time,
    mean_off_run,
    mean_on_run,
    rate_and_correlation,
    two_state_mixing_time,
    variance_of_mean,
    wake_and_sleep,
)

__all__ = [
    "AlternatingBound",
    "BiasedOptimum",
    "CorrelatedBound",
    "ErrorDecomposition",
    "GradientDecomposition",
    "LastWordBound",
    "MarkovBound",
    "OrderChain",
    "SamplingBound",
    "StaleBound",
    "Terms",
    "alternating_limit",
    "autocorrelation",
    "bias_bound_chi_square",
    "bias_bound_total_variation",
    "biased_optimum",
    "biased_optimum_of_quadratics",
    "chi_square_to_effective",
    "chi_square_to_target",
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
    "fastest_value",
    "fastest_weights",
    "feasible_correlation",
    "fedacs_bound",
    "fedlaavg_alternating_bound",
    "fedlaavg_bound",
    "fedlaavg_learning_rate",
    "fedlaavg_local_steps_bound",
    "gap_law",
    "gradient_decomposition",
    "integrated_autocorrelation_time",
    "is_reversible",
    "kl_to_effective",
    "kl_to_target",
    "largest_sampling_step",
    "last_word_bound",
    "longest_age",
    "longest_staleness",
    "markov_bound",
    "mean_gap",
    "mean_off_run",
    "mean_on_run",
    "minimum_separation",
    "mixing_lags",
    "mixing_time",
    "normalised_round_weights",
    "normalised_round_weights_of_law",
    "order_chain",
    "participation_law",
    "participation_probability",
    "period",
    "product_chain",
    "product_law",
    "product_masks",
    "product_mixing_bounds",
    "product_second_eigenvalue",
    "rate_and_correlation",
    "relaxation_time",
    "require_ergodic",
    "return_law",
    "sampling_bound",
    "second_eigenvalue",
    "separation_curve",
    "shortest_gap",
    "spectral_gap",
    "stationary_law",
    "surrogate_bound",
    "total_variation",
    "total_variation_over_time",
    "trade_off_value",
    "trade_off_weights",
    "two_state_mixing_time",
    "variance_of_mean",
    "wake_and_sleep",
]
