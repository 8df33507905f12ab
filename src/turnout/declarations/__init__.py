"""What a field or an argument may be is declared once, in its annotation, and one check holds all of them to it.

`Annotated[Scalar, Numbers(0, 1)]` is a probability, be it traced or not. An annotation without numbers is a check too:
`int` takes no 3.0, `float` no NaN, and neither takes a truth value or a text.
"""

from turnout.declarations.checks import Declared, check_fields, checked, declared, hold
from turnout.declarations.numbers import (
    MAX_COUNT,
    MAX_RUNS,
    MAX_WHOLE,
    NUM_SEEDS,
    ClientCount,
    Count,
    CountOrZero,
    LengthScalar,
    LongCount,
    NotNegative,
    NotNegativeScalar,
    Numbers,
    NumRounds,
    OpenShare,
    Positive,
    PositiveScalar,
    RoundCount,
    Seed,
    Share,
    ShareScalar,
    StepCount,
)

__all__ = [
    "MAX_COUNT",
    "MAX_RUNS",
    "MAX_WHOLE",
    "NUM_SEEDS",
    "ClientCount",
    "Count",
    "CountOrZero",
    "Declared",
    "LengthScalar",
    "LongCount",
    "NotNegative",
    "NotNegativeScalar",
    "NumRounds",
    "Numbers",
    "OpenShare",
    "Positive",
    "PositiveScalar",
    "RoundCount",
    "Seed",
    "Share",
    "ShareScalar",
    "StepCount",
    "check_fields",
    "checked",
    "declared",
    "hold",
]
