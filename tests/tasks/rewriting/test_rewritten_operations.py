"""Every form of convolution and pooling gives the numbers and the gradients of the operation as it was written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from same_numbers import assert_same, names, numbers, rewritten

from turnout.tasks.models.rewriting.rewrite import reasons

LAST, FIRST, INNER = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("CHWN", "IHWO", "CHWN")


def convolution(strides=(1, 1), padding="SAME", axes=LAST, **more):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=axes, **more)


IMAGES, KERNEL = numbers(0, 3, 8, 9, 4), numbers(1, 3, 2, 4, 5)
SQUARE = numbers(2, 3, 3, 4, 5)

FORMS = {
    "stride": [convolution((2, 2)), convolution((2, 1), "VALID"), convolution((3, 4), "SAME")],
    "padding": [convolution(padding=pad) for pad in ("VALID", ((2, 0), (1, 3)))],
    "dilation": [convolution(rhs_dilation=(2, 1)), convolution((2, 2), rhs_dilation=(2, 3))],
    "transposed": [
        convolution(padding=((2, 2), (1, 2)), lhs_dilation=(2, 2)),
        convolution((2, 1), ((1, 1), (1, 1)), lhs_dilation=(1, 3)),
    ],
    "side by side": [convolution((3, 2), "VALID")],
}


@pytest.mark.parametrize("form", FORMS)
def test_strides_paddings_and_dilations(form):
    assert_same(*((function, (IMAGES, KERNEL)) for function in FORMS[form]))


def test_negative_padding_crops():
    """Beside a crop by hand: the compiler's own reads beyond its images on a CPU (jaxlib 0.10.2)."""
    cropped = convolution(padding=((0, 1), (0, 0)))(IMAGES[:, 1:, :-2], KERNEL)
    found = rewritten(convolution(padding=((-1, 1), (0, -2))))(IMAGES, KERNEL)
    np.testing.assert_allclose(found, cropped, atol=1e-5)


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_and_depthwise_convolutions(groups):
    functions = [convolution(feature_group_count=groups), convolution((2, 2), "VALID", feature_group_count=groups)]
    assert_same(*((function, (IMAGES, numbers(3, 3, 3, 4 // groups, 2 * groups))) for function in functions))


@pytest.mark.parametrize("axes", [FIRST, INNER, ("NHWC", "OIHW", "CHWN"), ("HWNC", "HWIO", "NCHW")])
def test_every_order_of_axes(axes):
    sizes, kernel = {"N": 3, "H": 8, "W": 9, "C": 4}, {"H": 3, "W": 2, "I": 4, "O": 5}
    images = numbers(4, *(sizes[axis] for axis in axes[0]))
    weights = numbers(5, *(kernel[axis] for axis in axes[1]))
    assert_same((convolution((2, 1), axes=axes), (images, weights)))


def test_convolutions_of_one_three_and_no_axes_of_space():
    axes = {1: ("NWC", "WIO", "NWC"), 3: ("NCDHW", "OIDHW", "NCDHW"), 0: ("NC", "IO", "NC")}
    images = {1: numbers(0, 3, 9, 4), 3: numbers(0, 2, 3, 5, 4, 6), 0: numbers(0, 3, 4)}
    kernels = {1: numbers(1, 3, 4, 5), 3: numbers(1, 2, 3, 2, 3, 2), 0: numbers(1, 4, 5)}
    assert_same(*((convolution((1,) * n, "VALID", axes[n]), (images[n], kernels[n])) for n in axes))


def test_one_pixel_one_sample_and_a_kernel_as_large_as_the_image():
    small, whole = numbers(0, 1, 3, 3, 4), convolution(padding="VALID")
    assert_same(
        (whole, (small, SQUARE)), (convolution(), (numbers(1, 1, 1, 1, 4), SQUARE)), (convolution(), (small, SQUARE))
    )


def test_sixteen_bits_are_summed_in_thirty_two():
    images, weights = IMAGES.astype(jnp.bfloat16), SQUARE.astype(jnp.bfloat16)
    function = convolution()
    before, after = function(images, weights), rewritten(function)(images, weights)
    assert after.dtype == jnp.bfloat16
    before, after = before.astype(jnp.float32), after.astype(jnp.float32)
    exact = function(images.astype(jnp.float32), weights.astype(jnp.float32))
    assert float(jnp.abs(after - exact).max()) <= 1.1 * float(jnp.abs(before - exact).max()) + 1e-6


def pooling(combine, start, window, strides, padding="VALID", **more):
    return lambda x: lax.reduce_window(x, start, combine, window, strides, padding, **more)


POOLINGS = {
    "side by side": ((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "side by side, padded": ((1, 2, 3, 1), (1, 2, 3, 1), "SAME"),
    "overlapping": ((1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
    "overlapping, padded by hand": ((1, 3, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 2), (1, 0), (0, 0))),
    "gaps between windows": ((1, 2, 1, 1), (1, 3, 2, 1), "VALID"),
    "the whole image": ((1, 8, 9, 1), (1, 1, 1, 1), "VALID"),
    "samples and channels too": ((2, 2, 1, 2), (1, 2, 1, 2), "VALID"),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_poolings(name):
    kinds = [(lax.max, -jnp.inf), (lax.min, jnp.inf), (lax.add, 0.0)]
    assert_same(*((pooling(*kind, *POOLINGS[name]), (IMAGES,)) for kind in kinds), leaves_none=False)
    found = names(rewritten(pooling(lax.max, -jnp.inf, *POOLINGS[name])), IMAGES)
    assert not any(part.startswith("reduce_window") for part in found)


def test_a_sum_with_distances_in_its_window():
    assert_same((pooling(lax.add, 0.0, (1, 2, 2, 1), (1, 1, 2, 1), window_dilation=(1, 2, 3, 1)), (IMAGES,)))


def test_the_first_of_equal_numbers_in_overlapping_windows_has_the_gradient():
    equal = jnp.asarray(np.random.default_rng(0).integers(0, 2, (2, 7, 7, 2)), jnp.float32)
    assert_same((pooling(lax.max, -jnp.inf, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), (equal,)))


def test_what_is_not_a_number_stays_visible():
    for window, strides in (((1, 2, 2, 1), (1, 2, 2, 1)), ((1, 3, 3, 1), (1, 1, 1, 1))):
        function = pooling(lax.max, -jnp.inf, window, strides)
        images = IMAGES.at[0, 3, 3, 0].set(jnp.nan)
        np.testing.assert_array_equal(rewritten(function)(images), function(images))


UNCOVERED = {
    "its samples are in groups": (convolution(batch_group_count=3), (IMAGES, numbers(0, 3, 3, 4, 6))),
    "more than 128 places": (convolution(), (numbers(0, 1, 14, 14, 2), numbers(1, 12, 12, 2, 2))),
    "of type int32": (convolution(), (IMAGES.astype(jnp.int32), SQUARE.astype(jnp.int32))),
    "longer than 64": (pooling(lax.max, -jnp.inf, (1, 65), (1, 2)), (numbers(0, 2, 80),)),
}


@pytest.mark.parametrize("reason", UNCOVERED)
def test_what_has_no_form_stays_as_it_was_to_the_bit_and_says_why(reason):
    function, arguments = UNCOVERED[reason]
    assert names(rewritten(function), *arguments) == names(function, *arguments)
    np.testing.assert_array_equal(jax.jit(rewritten(function))(*arguments), jax.jit(function)(*arguments))
    (said,) = reasons(jax.make_jaxpr(function)(*arguments))
    assert reason in said
