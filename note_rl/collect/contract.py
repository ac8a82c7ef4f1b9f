"""The contract of an agent, checked when it is first used: its parts, and the shape of its answers."""

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.errors import AgentContractError, SettingsError, about_shapes
from note_rl.errors.wording import choice
from note_rl.learners.declarations import has_loss, is_recurrent, learns_from_sequences, updates_itself
from note_rl.learners.recurrence import no_place
from note_rl.learners.update_contract import check_own_update
from note_rl.policy import Policy
from note_rl.settings.switch_names import TRL
from note_rl.types import Array, BoolArray, FloatArray

_PARTS = {
    "env": "the environment: self.env = 'CartPole-v1', for example",
    "param": "its weights: self.param = list(self.net.parameters()), or self.net.trainable_variables in Keras",
    "action": "the answers to observations: define action(self, s)",
    "__call__": "the loss: define __call__(self, s, a, next_s, r, d), or update(self, batch, optimizers) in its place",
}


def check_made(agent: Any) -> None:
    """Refuses an agent whose constructor did not call that of its base class (AgentContractError)."""
    if "prioritized_replay" not in vars(agent):
        name = type(agent).__name__
        raise AgentContractError(f"{name}.__init__ must call super().__init__() before anything else")


def check_parts(agent: Any) -> None:
    """Refuses an agent without one of its parts (AgentContractError names it), or with a memory that it does not keep.

    Such a network says `answers_by_state`.
    """
    check_made(agent)
    for name, meaning in _PARTS.items():
        learns = has_loss(type(agent)) or updates_itself(type(agent))
        if not learns if name == "__call__" else getattr(agent, name, None) is None:
            raise AgentContractError(f"{type(agent).__name__} has no {name}, {meaning}")
    check_own_update(agent)
    networks_with_memory = [one for one in vars(agent).values() if getattr(type(one), "answers_by_state", False)]
    if networks_with_memory and not is_recurrent(agent):
        raise no_place(type(agent).__name__)


_BATCH = ("s", "a", "next_s", "r", "d")
_CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "action": (("s",),),
    "__call__": (_BATCH, (*_BATCH, "weights")),
    "update": (("batch", "optimizers"),),
    "value": (("s",),),
    "reward": (("s", "a", "next_s"),),
    "update_param": ((),),
    "adjust_func": ((),),
    "window_size_func": (("p",), ()),
    "window_size_fn": (("p",), ()),
    "reward_done_func": (("achieved_goal", "desired_goal"),),
    "reward_done_func_ma": (("rewards", "dones"),),
}
"""By method of an agent, the arguments that it may be called with."""


def check_calls(agent: Any, names: Collection[str], several: bool) -> None:
    """Refuses methods that cannot be called as training calls them.

    Args:
        agent: Those of the methods that it has are looked at.
        names: The methods that will be called, among others.
        several: Whether there are several agents, so that action() is also given the number of one.

    Raises:
        AgentContractError: Naming the method, its arguments and those that it will be given.
    """
    for name in names:
        method, calls = getattr(agent, name, None), _CALLS[name]
        if not callable(method):
            continue
        if name == "value" and learns_from_sequences(agent):
            calls = (("s", "state"),)
        elif name == "action" and is_recurrent(agent):
            if several:
                raise AgentContractError(f"{type(agent).__name__} has a state (initial_state), which is for one agent")
            calls = (("s", "state"),)
        elif name == "action" and several:
            calls = (("s", "i"),)
        try:
            signature = inspect.signature(method)
        except (ValueError, TypeError):  # some that are not written in Python do not tell
            continue
        if not any(_takes(signature, arguments) for arguments in calls):
            given = " or ".join(f"({', '.join(arguments)})" for arguments in calls)
            hint = ""
            if name == "action" and not several and not is_recurrent(agent):
                hint = "; a state comes with initial_state(), the number i of an agent with MARL=True"
            raise AgentContractError(
                f"{type(agent).__name__}.{name} takes {_shown(signature)}, but is called with {given}{hint}"
            )


def _takes(signature: inspect.Signature, arguments: tuple[str, ...]) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _shown(signature: inspect.Signature) -> str:
    """Names only."""
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(plain))


