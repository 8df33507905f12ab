"""Every test runs strictly: no silent promotion, warnings are errors, shapes and types are checked at run time."""

from jaxtyping import install_import_hook

install_import_hook("turnout", "beartype.beartype")  # not as a context: submodules are imported later, by the tests

import os  # noqa: E402
from pathlib import Path  # noqa: E402

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

from turnout.simulator.programs import keep_few_programs, use_compilation_cache  # noqa: E402

# A slow machine is no fault: neither an example nor making one has a time limit.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")
use_compilation_cache()  # between the processes of one call, and between calls
keep_few_programs()
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def lenient_promotion():
    """Optax's Adam itself mixes integers and floats, and modules of flax and torch mix ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def recorded_phones():
    """Path of a phone trace by its name, in the folder that TURNOUT_DATA names; no test of the suite needs it."""
    folder = os.environ.get("TURNOUT_DATA")
    if folder is None:
        pytest.skip("TURNOUT_DATA is not set")
    return lambda name: Path(folder) / "traces" / f"{name}_intervals.csv.gz"


@pytest.fixture
def play():
    """The class that plays a server by hand."""
    from hand_played import Play

    return Play
