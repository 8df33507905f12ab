import numpy as np
import pytest

from turnout.availability import diurnal

HOURS = np.linspace(0.1, 0.9, 24)


@pytest.fixture(scope="module")
def process():
    return diurnal(3, rounds_per_day=24, profile=HOURS.tolist(), zones=[0.0, 5.0, -1.0], lam=[0.0, 0.8, 0.5])


@pytest.fixture(scope="module")
def masks(process, play):
    return play(process, rounds=48, seeds=2000)


def test_profile_follows_the_hour_and_the_zone(process):
    profile = np.asarray(process.profile())
    for client, ahead in enumerate([0, 5, -1]):
        assert np.allclose(profile[:, client], np.roll(HOURS, -ahead))


def test_chance_of_a_round_is_the_profile(process, masks, agree):
    agree(masks, np.tile(np.asarray(process.profile()), (2, 1)))


def test_persistence_is_lam_where_the_day_allows_it(masks):
    was, now = masks[:, 29, 1], masks[:, 30, 1]
    slope = now[was].mean() - now[~was].mean()
    assert slope == pytest.approx(0.8, abs=0.06)


def test_a_fast_day_beats_persistence(play):
    night = [1.0] * 12 + [0.0] * 12
    masks = play(diurnal(3, rounds_per_day=24, profile=night, lam=0.99), rounds=48, seeds=2000)
    assert (masks[..., 0] == np.tile(np.array(night, bool), 2)).all()


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 20.0])
def test_smooth_day_has_the_mean_and_the_peak_asked_for(sharpness):
    day = diurnal(1, rounds_per_day=1440, mean=0.4, amplitude=0.3, peak_hour=6.0, sharpness=sharpness)
    profile = np.asarray(day.profile())[:, 0]
    assert profile.mean() == pytest.approx(0.4, abs=1e-4)
    assert profile.max() == pytest.approx(0.7, abs=1e-3)
    assert abs(profile.argmax() / 60 - 6) < 0.05


def test_zones_spread_over_the_day():
    peaks = np.asarray(diurnal(8, rounds_per_day=48, zones=4).profile()).argmax(axis=0) / 2
    assert np.allclose(peaks, np.repeat([4.0, 22.0, 16.0, 10.0], 2), atol=0.51)


def test_shape_is_a_course_whatever_its_unit():
    day = diurnal(2, rounds_per_day=24, mean=[0.4, 0.5], amplitude=[0.2, 0.1], shape=(40 * HOURS - 7).tolist())
    profile = np.asarray(day.profile())
    assert np.allclose(profile.mean(axis=0), [0.4, 0.5])
    assert np.allclose(profile.max(axis=0), [0.6, 0.6])
    assert np.allclose(np.corrcoef(profile.T, HOURS), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": [0.5] * 23}, "shape has 23 values: give 24"),
        ({"shape": [0.5] * 24}, "the same at all hours"),
        ({"shape": [0.5] * 23 + [np.inf]}, r"shape\[23\] must be a finite number, not inf"),
        ({"shape": HOURS.tolist(), "peak_hour": 3.0}, "shape is given together with peak_hour, sharpness or profile"),
        ({"shape": HOURS.tolist(), "profile": [0.5] * 24}, "shape is given together with"),
        ({"mean": 0.1, "amplitude": [0.1, 0.2, 0.1]}, "client 1 would be available with probability -0.1 to 0.3"),
        ({"profile": [0.5] * 23}, "profile has 23 values: give 24"),
        ({"profile": [0.5] * 23 + [1.5]}, "hour 23 has 1.5"),
        ({"profile": [0.5] * 24, "mean": 0.5}, "it replaces these"),
        ({"sharpness": -1.0}, "sharpness must be a finite number of 0 or more, not -1"),
        ({"peak_hour": 25.0}, "peak_hour must be a number from 0 to 24, not 25"),
        ({"lam": [0.0, 1.0, 0.0]}, r"client 1 has lam = 1: must lie in \[0, 1\)"),
        ({"zones": 4}, "zones = 4 for 3 clients"),
        ({"zones": [0.0, 1.0]}, "zones has 2 values for 3 clients"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        diurnal(3, rounds_per_day=24, **arguments)


def test_refuses_a_day_of_one_round():
    with pytest.raises(ValueError, match="rounds_per_day must be a whole number from 2"):
        diurnal(3, rounds_per_day=1)
