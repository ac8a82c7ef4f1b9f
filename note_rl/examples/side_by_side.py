"""Several environments for one agent, as the manuals' pools have them."""

from typing import Any

import gymnasium
import numpy as np

from note_rl.environments import as_factory, is_environment
from note_rl.environments.environment_factory import COPY_ADVICE
from note_rl.environments.single_environments import copied
from note_rl.errors import SettingsError


def side_by_side(env: Any, processes: int | None) -> Any:
    """A list of `num` environments like `env`; None: `env` itself.

    Args:
        env: An id, a factory, or an environment, which is copied.
        processes: How many. train(pool_network=True, processes=...) spreads them over worker processes.
    """
    if processes is None:
        return env
    if isinstance(processes, bool) or not isinstance(processes, int | np.integer):
        is_other = isinstance(processes, str | gymnasium.Env)
        advice = f": name the environment as env={processes!r}" if is_other else ""
        raise SettingsError(f"processes must be a whole number, got {processes!r}{advice}")
    if processes < 1:
        raise SettingsError(f"processes must be at least 1, got {processes}")
    if isinstance(env, str | gymnasium.Env):
        make = as_factory(env)
    else:
        make = (lambda: copied(env, COPY_ADVICE)) if is_environment(env) else env
    return [make() for _ in range(processes)]
