"""Fixtures for tests of several processes and devices."""

import pytest


@pytest.fixture
def _untraced() -> None:
    """Under a strategy of tf.distribute, all is traced."""