def check_reads_triplets(agent: Any) -> None:
    """Refuses TRL=True for a loss whose own class declares that it reads single transitions (AgentContractError)."""
    method = "update" if updates_itself(type(agent)) else "__call__"
    owner = next(kind for kind in type(agent).__mro__ if method in vars(kind))
    if vars(owner).get("reads_triplets") is False:
        raise AgentContractError(
            "{} draws {}, and the loss of {} reads single transitions: {}, or override __call__ with a loss that "
            "reads them",
            *(TRL.at(True), _TRIPLETS, owner.__name__, TRL.leave_out()),
        )


@contextmanager
def explaining_triplets(agent: Any, experience: Any, num_gradient_steps: int) -> Iterator[None]:
    """Around an update: names triplets where it is the first, of them, and its loss fails over shapes.

    Args:
        agent: Whose loss.
        experience: Settings, which say whether minibatches hold triplets.
        num_gradient_steps: Taken before.

    Raises:
        AgentContractError: In place of what the framework says.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        expected = getattr(experience, "trajectories", False) and num_gradient_steps == 0
        if not expected or type(error) not in (RuntimeError, ValueError, AgentContractError):
            raise
        raise AgentContractError(
            "{} draws {}, and {}.__call__ fails on them ({}): let it read them, or {}",
            *(TRL.at(True), _TRIPLETS, type(agent).__name__, about_shapes(error), TRL.leave_out()),
        ) from error


_TRIPLETS = "triplets, s and next_s [B, 2, ...], r and d [B, 2]"


def window_function(agent: Any) -> Callable[..., Any] | None:
    """The agent's window_size_func, or window_size_fn as older manuals call it; None: it has neither.

    Raises:
        SettingsError: It has both, and they differ, or what it has cannot be called.
    """
    found = {name: getattr(agent, name, None) for name in ("window_size_func", "window_size_fn")}
    given = {name: function for name, function in found.items() if function is not None}
    for name, function in given.items():
        if not callable(function):
            raise SettingsError(f"{name} must be a function such as lambda p: 1000, got {function!r}")
    if len(given) == 2 and given["window_size_func"] != given["window_size_fn"]:
        raise SettingsError("window_size_func and window_size_fn are two names of one thing; give one")
    return next(iter(given.values()), None)


def check_answers(answers: FloatArray, num_envs: int, policy: Policy, action_space: Any) -> None:
    """Refuses answers that are not one row per observation, as wide as the policy takes them.

    Args:
        answers: To observations of E environments; [E, ...], or [E, n, ...] of several agents.
        num_envs: E.
        policy: Chooses from them; knows of nothing how wide it must be where it is made of several.
        action_space: Of one environment.

    Raises:
        AgentContractError: Naming both widths.
    """
    if answers.ndim < 2 or len(answers) != num_envs:
        raise AgentContractError(
            f"action() must return one row per observation, [{num_envs}, ...] here; it returned the shape "
            f"{list(answers.shape)}: scores of all actions, or the numbers of an action, not the action chosen"
        )
    several = isinstance(action_space, spaces.MultiDiscrete) and answers.ndim == 2  # several agents have an axis more
    if several and not policy.chooses_several:
        raise AgentContractError(
            "{} chooses one of several actions, but the environment takes {}, one of each of several sets: use {} for "
            "an agent that returns the probabilities of all sets, such as PPO",
            *(type(policy).__name__, action_space, choice("SoftmaxPolicy")),
        )
    expected = policy.num_answers(action_space)
    width = int(np.prod(answers.shape[1:]))
    if expected is None or width == expected:
        return
    hint = ""
    if width == 2 * expected:
        hint = "; for means and log deviations take SquashedGaussianPolicy(noise) as for SAC, or GaussianPolicy()"
    raise AgentContractError(
        f"action() returned {width} numbers per observation (the shape {list(answers.shape)}), but {expected} are what "
        f"{type(policy).__name__} takes for the actions {action_space}{hint}"
    )


def check_allowed(action: Array, mask: BoolArray, policy: Policy) -> None:
    """Refuses actions [E] that masks [E, A] forbid, from a policy that does not heed them.

    Raises:
        AgentContractError: Naming the policy and what it must do.
    """
    if not mask[np.arange(len(action)), action].all():
        raise AgentContractError(
            f"{type(policy).__name__} chose an action that the environment's action mask forbids: a policy of your own "
            "must never choose where the score is -inf, or define masked(scores, mask) to its own taste"
        )
