"""A secret in shares of which a threshold is needed: A. Shamir, How to Share a Secret, CACM 1979."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

from turnout.flower.secure.rules import LostError

PRIME = 2**130 - 5  # that of Poly1305, RFC 8439: the next above all secrets of 128 bits
SECRET_BYTES = 16
SHARE_BYTES = 17


def split(secret: bytes, threshold: int, points: Sequence[int]) -> list[bytes]:
    """One share per point, which is a number above 0; fewer than the threshold say nothing of the secret."""
    if len(secret) != SECRET_BYTES or not 0 < threshold <= len(points) or not all(0 < x < PRIME for x in points):
        raise ValueError("a secret of 16 bytes is shared among different points above 0, as many as the threshold")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret, "big"))
    shares = []
    for x in points:
        y = 0
        for coefficient in coefficients:
            y = (y * x + coefficient) % PRIME
        shares.append(y.to_bytes(SHARE_BYTES, "big"))
    return shares


def combine(shares: Mapping[int, bytes], weights: Mapping[int, int]) -> bytes:
    """The secret behind shares by point, with the weights of just these points."""
    value = sum(weight * int.from_bytes(shares[x], "big") for x, weight in weights.items()) % PRIME
    if value >> (8 * SECRET_BYTES):
        raise LostError("shares do not fit together")
    return value.to_bytes(SECRET_BYTES, "big")


def weights_at_zero(points: Collection[int]) -> dict[int, int]:
    """Lagrange's weights at zero; the same for all secrets of which there are shares at the same points."""
    above, below = [], []
    for x in points:
        over = under = 1
        for other in points:
            if other != x:
                over, under = over * other % PRIME, under * (other - x) % PRIME
        above.append(over)
        below.append(under)
    return {x: over * inverse % PRIME for x, over, inverse in zip(points, above, _inverses(below), strict=True)}


def _inverses(values: Sequence[int]) -> list[int]:
    """All at the price of one: from the inverse of their product, factor by factor."""
    before = [1]
    for value in values:
        before.append(before[-1] * value % PRIME)
    rest, inverses = pow(before[-1], -1, PRIME), []
    for value, product in zip(reversed(values), reversed(before[:-1]), strict=True):
        inverses.append(rest * product % PRIME)
        rest = rest * value % PRIME
    return inverses[::-1]
