"""Quadratics: the tasks whose optimum, and whose biased optimum, are known exactly (Weng et al. 2025, example 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from turnout.declarations import Count, Numbers, Seed, checked
from turnout.declarations.kinds import as_array
from turnout.metrics import TRAIN_LOSS
from turnout.tasks.arrays import Importance, importance_of
from turnout.tasks.base import Task, in_a_line
from turnout.tasks.data.checks import check_amount
from turnout.types import Params, PerClient, RandomKey, divide

Point = Float[Array, " dimension"]
QuadraticBatch = tuple[Int[Array, " batch"], Float[Array, "batch dimension"]]


class Quadratics(Task):
    """Minimise Σ α_m F_m with F_m(x) = ½ (x − E_m)ᵀ H_m (x − E_m).

    The curvature H_m is one number per client (times the identity), a diagonal, or a whole matrix, symmetric and
    positive definite. A client's samples differ by the term ⟨offset, x − E_m⟩, so their gradients are noisy; the
    offsets sum to zero, so the mean over the samples is F_m exactly.

    Deviation: for a general H_m their appendix C writes E_m for H_m times the minimiser; here E_m is the minimiser.
    """

    centres: Float[Array, "clients dimension"]  # E
    curvature: (
        Float[Array, " clients"] | Float[Array, "clients dimension"] | Float[Array, "clients dimension dimension"]
    )
    offsets: Float[Array, "samples dimension"]
    worth: PerClient  # ω, up to a common factor
    start: Point

    @classmethod
    def of(
        cls,
        centres: object,
        curvature: object = 1.0,
        offsets: object = None,
        importance: Importance = "uniform",
        start: object = None,
    ) -> Quadratics:
        """Quadratics from plain arrays or nested lists; one number for the curvature holds for all clients."""
        points = check_finite("centres", centres, (2,))
        num_clients, dimension = points.shape
        bends = check_curvature(check_finite("curvature", curvature, (0, 1, 2, 3)), num_clients, dimension)
        noise = np.zeros((1, dimension)) if offsets is None else check_finite("offsets", offsets, (2,))
        return cls(
            centres=jnp.asarray(points, jnp.float32),
            curvature=jnp.asarray(bends, jnp.float32),
            offsets=jnp.asarray(noise - noise.mean(axis=0), jnp.float32),
            worth=importance_of(importance, np.ones(num_clients)),
            start=jnp.asarray(
                np.zeros(dimension) if start is None else check_finite("start", start, (1,)), jnp.float32
            ),
        )

    def __repr__(self) -> str:
        return in_a_line(self, {"clients": self.worth, "dimensions": self.start})

    @property
    def sizes(self) -> Int[Array, " clients"]:
        return jnp.full(self.centres.shape[0], self.offsets.shape[0], jnp.int32)

    @property
    def importance(self) -> PerClient:
        return self.worth

    def init(self, key: RandomKey) -> Params:
        return self.start

    def batch(self, client: Int[Array, ""], positions: Int[Array, " batch"]) -> QuadraticBatch:
        return jnp.full_like(positions, client), self.offsets[positions]

    def loss(self, params: Point, batch: QuadraticBatch, present: Float[Array, " batch"]) -> Float[Array, ""]:
        clients, offsets = batch
        gap = params - self.centres[clients[0]]
        noise = divide(jnp.sum(present[:, None] * offsets * gap[None, :]), jnp.sum(present))
        value = 0.5 * jnp.sum(gap * bend(self.curvature[clients[0]], gap)) + noise
        return jnp.where(jnp.any(present > 0), value, 0.0)

    def per_client(self, params: Point) -> dict[str, PerClient]:
        gaps = params[None, :] - self.centres
        return {TRAIN_LOSS: 0.5 * jnp.sum(gaps * bend_all(self.curvature, gaps), axis=1)}

    def minimiser(self, weights: PerClient) -> Point:
        """Minimum of Σ w_m F_m, the model that a strategy with effective weights w is drawn to."""
        share = (weights / jnp.sum(weights))[:, None]
        pull = jnp.sum(share * bend_all(self.curvature, self.centres), axis=0)
        if self.curvature.ndim == 3:
            return jnp.linalg.solve(jnp.einsum("m,mij->ij", share[:, 0], self.curvature, precision="highest"), pull)
        curvature = self.curvature[:, None] if self.curvature.ndim == 1 else self.curvature
        return pull / jnp.broadcast_to(jnp.sum(share * curvature, axis=0), pull.shape)

    @property
    def optimum(self) -> Params:
        return self.minimiser(self.worth)


def bend(curvature: Array, gap: Point) -> Point:
    """H v for one client's curvature, be it a number, a diagonal or a matrix."""
    return jnp.matmul(curvature, gap, precision="highest") if curvature.ndim == 2 else curvature * gap


