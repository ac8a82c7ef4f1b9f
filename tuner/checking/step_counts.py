"""Numbers of environment steps as they are typed: 30000, 3e4, 30k, 1.5M."""

import re
from collections.abc import Sequence
from typing import Any, Final

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, out_of_range
from note_rl.support.value_kinds import Count, described

_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_SHORT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kM])")
_LEAST: Final = 2


@described(f"a list of {_LEAST} or more numbers of environment steps, each once, such as [10k,30k,100k]")
def step_counts(name: Name, value: Any) -> tuple[int, ...]:
    """The numbers, the lowest first."""
    found = [_count(name, one) for one in (value if isinstance(value, list | tuple) else [value])]
    if len(found) < _LEAST or len(set(found)) < len(found):
        raise SettingsError(out_of_range(name, f"be {step_counts.range}", value))
    return tuple(sorted(found))


def _count(name: Name, value: Any) -> int:
    short = _SHORT.fullmatch(value.strip()) if isinstance(value, str) else None
    number = value if short is None else round(float(short[1]) * _UNITS[short[2]], 6)
    return Count()(name, number)


def short_count(steps: int) -> str:
    """A number of steps as it is typed and as part of a name: 30k, 1500, 2M."""
    unit = next(unit for unit in ("M", "k", "") if steps % _UNITS[unit] == 0)
    return f"{steps // _UNITS[unit]}{unit}"


def as_list(counts: Sequence[int]) -> str:
    """A list of them as it is typed."""
    return f"[{','.join(map(short_count, counts))}]"
