import pytest

from note_rl.errors import SettingsError
from note_rl.settings.schedules import Constant, Exponential, Linear


def test_linear():
    schedule = Linear(1.0, 0.1, fraction=0.5)
    assert [schedule(p) for p in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([1.0, 0.55, 0.1, 0.1])


def test_exponential():
    assert [Exponential(1.0, 1e-4)(p) for p in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([1.0, 0.1, 0.01, 1e-4])


def test_constant():
    assert Constant(3.0)(0.7) == 3.0


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.1])
def test_fraction_out_of_range_is_refused(fraction):
    with pytest.raises(SettingsError, match="fraction"):
        Linear(1.0, 0.0, fraction)


def test_exponential_to_zero_is_refused():
    with pytest.raises(SettingsError, match="above 0"):
        Exponential(1.0, 0.0)