def bend_all(curvature: Array, gaps: Float[Array, "clients dimension"]) -> Float[Array, "clients dimension"]:
    """H_m v_m for every client."""
    if curvature.ndim == 3:
        return jnp.einsum("mij,mj->mi", curvature, gaps, precision="highest")
    return (curvature[:, None] if curvature.ndim == 1 else curvature) * gaps


def check_finite(name: str, values: object, ranks: tuple[int, ...]) -> np.ndarray:
    numbers = as_array(values)
    if numbers is None or numbers.dtype.kind == "b":
        raise TypeError(f"{name} must be numbers, not {type(values).__name__}")
    array = numbers.astype(np.float64)
    if array.ndim not in ranks or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} has shape {array.shape}; it must be a finite array of rank {' or '.join(map(str, ranks))}"
        )
    return array


def check_curvature(curvature: np.ndarray, num_clients: int, dimension: int) -> np.ndarray:
    """The curvature with one row per client; a ValueError if it is not symmetric and positive definite."""
    if curvature.ndim == 0:
        curvature = np.full(num_clients, curvature)
    shapes = [(num_clients,), (num_clients, dimension), (num_clients, dimension, dimension)]
    if curvature.shape not in shapes:
        raise ValueError(f"curvature has shape {curvature.shape}; it must be a number or one of {shapes}")
    if curvature.ndim == 3 and not np.allclose(curvature, curvature.swapaxes(1, 2)):
        raise ValueError("curvature is not symmetric; give (H + Hᵀ) / 2")
    smallest = np.linalg.eigvalsh(curvature).min() if curvature.ndim == 3 else curvature.min()
    if smallest <= 0:
        raise ValueError(f"curvature has the eigenvalue {smallest:g}; all must be positive")
    return curvature


@checked
def quadratics(  # noqa: PLR0913 (the keys of a task's table)
    num_clients: Count = 20,
    dimension: Count = 10,
    curvature: float | Sequence[float] = 1.0,
    condition: Annotated[float, Numbers(1, 1e18)] = 1.0,
    spread: Annotated[float, Numbers(0, 1e18)] = 1.0,
    centres: Sequence[Sequence[float]] | None = None,
    noise: Annotated[float, Numbers(0, 1e18)] = 0.0,
    num_samples: Count | None = None,
    importance: Literal["uniform"] | Sequence[float] = "uniform",
    seed: Seed = 0,
) -> Quadratics:
    """Quadratics with centres E_m ~ N(0, spread² I), or with the given ones, which then say how many clients there are.

    `curvature` is the largest eigenvalue of each H_m, for all or one per client, and `condition` its ratio to the
    smallest; where that is not 1, eigenvalues are spaced evenly in the logarithm and axes are drawn for each client.
    `noise` is the standard deviation of each coordinate of a sample's gradient over the client's `num_samples` samples,
    100 of them if not given.
    """
    check_amount(clients=num_clients, entries_each=dimension if condition == 1 else dimension**2)
    check_amount(samples=num_samples or 1, dimensions=dimension)
    generator = np.random.default_rng(seed)
    drawn = spread * generator.standard_normal((num_clients, dimension))
    points = drawn if centres is None else check_finite("centres", centres, (2,))
    return Quadratics.of(
        points,
        curvature if condition == 1 else draw_curvature(points.shape, curvature, condition, generator),
        draw_offsets(num_samples, points.shape[1], noise, generator),
        importance,
    )


def draw_curvature(
    shape: tuple[int, ...], largest: float | Sequence[float], condition: float, generator: np.random.Generator
) -> np.ndarray:
    num_clients, dimension = shape
    axes, _ = np.linalg.qr(generator.standard_normal((num_clients, dimension, dimension)))
    spectrum = np.geomspace(1.0, 1.0 / condition, dimension)
    each = np.asarray(largest, np.float64)
    if each.shape not in ((), (num_clients,)):
        raise ValueError(f"curvature must be one number or {num_clients}, one per client, not of shape {each.shape}")
    scale = np.broadcast_to(each, num_clients)[:, None, None]
    matrices = scale * ((axes * spectrum) @ axes.swapaxes(1, 2))
    return (matrices + matrices.swapaxes(1, 2)) / 2


def draw_offsets(num_samples: int | None, dimension: int, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Offsets whose mean is zero and whose standard deviation is `noise`, exactly, in each coordinate."""
    count = (100 if noise else 1) if num_samples is None else num_samples
    if count < (2 if noise else 1):
        raise ValueError(f"num_samples is {count}; it must be at least 1, and at least 2 for gradients to be noisy")
    offsets = generator.standard_normal((count, dimension))
    offsets -= offsets.mean(axis=0)
    return offsets * (noise / offsets.std(axis=0)) if noise else np.zeros_like(offsets)
