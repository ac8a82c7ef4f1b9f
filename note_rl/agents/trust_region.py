"""What the options of TRPO must be, in either framework."""

from typing import Any

from note_rl.support.checking import Count, Kind, Number

_POSITIVE = Number(0.0, above=True)
_OPTIONS: dict[str, Kind] = {
    "max_kl": _POSITIVE,
    "cg_iterations": Count(),
    "cg_tolerance": Number(0.0),
    "cg_damping": Number(0.0),
    "fvp_every": Count(),
    "line_search_steps": Count(),
    "line_search_shrink": Number(0.0, 1.0, above=True),
    "critic_iterations": Count(),
    "critic_batch_size": Count(),
    "entropy_coef": Number(0.0),
}


def check_trust_region(agent: Any) -> None:
    """Refuses options of an agent that are out of range (SettingsError), and makes plain numbers of the others."""
    for name, kind in _OPTIONS.items():
        setattr(agent, name, kind(name, getattr(agent, name)))
