"""Pickles of all that goes to worker processes, with the part named that cannot be pickled.

The pickles come from this process and are read by its own children, never from a file.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from note_rl.collect.agent_recipe import Recipe
from note_rl.errors import SettingsError
from note_rl.policy import Policy, PolicyPerEnvironment

REFUSALS = (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError, NotImplementedError)


def pickled(what: str, value: Any, instead: str, sender: str = "pool_network=True") -> bytes:
    """Returns the pickle of a value.

    Raises:
        SettingsError: It has none; `what` it is, who sends it and what could be done `instead` are named.
    """
    try:
        content: bytes = cloudpickle.dumps(value)
    except REFUSALS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SettingsError(
            f"{sender} sends {what} to worker processes, but it cannot be pickled ({reason}); {instead}"
        ) from error
    return content


def pickled_environments(env: Any, places: Sequence[int]) -> bytes:
    """Pickles the environments at some places of a list; of anything else, that itself."""
    instead = "set self.env to an id, an EnvFactory or a function that makes the environment"
    if not isinstance(env, list | tuple):
        return pickled("agent.env", env, instead)
    own = [env[place] for place in places]
    try:
        return pickled("agent.env", own, instead)
    except SettingsError:
        for place in places:
            pickled(f"agent.env[{place}]", env[place], f"{instead}, or a list of what can be pickled")
        raise


def pickled_policy(policy: Policy, places: Sequence[int]) -> bytes:
    """Pickles the policy for some environments."""
    if isinstance(policy, PolicyPerEnvironment):
        policy = PolicyPerEnvironment([policy.policies[place] for place in places])
    return pickled("the policy", policy, "give set() a policy made of plain numbers")


def pickled_recipe(agent: Any, sender: str = "pool_network=True") -> bytes:
    """Pickles how the agent is made again; says which of its arguments cannot be sent."""
    recipe: Recipe = agent.recipe
    try:
        return pickled("the agent", recipe, "", sender)
    except SettingsError:
        for name, value in recipe.named_arguments().items():
            pickled(
                f"the constructor's argument {name!r} of {recipe.kind.__name__}",
                value,
                "give it as something plain, from which the constructor makes the rest",
                sender,
            )
        pickled(f"the class {recipe.kind.__name__}", recipe.kind, "define it in a module of its own", sender)
        raise
