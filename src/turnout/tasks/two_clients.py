"""Two clients with different optima: example 1 of FedLaAvg's paper, where FedAvg ends arbitrarily far off."""

from turnout.declarations import checked
from turnout.tasks.quadratics import Quadratics


@checked
def two_clients(first: float = 0.0, second: float = 1.0, start: float = 0.0) -> Quadratics:
    """Two clients with f_i(x) = (x − e_i)²: e_1 is `first`, e_2 is `second`, and the optimum is half-way."""
    return Quadratics.of([[first], [second]], curvature=2.0, start=[start])
