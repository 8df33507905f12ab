"""Exact results and bounds as plain functions on arrays, in double precision.

A bound is returned as its terms, see `Terms`.
"""

from turnout.theory.bias import (
    bias_bound_chi_square,
    bias_bound_total_variation,
    biased_optimum_of_quadratics,
    chi_square_to_effective,
    effective_importance_sampling,
    effective_normalised,
    effective_raw,
    error_decomposition,
    gradient_decomposition,
    kl_to_effective,
    normalised_round_weights,
    normalised_round_weights_of_law,
    total_variation,
)
from turnout.theory.bounds_correlated import correlated_fedavg_bound, markov_bound
from turnout.theory.bounds_fedacs import fedacs_bound, largest_sampling_step, sampling_bound
from turnout.theory.bounds_last_word import faded_distance, last_word_bound, longest_age, retirement_age, word_left
from turnout.theory.bounds_memory import (
    alternating_limit,
    fedlaavg_alternating_bound,
    fedlaavg_bound,
    fedlaavg_learning_rate,
    longest_staleness,
)
from turnout.theory.chains import (
    is_reversible,
    mixing_time,
    period,
    return_law,
    stationary_law,
    total_variation_over_time,
)
from turnout.theory.separation import (
    gap_law,
    mean_gap,
    minimum_separation,
    order_chain,
    participation_law,
    separation_curve,
    shortest_gap,
)
from turnout.theory.spectrum import eigenvalues, second_eigenvalue
from turnout.theory.terms import Terms
from turnout.theory.time.ages_of_words import word_ages
from turnout.theory.time.arrivals import effective_in_time, unbiased_coefficients, weighing_efficiency
from turnout.theory.time.buffered import buffered_arrivals
from turnout.theory.time.choosing import fair_odds, most_at_work_by_choice, queued_rates
from turnout.theory.time.clocked import clocked_arrivals
from turnout.theory.time.mixed_model import fedasync_model
from turnout.theory.time.pace import pace_arrivals
from turnout.theory.time.rounds import round_arrivals
from turnout.theory.time.work import work_times
from turnout.theory.two_state import (
    client_chains,
    effective_rounds,
    mean_off_run,
    mean_on_run,
    product_chain,
    product_masks,
    product_mixing_bounds,
    variance_of_mean,
    wake_and_sleep,
)

__all__ = ["Terms"]
# Bias.
__all__ += ["effective_importance_sampling", "effective_normalised", "effective_raw", "normalised_round_weights"]
__all__ += ["chi_square_to_effective", "kl_to_effective", "normalised_round_weights_of_law", "total_variation"]
__all__ += ["bias_bound_chi_square", "bias_bound_total_variation", "biased_optimum_of_quadratics"]
__all__ += ["alternating_limit", "error_decomposition", "gradient_decomposition"]
# Chains.
__all__ += ["effective_rounds", "mean_off_run", "mean_on_run"]
__all__ += ["client_chains", "product_chain", "product_masks", "product_mixing_bounds", "variance_of_mean"]
__all__ += ["eigenvalues", "is_reversible", "mixing_time", "period", "return_law", "second_eigenvalue"]
__all__ += ["stationary_law", "total_variation_over_time", "wake_and_sleep"]
# Minimum separation.
__all__ += ["gap_law", "mean_gap", "minimum_separation", "order_chain", "participation_law", "separation_curve"]
__all__ += ["shortest_gap"]
# Bounds.
__all__ += ["correlated_fedavg_bound", "fedacs_bound", "fedlaavg_alternating_bound", "fedlaavg_bound"]
__all__ += ["last_word_bound", "markov_bound", "sampling_bound"]
__all__ += ["faded_distance", "fedlaavg_learning_rate", "largest_sampling_step", "longest_age", "longest_staleness"]
__all__ += ["retirement_age", "word_left"]
# Work that takes time.
__all__ += ["buffered_arrivals", "clocked_arrivals", "pace_arrivals", "round_arrivals", "work_times"]
__all__ += ["effective_in_time", "fair_odds", "most_at_work_by_choice", "queued_rates", "unbiased_coefficients"]
__all__ += ["fedasync_model", "weighing_efficiency", "word_ages"]
