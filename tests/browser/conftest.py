import devtools
import pytest


@pytest.fixture(scope="module")
def browser():
    if devtools.chromium() is None:
        pytest.skip("no Chromium: install one, or name it in TURNOUT_CHROMIUM")
    with devtools.Browser() as browser:
        yield browser
