"""Fixtures for tests of learners."""

import pytest


@pytest.fixture
def _untraced() -> None:
    """How the update of a Keras agent is traced is the subject here; `eager_updates` is for tests of something else."""
