"""Convolution, ReLU and pooling in one kernel that writes no patches, for an H100 or H200 (Pallas, by way of Triton).

For each channel and row of pixels an image is one line of numbers: pixel by pixel, and of each pixel the samples of the
batch. A neighbour is then a whole batch away, so that a tile of a line is a column block of a matrix product. A program
makes one tile of pooled outputs. It sums the products of each pixel of a pooling window by itself and keeps the
largest, with its place in the window: gradients need nothing but pooled outputs and places.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, UInt8

from turnout.tasks.models.windows import Kind, Patches, Ref, Tiles, Window, divide_whole, power_of_two, tiles_for

NOWHERE = 255  # the place of a maximum that ReLU cuts off


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def convolve_and_pool(
    window: Window,
    weight: Float[Array, "patch features"],
    bias: Float[Array, " features"],
    images: Float[Array, "channels height width batch"],
) -> Float[Array, "features down across batch"]:
    """The largest of every square of outputs of a convolution, or zero if all are negative."""
    return _outputs(window, weight, bias, images)[0]


def _forwards(window: Window, weight: Array, bias: Array, images: Array) -> tuple[Array, tuple[Array, ...]]:
    outputs, places = _outputs(window, weight, bias, images)
    return outputs, (weight, images, places)


def _backwards(window: Window, kept: tuple[Array, ...], gradient: Array) -> tuple[Array, Array, Array]:
    weight, images, places = kept
    counted = jnp.where(places == NOWHERE, 0.0, gradient.astype(jnp.float32))
    by_weight = _by_weight(window, images, gradient, places, weight.shape)
    return by_weight, counted.sum(axis=(1, 2, 3)), _by_images(window, weight, gradient, places, images.shape)


convolve_and_pool.defvjp(_forwards, _backwards)


# Long: the kernel and its call share their sizes.
def _outputs(window: Window, weight: Array, bias: Array, images: Array) -> tuple[Array, UInt8[Array, "..."]]:
    """Pooled outputs, and the place of each in its square."""
    channels, height, width, batch = images.shape
    features, (down, across) = weight.shape[1], window.pooled_size(height, width)
    tiles, options = _tile("outputs", window, channels)
    columns, rows = min(tiles.columns, power_of_two(across * batch)), min(tiles.rows, power_of_two(features))
    patches = Patches(window, images.shape, tiles)

    def kernel(weight_ref: Ref, bias_ref: Ref, image_ref: Ref, out_ref: Ref, place_ref: Ref) -> None:
        y, number = pl.program_id(0), pl.program_id(1) * columns + jnp.arange(columns)
        feature, inside = pl.program_id(2) * rows + jnp.arange(rows), number < across * batch
        real_feature = feature < features

        def add(turn: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            kernels = [
                triton.load(
                    weight_ref.at[at[:, None], feature[None, :]], mask=real[:, None] & real_feature[None, :], other=0.0
                )
                for at, real in patches.of_kernel(turn)
            ]
            added = list(sums)
            for square, which, pixels in patches.of_images(turn, image_ref, y, number, inside):
                added[square] += triton.dot(kernels[which].astype(pixels.dtype), pixels, trans_a=True)
            return tuple(added)

        nothing = (jnp.zeros((rows, columns), jnp.float32),) * window.pool**2
        sums = jax.lax.fori_loop(0, patches.turns, add, nothing)
        best, place = sums[0], jnp.zeros((rows, columns), jnp.int32)
        for square, total in enumerate(sums[1:], 1):
            best, place = jnp.maximum(total, best), jnp.where(total > best, square, place)
        best += triton.load(bias_ref.at[feature], mask=real_feature, other=0.0)[:, None]
        place, mask = jnp.where(best > 0, place, NOWHERE), real_feature[:, None] & inside[None, :]
        here = feature[:, None], y, number[None, :]
        triton.store(out_ref.at[here], jnp.maximum(best, 0.0).astype(images.dtype), mask=mask)
        triton.store(place_ref.at[here], place.astype(jnp.uint8), mask=mask)

    shape = (features, down, across * batch)
    outputs, places = pl.pallas_call(
        kernel,
        grid=(down, -(-across * batch // columns), -(-features // rows)),
        out_shape=(jax.ShapeDtypeStruct(shape, images.dtype), jax.ShapeDtypeStruct(shape, jnp.uint8)),
        name="convolve_and_pool",
        **options,
    )(weight, bias, images.reshape(channels, height, width * batch))
    return outputs.reshape(features, down, across, batch), places.reshape(features, down, across, batch)


# Long: the kernel and its call share their sizes.
def _by_images(window: Window, weight: Array, gradient: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """The gradient by the images: what each pixel did to the outputs whose kernel lay over it."""
    (channels, height, width, batch), (features, down, across) = shape, gradient.shape[:3]
    size, pool, padding = window.size, window.pool, window.padding
    tiles, options = _tile("images", window, channels)
    lines, length = -(-height // pool), -(-width // pool) * batch
    columns, rows = min(tiles.columns, power_of_two(length)), min(tiles.rows, power_of_two(channels))
    depth = min(tiles.rows, power_of_two(features))
    # Of an output whose square is `shift` squares away, and which lies `dx` pixels into it, which pixel `ex` of our own
    # square was seen by which column j of the kernel:
    sightings = {(ex - j + padding) // pool: [] for ex in range(pool) for j in range(size)}
    for ex in range(pool):
        for j in range(size):
            shift, dx = divmod(ex - j + padding, pool)
            sightings[shift].append((dx, ex, j))

    def kernel(weight_ref: Ref, gradient_ref: Ref, place_ref: Ref, out_ref: Ref) -> None:
        line, number = pl.program_id(0), pl.program_id(1) * columns + jnp.arange(columns)
        channel, (square, sample) = pl.program_id(2) * rows + jnp.arange(rows), divide_whole(number, batch)
        real_channel = channel < channels

        def add(turn: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            i, part = divide_whole(turn, -(-features // depth))
            feature, added = part * depth + jnp.arange(depth), list(sums)
            mask = real_channel[:, None] & (feature < features)[None, :]
            at = [(i * size + j) * channels + channel for j in range(size)]
            kernels = [triton.load(weight_ref.at[a[:, None], feature[None, :]], mask=mask, other=0.0) for a in at]
            kernels = [each.astype(gradient.dtype) for each in kernels]
            for ey in range(pool):
                y = pool * line + ey - i + padding  # of the output before pooling
                above, dy = divide_whole(jnp.maximum(y, 0), pool)
                for shift, pairs in sightings.items():
                    x = square + shift
                    inside = (x >= 0) & (x < across) & (y >= 0) & (y < pool * down)
                    here = (feature[:, None], above, (x * batch + sample)[None, :])
                    mask = (feature < features)[:, None] & inside[None, :]
                    value = triton.load(gradient_ref.at[here], mask=mask, other=0.0)
                    place = triton.load(place_ref.at[here], mask=mask, other=NOWHERE).astype(jnp.int32)
                    for dx, ex, j in pairs:
                        chosen = jnp.where(place == dy * pool + dx, value, jnp.zeros_like(value))
                        added[ey * pool + ex] += triton.dot(kernels[j], chosen)
            return tuple(added)

        nothing = (jnp.zeros((rows, columns), jnp.float32),) * pool**2
        sums = jax.lax.fori_loop(0, size * -(-features // depth), add, nothing)
        for place, total in enumerate(sums):
            y, x = pool * line + place // pool, pool * square + place % pool
            mask = real_channel[:, None] & ((x < width) & (y < height) & (number < length))[None, :]
            here = (channel[:, None], y, (x * batch + sample)[None, :])
            triton.store(out_ref.at[here], total.astype(gradient.dtype), mask=mask)

    flat = (features, down, across * batch)
    return pl.pallas_call(
        kernel,
        grid=(lines, -(-length // columns), -(-channels // rows)),
        out_shape=jax.ShapeDtypeStruct((channels, height, width * batch), gradient.dtype),
        name="convolve_and_pool_by_images",
        **options,
    )(weight, gradient.reshape(flat), places.reshape(flat)).reshape(shape)


# Long: the kernel and its call share their sizes.
def _by_weight(window: Window, images: Array, gradient: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """The gradient by the kernel: patches times gradients, summed over all pixels."""
    (channels, height, width, batch), (features, down, across) = images.shape, gradient.shape[:3]
    tiles, options = _tile("weight", window, channels)
    columns, rows = min(tiles.columns, power_of_two(across * batch)), min(tiles.rows, power_of_two(features))
    patches = Patches(window, images.shape, tiles)
    in_line, splits = -(-across * batch // columns), min(tiles.splits, down)
    lines = -(-down // splits)  # of one split

    def kernel(image_ref: Ref, gradient_ref: Ref, place_ref: Ref, out_ref: Ref) -> None:
        split, turn = pl.program_id(0), pl.program_id(1)
        feature = pl.program_id(2) * rows + jnp.arange(rows)
        real_feature = feature < features

        def add(tile: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            line, part = divide_whole(tile, in_line)
            y, number = split * lines + line, part * columns + jnp.arange(columns)
            inside, added = (number < across * batch) & (y < down), list(sums)
            here, mask = (feature[:, None], y, number[None, :]), real_feature[:, None] & inside[None, :]
            value = triton.load(gradient_ref.at[here], mask=mask, other=0.0)
            place = triton.load(place_ref.at[here], mask=mask, other=NOWHERE).astype(jnp.int32)
            chosen = [jnp.where(place == square, value, jnp.zeros_like(value)) for square in range(window.pool**2)]
            for square, which, pixels in patches.of_images(turn, image_ref, y, number, inside):
                added[which] += triton.dot(pixels, chosen[square], trans_b=True)
            return tuple(added)

        nothing = (jnp.zeros((patches.rows, rows), jnp.float32),) * len(patches.of_kernel(turn))
        sums = jax.lax.fori_loop(0, lines * in_line, add, nothing)
        for total, (at, real) in zip(sums, patches.of_kernel(turn), strict=True):
            mask = real[:, None] & real_feature[None, :]
            triton.store(out_ref.at[split, at[:, None], feature[None, :]], total, mask=mask)

    flat = (features, down, across * batch)
    parts = pl.pallas_call(
        kernel,
        grid=(splits, patches.turns, -(-features // rows)),
        out_shape=jax.ShapeDtypeStruct((splits, *shape), jnp.float32),
        name="convolve_and_pool_by_weight",
        **options,
    )(images.reshape(channels, height, width * batch), gradient.reshape(flat), places.reshape(flat))
    return parts.sum(axis=0)


def _tile(kind: Kind, window: Window, channels: int) -> tuple[Tiles, dict[str, Any]]:
    tiles = tiles_for(kind, channels, window.size)
    settings = triton.CompilerParams(num_warps=tiles.warps, num_stages=tiles.stages)
    return tiles, {"compiler_params": settings, "interpret": window.interpreted}
