"""Operations that keep the order in which an array is stored, so that transposes between convolutions cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax import lax

from turnout.tasks.models.rewriting.layout import Laid, Order, Spread, Value, places, reshaped, turned
from turnout.tasks.models.rewriting.programs import Equation, run_as_written

_NUMERICAL = """
    abs acos acosh add add_any asin asinh atan atan2 atanh cbrt ceil clamp cos cosh digamma div erf erf_inv erfc exp
    exp2 expm1 floor integer_pow lgamma log log1p logistic max min mul neg nextafter pow reduce_precision rem round
    rsqrt sign sin sinh sqrt square sub tan tanh
"""
_LOGICAL = """
    and convert_element_type copy copy_p eq ge gt is_finite le lt name ne not or select_n shift_left
    shift_right_arithmetic shift_right_logical xor
"""
_REDUCING = "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum"
ELEMENTWISE, REDUCTIONS = frozenset((_NUMERICAL + _LOGICAL).split()), frozenset(_REDUCING.split())


def carry(equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    """The results in the order in which the operands are stored; None if that is not known."""
    name = equation.primitive.name
    if name == "broadcast_in_dim":
        return _broadcast(equation, values)
    if not any(turned(value) for value in values):
        return None
    if name in ELEMENTWISE:
        return _elementwise(equation, values)
    if name in REDUCTIONS:
        return _reduce(equation, values)
    rule = _RULES.get(name)
    return None if rule is None else rule(equation, values)


def common_order(values: Sequence[Value]) -> Order:
    """The order of the first that is stored otherwise than written; arrays count before what is only repeated."""
    full = [value for value in values if isinstance(value, Laid)]
    for chosen in ([value for value in full if turned(value)], list(filter(turned, values)), full, values):
        if chosen:
            return chosen[0].order
    raise ValueError("there are no values")


def _elementwise(equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    shape = equation.outvars[0].aval.shape
    ranked = [value for value in values if value.shape]
    if any(len(value.shape) != len(shape) for value in ranked):
        return None
    order = common_order([value for value in ranked if value.shape == shape] or ranked)
    arrays = [value.in_order(order) if value.shape else value.in_order(()) for value in values]
    return [Laid(array, order) for array in run_as_written(equation, arrays)]


def _broadcast(equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    if len(values) != 1 or not equation.outvars[0].aval.shape:
        return None  # sizes that are known at run time only
    (value,), params = values, equation.params
    laid = value if isinstance(value, Laid) else Laid(value.in_order(value.order), value.order)
    return [Spread(laid, tuple(map(int, params["shape"])), tuple(map(int, params["broadcast_dimensions"])))]


def _reduce(equation: Equation, values: Sequence[Value]) -> list[Value]:
    (value,) = values
    axes, order = equation.params["axes"], value.order
    at = places(order)
    kept = [axis for axis in range(len(order)) if axis not in axes]
    left = tuple(kept.index(axis) for axis in order if axis not in axes)
    params = {**equation.params, "axes": tuple(sorted(at[axis] for axis in axes))}
    return [Laid(equation.primitive.bind(value.in_order(order), **params), left)]


def _transpose(equation: Equation, values: Sequence[Value]) -> list[Value]:
    (value,), permutation = values, tuple(map(int, equation.params["permutation"]))
    at = places(permutation)
    return [Laid(value.in_order(value.order), tuple(at[axis] for axis in value.order))]


def _reshape(equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    value, after = values[0], equation.outvars[0].aval.shape
    if len(values) > 1 or equation.params.get("dimensions") is not None or 0 in value.shape:
        return None
    order = reshaped(value.order, value.shape, after)
    if order is None:
        return None
    return [Laid(value.in_order(value.order).reshape([after[axis] for axis in order]), order)]


def _squeeze(equation: Equation, values: Sequence[Value]) -> list[Value]:
    (value,) = values
    dropped = {axis % len(value.shape) for axis in equation.params["dimensions"]}
    kept = [axis for axis in range(len(value.shape)) if axis not in dropped]
    stored = lax.squeeze(value.in_order(value.order), [places(value.order)[axis] for axis in dropped])
    return [Laid(stored, tuple(kept.index(axis) for axis in value.order if axis not in dropped))]


def _along_axes(names: tuple[str, ...]) -> Callable[[Equation, Sequence[Value]], list[Value]]:
    """A rule for an operation whose parameters are lists with one entry for each axis."""

    def rule(equation: Equation, values: Sequence[Value]) -> list[Value]:
        first, *rest = values
        params = dict(equation.params)
        for name in names:
            if params[name] is not None:
                params[name] = tuple(params[name][axis] for axis in first.order)
        others = [value.in_order(value.order) for value in rest]  # a number, such as that of the border
        return [Laid(equation.primitive.bind(first.in_order(first.order), *others, **params), first.order)]

    return rule


def _concatenate(equation: Equation, values: Sequence[Value]) -> list[Value]:
    order = common_order(values)
    arrays = [value.in_order(order) for value in values]
    return [Laid(lax.concatenate(arrays, places(order)[equation.params["dimension"]]), order)]


def _split(equation: Equation, values: Sequence[Value]) -> list[Value]:
    (value,) = values
    params = {**equation.params, "axis": places(value.order)[equation.params["axis"]]}
    parts = equation.primitive.bind(value.in_order(value.order), **params)
    return [Laid(part, value.order) for part in parts]


def _reverse(equation: Equation, values: Sequence[Value]) -> list[Value]:
    (value,) = values
    at = places(value.order)
    return [Laid(lax.rev(value.in_order(value.order), [at[a] for a in equation.params["dimensions"]]), value.order)]


def _cumulate(equation: Equation, values: Sequence[Value]) -> list[Value]:
    (value,) = values
    params = {**equation.params, "axis": places(value.order)[equation.params["axis"]]}
    return [Laid(equation.primitive.bind(value.in_order(value.order), **params), value.order)]


def _product(equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    """A product sums over stored axes, wherever they are; what has samples last keeps them last."""
    left, right = values
    (of_left, of_right), (batches, _) = equation.params["dimension_numbers"]
    if batches or equation.params.get("out_sharding") is not None:
        return None
    free_left = [axis for axis in left.order if axis not in of_left]
    free_right = [axis for axis in right.order if axis not in of_right]
    logical_left, count = sorted(free_left), len(free_left)
    order = [logical_left.index(axis) for axis in free_left]
    order_right = [count + sorted(free_right).index(axis) for axis in free_right]
    sums = [tuple(places(left.order)[a] for a in of_left), tuple(places(right.order)[a] for a in of_right)]
    arrays = [left.in_order(left.order), right.in_order(right.order)]
    if turned(left) and not turned(right) and len(free_left) > 1:
        sums, arrays, order, order_right = sums[::-1], arrays[::-1], order_right, order
    result = lax.dot_general(
        *arrays,
        dimension_numbers=((sums[0], sums[1]), ((), ())),
        precision=equation.params["precision"],
        preferred_element_type=equation.params["preferred_element_type"],
    )
    return [Laid(result, (*order, *order_right))]


_RULES: dict[str, Callable[[Equation, Sequence[Value]], list[Value] | None]] = {
    "concatenate": _concatenate,
    "cumsum": _cumulate,
    "dot_general": _product,
    "pad": _along_axes(("padding_config",)),
    "reshape": _reshape,
    "rev": _reverse,
    "slice": _along_axes(("start_indices", "limit_indices", "strides")),
    "split": _split,
    "squeeze": _squeeze,
    "transpose": _transpose,
}
