import pytest

from turnout.declarations.arrays import at_least, spread_whole


@pytest.mark.parametrize("value", [0, -1])
def test_a_count_has_its_limits(value):
    with pytest.raises(ValueError, match=r"rounds must be a whole number of 1 or more, not "):
        at_least("rounds", value, 1)
    with pytest.raises(ValueError, match="rounds must be a whole number from 1 to 1,000, not 1001"):
        at_least("rounds", 1001, 1, 1000)


@pytest.mark.parametrize("value", [2**31, -1])
def test_whole_numbers_per_client_fit_the_device(value):
    with pytest.raises(ValueError, match=r"client 1 has groups = .*: must be .* at least 0, and below 2³¹"):
        spread_whole("groups", [0, value], 2, lowest=0)
