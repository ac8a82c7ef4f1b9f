"""Simple spread of the multi-agent particle environments (Lowe et al. 2017), as one environment; needs the extra marl.

Three agents are to cover three landmarks without bumping into each other, and all get the same reward. Importing this
module registers it: for agents trained with MARL=True, the environment's id is
"note_rl.examples.simple_spread:SimpleSpread-v0".
"""

import importlib
from typing import Any

import gymnasium

from note_rl.environments.multi_agent import JointEnvironment
from note_rl.errors import EnvironmentMismatchError


def simple_spread(render_mode: str | None = None, **options: Any) -> JointEnvironment:
    """The joint environment.

    Args:
        render_mode: None, human or rgb_array.
        **options: Of `mpe2.simple_spread_v3.parallel_env`: N agents, local_ratio, max_cycles, continuous_actions, ...

    Raises:
        EnvironmentMismatchError: mpe2 is not installed.
    """
    try:
        module = importlib.import_module("mpe2.simple_spread_v3")
    except ModuleNotFoundError as error:
        if error.name != "mpe2":
            raise
        raise EnvironmentMismatchError("simple_spread needs mpe2: pip install 'note-rl[marl]'") from error
    return JointEnvironment(module.parallel_env(render_mode=render_mode, **options))


gymnasium.register(
    "SimpleSpread-v0", f"{__name__}:simple_spread", disable_env_checker=True, order_enforce=False
)  # the checker expects one reward
