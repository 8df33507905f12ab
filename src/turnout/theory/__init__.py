"""Theory one can call: plain functions on arrays, in double precision."""

from turnout.theory.chains import is_reversible, period, require_ergodic, stationary_law
from turnout.theory.gaps import mean_gap, shortest_gap
from turnout.theory.mixing import mixing_time, total_variation
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
from turnout.theory.spectrum import eigenvalues, relaxation_time, second_eigenvalue, spectral_gap
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
    "OrderChain",
    "autocorrelation",
    "client_chains",
    "effective_rounds",
    "eigenvalues",
    "feasible_correlation",
    "gap_law",
    "integrated_autocorrelation_time",
    "is_reversible",
    "mean_gap",
    "mean_off_run",
    "mean_on_run",
    "minimum_separation",
    "mixing_time",
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
    "second_eigenvalue",
    "separation_curve",
    "shortest_gap",
    "spectral_gap",
    "stationary_law",
    "total_variation",
    "two_state_mixing_time",
    "variance_of_mean",
    "wake_and_sleep",
]
