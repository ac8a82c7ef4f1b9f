"""Fixtures of the tests of clusters."""

import pytest

from tests.note_rl.distributed.keras.clusters import Listener


@pytest.fixture
def listen():
    made = []

    def new(answer=None):
        made.append(Listener(answer))
        return made[-1]

    yield new
    for one in made:
        if one.server.fileno() >= 0:
            one.close()
