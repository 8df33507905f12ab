"""Where plain averaging ends when two clients take turns (Yan et al. 2020, example 1)."""

from __future__ import annotations

import numpy as np

from turnout.arguments import at_least, check_step


def alternating_limit(
    *, learning_rate: float, first_stay: int, second_stay: int, centres: tuple[float, float]
) -> float:
    """Model of FedAvg after the second client's turn, in the long run; exact gradients of f_i(x) = (x − e_i)².

    Client 1 is available for t_1 rounds, then client 2 for t_2, and so on; a round is one step of rate γ < ½. A turn of
    t rounds shrinks the distance to e_i by s^t, s = 1 − 2γ. So the fixed point of a period is

        x = e_2 + (e_1 − e_2) s^{t_2} (1 − s^{t_1}) / (1 − s^{t_1 + t_2}).

    As γ → 0 it tends to (t_1 e_1 + t_2 e_2) / (t_1 + t_2), equation 16 of the paper. The optimum is (e_1 + e_2) / 2.
    """
    check_step("learning_rate", learning_rate, float(np.nextafter(0.5, 0.0)), "the two-client example")
    first, second = at_least("first_stay", first_stay, 1), at_least("second_stay", second_stay, 1)
    shrink = np.log1p(-2 * learning_rate)  # log s, without cancellation where the step is small
    share = np.exp(second * shrink) * np.expm1(first * shrink) / np.expm1((first + second) * shrink)
    return float(centres[1] + (centres[0] - centres[1]) * share)
