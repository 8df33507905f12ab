"""Claims that take no training: procedures by name; each returns curves, and its arguments are keys of its table."""

from collections.abc import Callable

from turnout.workbench.reproduction.curve_table import Curve
from turnout.workbench.reproduction.procedures.fedlaavg import alternating_pair, speedup, staleness
from turnout.workbench.reproduction.procedures.fleet_million import fleet_million
from turnout.workbench.reproduction.procedures.separation import separation_bias, separation_mixing
from turnout.workbench.reproduction.procedures.slow_clients import whom_in_time
from turnout.workbench.reproduction.procedures.watching import watching

PROCEDURES: dict[str, Callable[..., list[Curve]]] = {
    procedure.__name__: procedure
    for procedure in (
        alternating_pair,
        fleet_million,
        separation_bias,
        separation_mixing,
        speedup,
        staleness,
        watching,
        whom_in_time,
    )
}
