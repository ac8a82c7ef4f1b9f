"""How many of the oldest may go."""

import numpy as np
import pytest

from note_rl.adaptive.window import Trim, oldest_within_mass, removable
from note_rl.settings.window_functions import Removal

COLLAPSED = np.r_[np.full(90, 1e-6), np.full(10, 1.0)]  # effective size 10 of 100


def test_the_oldest_whose_mass_is_small() -> None:
    weights = np.r_[np.full(50, 0.001), np.full(50, 0.019)]
    assert oldest_within_mass(weights, 0.0205) == 20
    assert oldest_within_mass(np.zeros(5), 0.5) == 0


@pytest.mark.parametrize(
    ("trim", "expected"),
    [
        (Trim(), 10),  # a tenth
        (Trim(share=1.0), 89),  # down to the effective size, 10.0002
        (Trim(share=1.0, keep_scale=3.0), 69),
        (Trim(share=1.0, least=60), 40),
        (Trim(share=1.0, low=0.05), 0),  # healthy enough
        (Trim(share=1.0, mass=9.5e-7), 9),
        (Trim(least=100), 0),
    ],
)
def test_every_limit_holds(trim: Trim, expected: int) -> None:
    assert removable(COLLAPSED, trim) == expected


def test_a_healthy_pool_stays_as_it_is() -> None:
    errors = np.random.default_rng(0).exponential(size=5000) ** 0.7
    assert removable(errors, Trim(share=1.0)) == 0
    assert removable(np.ones(1), Trim()) == 0
    assert removable(COLLAPSED, Trim(share=1.0), ess=float("nan")) == 0
    assert removable(COLLAPSED, Trim(share=1.0), ess=25.0) == 75


def test_a_removal_stays_one_in_arithmetic() -> None:
    for value in (Removal(7) // 2, Removal(7) + 1, 1 + Removal(7), 2 * Removal(7), Removal(7) - 2, max(Removal(7), 3)):
        assert isinstance(value, Removal)
    assert Removal(7) // 2 == 3
    assert list(range(10))[Removal(7) :] == [7, 8, 9]
