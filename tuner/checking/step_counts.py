"""Numbers of environment steps as they are typed: 30000, 3e4, 30k, 1.5M."""

from contextlib import suppress
from typing import Any, Final

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, out_of_range
from note_rl.support.value_kinds import Count, described
from tuner.config.overrides import UNITS, in_full

_LEAST: Final = 2


@described(f"a list of {_LEAST} or more numbers of environment steps, each once, such as [10k,30k,100k]")
def step_counts(name: Name, value: Any) -> tuple[int, ...]:
    """The numbers, the lowest first."""
    found = [_count(name, one) for one in (value if isinstance(value, list | tuple) else [value])]
    if len(found) < _LEAST or len(set(found)) < len(found):
        raise SettingsError(out_of_range(name, f"be {step_counts.range}", value))
    return tuple(sorted(found))


def _count(name: Name, value: Any) -> int:
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(in_full(value.strip()))
    return Count()(name, value)


def short_count(steps: int) -> str:
    """A number of steps as it is typed and as part of a name: 30k, 1500, 2M."""
    return next((f"{steps // size}{unit}" for unit, size in UNITS.items() if steps % size == 0), str(steps))
