"""Many environments: what they take is known from the first ones, and said before the others are made."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from note_rl.environments.base import Env
from note_rl.errors import SettingsError
from note_rl.settings.switch_names import NUM_ENVS
from note_rl.support.memory import free_memory, resident_bytes

_log = logging.getLogger(__name__)

_FIRST: Final = 100
_LONG_S: Final = 10.0


def several(factory: Callable[[], Env], number: int) -> list[Env]:
    """Makes a number of environments; says how long that takes where it is long.

    Raises:
        SettingsError: They would take more memory than is free.
    """
    began, before = time.perf_counter(), resident_bytes()
    made = [factory() for _ in range(min(number, _FIRST))]
    if number > _FIRST:
        _look_ahead(number, (time.perf_counter() - began) / _FIRST, (resident_bytes() - before) / _FIRST, made)
    return made + [factory() for _ in range(number - len(made))]


def _look_ahead(number: int, each_s: float, each: float, made: Sequence[Env]) -> None:
    """Refuses or warns by the seconds and bytes that each of the first ones has taken."""
    free = free_memory()
    if number * each > free:
        for one in made:
            one.close()
        raise SettingsError(
            "{} environments take about {:,.1f} GB of memory, of which {:.1f} GB are free: choose {} at most",
            *(NUM_ENVS.at(number), number * each / 1e9, free / 1e9, int(free / each)),
        )
    if number * each_s > _LONG_S:
        _log.warning(
            "%s: to make these environments takes about %.0f s, and then each step is one in all of them; few agents "
            "gain by more than 64",
            *(NUM_ENVS.at(number), number * each_s),
        )
