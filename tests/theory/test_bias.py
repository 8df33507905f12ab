import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.theory import (
    bias_bound_chi_square,
    bias_bound_total_variation,
    biased_optimum_of_quadratics,
    chi_square_to_effective,
    error_decomposition,
    gradient_decomposition,
)


def random_quadratics(seed, count=4, dimension=3, condition=5.0):
    generator = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(generator.standard_normal((count, dimension, dimension)))
    spectrum = np.exp(generator.uniform(0, np.log(condition), (count, dimension)))
    curvature = (axes * spectrum[:, None, :]) @ axes.swapaxes(1, 2)
    curvature = (curvature + curvature.swapaxes(1, 2)) / 2
    eigenvalues = np.linalg.eigvalsh(curvature)
    kappa = eigenvalues.max() / eigenvalues.min()
    centres = generator.standard_normal((count, dimension))
    target, effective = generator.dirichlet(np.ones(count), 2) + 1e-3
    return centres, curvature, float(kappa), target / target.sum(), effective / effective.sum(), generator


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_the_bounds_of_rodio_et_al_hold_for_quadratics(seed, sharp):
    centres, curvature, kappa, target, effective, generator = random_quadratics(seed)
    truth = biased_optimum_of_quadratics(centres, curvature, target, effective)
    w = truth.minimiser + generator.standard_normal(3)

    def objective(weights, at):
        gaps = at - centres
        return weights @ np.einsum("ki,kij,kj->k", gaps, curvature, gaps) / 2

    left = objective(effective, w) - objective(effective, truth.minimiser)
    error = objective(target, w) - objective(target, truth.target_minimiser)
    assert truth.bias_error == pytest.approx(
        objective(target, truth.minimiser) - objective(target, truth.target_minimiser), abs=1e-12
    )
    assert error <= error_decomposition(float(left), truth.bias_error, kappa, sharp).total * (1 + 1e-9)
    assert truth.bias_error <= bias_bound_chi_square(target, effective, kappa, truth.heterogeneity, sharp)
    assert truth.bias_error <= bias_bound_total_variation(target, effective, kappa, truth.biased_heterogeneity, sharp)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_the_bound_of_weng_et_al_holds_at_any_point(seed):
    centres, curvature, _, target, effective, generator = random_quadratics(seed)
    points = 3 * generator.standard_normal((5, 3))
    gradients = np.einsum("kij,pkj->pki", curvature, points[:, None, :] - centres)
    trained, wanted = (np.einsum("k,pki->pi", share, gradients) for share in (effective, target))
    surrogate = (trained**2).sum(1).mean()
    # β = 1 and the κ² that these points need.
    kappa = np.sqrt(max(0.0, (np.einsum("k,pki->p", effective, gradients**2) - (trained**2).sum(1)).max()))
    bound = gradient_decomposition(target, effective, float(surrogate), float(kappa))
    assert (wanted**2).sum(1).mean() <= bound.total * (1 + 1e-9)


def test_terms_by_hand():
    parts = error_decomposition(0.5, 0.25, condition=3.0)
    assert (parts.optimisation, parts.bias, parts.total, parts.ruling) == (9.0, 4.5, 13.5, "optimisation")
    assert error_decomposition(0.5, 0.25, 3.0, sharp=True).total == 4.5
    assert bias_bound_chi_square([1, 1], [3, 1], 2.0, 6.0) == pytest.approx(4 * 6 / 3)
    assert bias_bound_total_variation([1, 1], [3, 1], 2.0, 6.0) == pytest.approx(4 * 4 * 6 / 16)
    assert bias_bound_chi_square([1, 1], [1, 0], 2.0, 1.0) == np.inf
    assert bias_bound_chi_square([1, 1], [1, 0], 2.0, 0.0) == 0.0
    parts = gradient_decomposition([1, 1], [3, 1], surrogate_error=0.75, dissimilarity=3.0, dissimilarity_slope=2.0)
    assert parts.named() == pytest.approx({"surrogate": 0.75, "inconsistency": 4.0, "cross": 2 * np.sqrt(3)})


def test_the_two_client_example_reaches_the_bound():
    """Weng et al., appendix G.3: with β = 1 and κ² = 4 Ω_1 Ω_2 e² the gradient at the surrogate's minimum is χ² κ²."""
    share, e = np.array([0.2, 0.8]), 3.0
    truth = biased_optimum_of_quadratics(np.array([[-e], [e]]), 1.0, [1, 1], share)
    kappa = np.sqrt(4 * share.prod()) * e
    bound = gradient_decomposition([1, 1], share, surrogate_error=0.0, dissimilarity=kappa)
    assert truth.minimiser[0] ** 2 == pytest.approx(bound.total)
    assert bound.total == pytest.approx(chi_square_to_effective([1, 1], share) * kappa**2)


@pytest.mark.parametrize("shape", ["number", "clients", "diagonals", "matrices"])
def test_every_form_of_curvature(shape):
    centres, curvature, _, target, effective, generator = random_quadratics(7)
    per_client = generator.uniform(1, 2, 4)
    given_form, matrices = {
        "number": (2.0, np.broadcast_to(2 * np.eye(3), (4, 3, 3))),
        "clients": (per_client, per_client[:, None, None] * np.eye(3)),
        "diagonals": (np.abs(centres) + 1, (np.abs(centres) + 1)[:, :, None] * np.eye(3)),
        "matrices": (curvature, curvature),
    }[shape]
    found = biased_optimum_of_quadratics(centres, given_form, target, effective)
    slope = np.einsum("k,kij,kj->i", effective, matrices, found.minimiser - centres)
    assert slope == pytest.approx(np.zeros(3), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: error_decomposition(1.0, 1.0, 0.5), "condition must be a finite number of 1 or more"),
        (lambda: error_decomposition(-1.0, 1.0, 2.0), "optimisation_error must be a finite number of 0 or more"),
        (lambda: gradient_decomposition([1, 1], [1, 1], 1.0, 1.0, 0.5), "β is at least 1"),
        (lambda: biased_optimum_of_quadratics(np.ones((2, 1)), -1.0, [1, 1], [1, 1]), "eigenvalue -1"),
        (lambda: biased_optimum_of_quadratics(np.ones((2, 1)), np.ones(3), [1, 1], [1, 1]), "curvature has shape"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
