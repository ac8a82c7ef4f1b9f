"""Declarations in the class of an agent, and the checks against them.

Nobody reads an agent's code to find out what it is. Where a class says nothing, set() decides (PPO=True trains it from
rollouts), and what does not fit then shows when its loss is first asked for.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from gymnasium import spaces

from note_rl.environments import Env, bounded_actions, num_discrete_actions
from note_rl.errors import AgentContractError, say_once
from note_rl.errors.wording import PYTHON, Part, Sentence, choice
from note_rl.policy import GaussianPolicy, Policy
from note_rl.settings import ReplaySettings, RolloutSettings, SequenceSettings, Settings
from note_rl.settings.switch_names import HER, MARL, PPO, PR, SEQUENCES, TARGET_KL, TRL
from note_rl.support.setting_fields import named
from note_rl.types import (
    ACTION_MASK,
    BEHAVIOUR,
    EPISODE_START,
    IMPORTANCE_RATIO,
    NEXT_ACTION_MASK,
    STATE_BEFORE,
    Array,
)

_log = logging.getLogger(__name__)

ActionKind = Literal["discrete", "multi_discrete", "multi_binary", "continuous", "bounded"]
Framework = Literal["keras", "torch", "none"]


class Declared:
    """Base of all agents: what their classes may declare.

    Attributes:
        framework: In which the agent is written; `RL` and `RL_pytorch` say it.
        on_policy: Its loss needs rollouts of its own current policy: replay is refused, and policies that do not know
            how likely their actions were. False: it needs replay, and rollouts are refused. None: set() decides.
        action_kinds: Which actions it gives: "discrete", one of several; "multi_discrete", one of each of several
            sets; "multi_binary", several numbers 0 or 1; "continuous", numbers; "bounded", numbers within finite
            bounds. None: those that the policy takes, and where several agents share an environment.
        batch_attributes: What its loss reads of a minibatch besides the arguments of `__call__`, such as
            `log_prob_old`, or its update() of the batch: names from `BATCH_ATTRIBUTES`. What settings do not bring is
            refused before training.
        reads_triplets: Whether its class's own `__call__` reads what TRL=True draws. None: the first minibatch shows.
        default_gae_lambda: Weight of long against short returns in the advantage, where the agent has no `gae_lambda`.
        default_normalise_advantage: Whether advantages get mean 0 and deviation 1 over a rollout, where it has no
            `normalise_advantage`.
        set_defaults: Arguments of set() where its caller gives no others, in its own names.
        default_update_batches: Gradient steps between calls of update_param() where set() does not say it; None: 100 if
            it copies, else 1.
        has_value_network: Its value is a network of observations alone, which may have the trunk of its policy.
        num_output_layers: How many of acting_layers(), counted from the last, have no width of `hidden_sizes`.
        frame_stack: Frames that its networks see together, as set() must say too; None: whatever set() says.
        couples_samples: Samples of a batch influence each other's loss on purpose.
        searches_ahead: Its action() searches in a simulator of the environment, from observations and by rewards as
            they are; normalised ones are refused. While steps are collected, `exploration` is there.
        normal_inputs: Standard normal numbers that the loss draws on: shapes for one sample, by name.
        shared_normal_inputs: Those of them that are the same for all samples of a minibatch.
        resamples_noise: Whether it draws noise for noisy layers of its networks; see `acting_noise`.
        acting_noise: Standard normal numbers that it draws on for one observation while it explores. Then
            noisy_action(s, noise) answers in place of action(s), with noise [B, acting_noise] for s [B, *obs]. 0: none.
        groups_at_sync: Parameter groups that learn only in the steps that also move the targets.
        reported_names: What its loss may give to report(), by name.
        action_mask, next_action_mask: While its loss is evaluated, 1 where an action was allowed in the observations of
            the minibatch and in those that followed, else 0, [B, A]; None: the environment does not tell, and all are.
        importance_ratio: While its loss is evaluated, pi(a|s) / mu(a|s) of the agent's own policy pi and the policy mu
            that chose, when it chose, [B]; None: that drew from pi. A class that declares it weighs by it.
        exploration: The generator of random numbers of exploration, while steps are collected for training; None: the
            agent acts without exploration, or is not one that declares `searches_ahead`.
        gsde: State-dependent exploration; None: its noise does not depend on the state, or there is none.
        state_before, episode_start: Of a recurrent agent, while its loss is evaluated; see `initial_state`. Else None.
        needs_memory: Whether its network must have a memory.
    """

    framework: ClassVar[Framework] = "none"
    on_policy: ClassVar[bool | None] = None
    action_kinds: ClassVar[tuple[ActionKind, ...] | None] = None
    batch_attributes: ClassVar[tuple[str, ...]] = ()
    reads_triplets: ClassVar[bool | None] = None
    default_gae_lambda: ClassVar[float] = 0.95
    default_normalise_advantage: ClassVar[bool] = True
    has_value_network: ClassVar[bool] = False
    resamples_noise: ClassVar[bool] = False
    searches_ahead: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = False
    set_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    reported_names: ClassVar[tuple[str, ...]] = ()
    default_update_batches: int | None = None
    frame_stack: int | None = None
    num_output_layers: int = 1
    couples_samples: bool = False
    normal_inputs: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    shared_normal_inputs: Collection[str] = ()
    acting_noise: int = 0
    groups_at_sync: Sequence[int] = ()
    action_mask: Any = None
    next_action_mask: Any = None
    importance_ratio: Any = None
    exploration: np.random.Generator | None = None
    gsde: Any = None
    state_before: Any = None
    episode_start: Any = None

    def meaning(self) -> Mapping[str, Any]:
        """Returns the meaning of its outputs, JSON-able, where shapes do not tell it: files note and compare it."""
        return {}

    @classmethod
    def refuse_to_move(cls, name: str) -> None:
        """Refuses to change a setting while the agent is trained where that had no effect (SettingsError)."""

    def initial_state(self, num_envs: int) -> Mapping[str, Array]:
        """Returns the state in which episodes begin. An agent for which that is not empty is recurrent.

        Its action() then takes a second argument and returns a pair:

            def action(self, s, state):  # s [B, *obs]; state: tensors [B, ...] by name
                hidden = self.cell(s, state["hidden"])
                return self.head(hidden), {"hidden": hidden}  # answers [B, ...], and the state behind them

        The state behind a step has the names and shapes of the one before it. Who keeps it, one row for each
        environment, and who says which observations begin an episode:

        - in training the collector, in this process or in a worker process, each for its own environments; it stands
          in checkpoints, so that a resumed run goes on within episodes. Rows are those of this method in the first step
          of an episode, in every autoreset mode of a vector environment: where one begins an episode in a step of its
          own, the row begins anew behind that step, and rows of other environments stay as they are;
        - in evaluations and films `note_rl.collect.evaluation.Greedy`, made anew for each;
        - the caller of `predict(obs, state, episode_start)`, to whom it is returned as NumPy arrays.

        An agent with `state_before` among its `batch_attributes` learns from whole sequences of one environment. A
        minibatch [B] of a rollout then consists of n sequences of L = B / n steps, one after the other. Its loss reads:

        - `self.state_before` [n, S]: the states before the first steps of the sequences, as they were stored when the
          agent acted; the arrays of a state stand in a row in the order of their names;
        - `self.episode_start` [B]: 1 where an episode begins, so that the state before this step is that of this
          method, else 0.

        Its value(s, state) returns a pair, as action() does: values [B], and the state behind them. The value of a
        last observation is asked for with the state that the agent would have seen it in.

        With `sequences=True` the sequences are of a pool, and their steps have an axis of their own:
        `self.state_before` is [B, S], and `self.episode_start` is [B, T], as r is.

        Args:
            num_envs: B, the number of rows.

        Returns:
            NumPy arrays [B, ...] by name, float64 is converted to float32; empty: the agent has no state.
        """
        del num_envs
        return {}

    def state_read_by(self, method: str) -> Sequence[str]:
        """Returns the names of the arrays of its state that a method reads: the method answers without the others, too.

        Args:
            method: action or value.
        """
        del method
        return list(self.initial_state(1))

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Refuses declarations that mean nothing (AgentContractError)."""
        super().__init_subclass__(**keywords)
        _check_flag(cls, "on_policy", (None, True, False))
        _check_flag(cls, "reads_triplets", (None, True, False))
        _check_flag(cls, "has_value_network", (False, True))
        _check_flag(cls, "searches_ahead", (False, True))
        _check_flag(cls, "needs_memory", (False, True))
        if vars(cls).get("action_kinds") is not None:
            _check_names(cls, "action_kinds", get_args(ActionKind))
        _check_names(cls, "batch_attributes", tuple(BATCH_ATTRIBUTES))


def is_recurrent(agent: Any) -> bool:
    """Whether an agent answers by a state, too; see `Declared.initial_state` (AgentContractError: it is none)."""
    method = getattr(type(agent), "initial_state", None)
    if method is None or method is Declared.initial_state:
        return False
    state = agent.initial_state(1)
    if not isinstance(state, Mapping):
        raise AgentContractError(
            f"{type(agent).__name__}.initial_state(1) must give arrays with 1 row by name, such as {{'h': zeros of "
            f"[1, 64]}}; got {type(state).__name__}"
        )
    return bool(state)


def state_read_by(agent: Any, method: str) -> Sequence[str]:
    """Returns what `Declared.state_read_by` says; all names where a subclass has written the method anew."""
    if is_written_below(type(agent), method, "state_read_by"):
        return list(agent.initial_state(1))
    names: Sequence[str] = agent.state_read_by(method)
    return names


def is_written_below(kind: type, method: str, said_of_it: str) -> bool:
    """Whether a class has a method of its own below the class whose other method says what the first one does."""
    own, other = (
        next((place for place, one in enumerate(kind.__mro__) if name in vars(one)), -1)
        for name in (method, said_of_it)
    )
    return own < other


def learns_from_sequences(agent: Any) -> bool:
    """Whether an agent is recurrent, and its loss reads states; see `Declared.initial_state`."""
    return STATE_BEFORE in type(agent).batch_attributes and is_recurrent(agent)


@dataclass(frozen=True)
class BatchAttribute:
    """An attribute of a minibatch that may be offered to a loss.

    Attributes:
        comes_with: The settings that bring it, for people.
        is_offered: Whether settings do; whether the agent has the methods it takes is not known here.
    """

    comes_with: Part
    is_offered: Callable[[Settings], bool]


def _from_rollouts(settings: Settings) -> bool:
    return isinstance(settings.experience, RolloutSettings)


def _from_sequences(settings: Settings) -> bool:
    return isinstance(settings.experience, SequenceSettings)


def _by_distribution(settings: Settings) -> bool:
    return type(settings.policy).log_prob is not Policy.log_prob


def _with_likelihoods(settings: Settings) -> bool:
    return _from_rollouts(settings) and _by_distribution(settings)


def _with_behaviour(settings: Settings) -> bool:
    experience = settings.experience
    changed = isinstance(experience, ReplaySettings) and (experience.hindsight is not None or experience.trajectories)
    return not changed and not settings.multi_agent and _by_distribution(settings)


def _from_an_expert(settings: Settings) -> bool:
    return settings.experience.expert is not None


def _weighted(settings: Settings) -> bool:
    return isinstance(settings.experience, ReplaySettings) and settings.experience.priority is not None


_ROLLOUTS = Sentence("comes with {}", PPO.at(True))
_SAMPLED = Sentence("use {}, or {} where actions are numbers", choice("SoftmaxPolicy"), choice("GaussianPolicy"))
_ADVANTAGES = BatchAttribute(Sentence("{} and an agent that has value(s)", _ROLLOUTS), _from_rollouts)
_EXPERT = BatchAttribute(Sentence("comes with {}", named(ReplaySettings, "expert").at("...")), _from_an_expert)

_LOG_PROB_OLD = "log_prob_old"
_STATE = BatchAttribute(
    Sentence(
        "{} or {} and an agent with a state (initial_state), and is None elsewhere", _ROLLOUTS, SEQUENCES.at(True)
    ),
    lambda settings: True,
)
_MASK = BatchAttribute(
    "comes with environments that tell which actions they allow, and is None elsewhere", lambda settings: True
)

BATCH_ATTRIBUTES: Mapping[str, BatchAttribute] = {
    "discount": BatchAttribute("comes with every minibatch", lambda settings: True),
    _LOG_PROB_OLD: BatchAttribute(
        Sentence("{} and a policy that knows how likely its actions were: {}", _ROLLOUTS, _SAMPLED),
        _with_likelihoods,
    ),
    BEHAVIOUR: BatchAttribute(
        Sentence(
            "comes with a policy to which the answers of action() are a distribution: {}, without {}, {} and {}",
            *(_SAMPLED, HER, TRL, MARL),
        ),
        _with_behaviour,
    ),
    IMPORTANCE_RATIO: BatchAttribute(
        Sentence("comes with {}, and is None elsewhere", choice("EpsGreedyQPolicy")), lambda settings: True
    ),
    ACTION_MASK: _MASK,
    NEXT_ACTION_MASK: _MASK,
    STATE_BEFORE: _STATE,
    EPISODE_START: _STATE,
    "ended": BatchAttribute(Sentence("comes with sequences of steps: {}", SEQUENCES.add()), _from_sequences),
    "advantage": _ADVANTAGES,
    "return_": _ADVANTAGES,
    "value_old": _ADVANTAGES,
    "expert_obs": _EXPERT,
    "expert_action": _EXPERT,
    "weights": BatchAttribute(
        Sentence("comes with {}; as sixth argument of __call__ they are always there", PR.at(True)), _weighted
    ),
}
"""By the name under which a loss finds it on its agent."""


def has_loss(kind: type) -> bool:
    """Whether agents of this class have a loss; a class may take back what it inherits by `__call__ = None`."""
    owner = next((one for one in kind.__mro__ if "__call__" in vars(one)), None)
    return owner is not None and vars(owner)["__call__"] is not None


def updates_itself(kind: type) -> bool:
    """Whether agents of this class take their updates by themselves: they have update() in place of a loss."""
    return not has_loss(kind) and callable(getattr(kind, "update", None))


def check_loss(kind: type) -> None:
    """Refuses agents that have no loss where one is to be measured (AgentContractError)."""
    if not has_loss(kind):
        raise AgentContractError(
            f"{kind.__name__} has update() in place of a loss: what measures losses or their gradients, such as a "
            "search for learning rates by the loss, does not go with it; compare returns instead"
        )


def check_settings(kind: type[Declared], settings: Settings) -> None:
    """Refuses settings that do not bring what an agent declares to need.

    Raises:
        AgentContractError: Naming what to set.
    """
    if settings.multi_agent and kind.action_kinds is not None:
        raise AgentContractError(
            "{} lets several agents share an environment, and {} is one agent: leave it out, or use an agent made of "
            "several, such as {}",
            *(MARL.at(True), kind.__name__, choice("MADDPG")),
        )
    _check_buffer(kind, settings)
    _check_bounds(kind, settings.policy)
    _check_as_they_are(kind, settings)
    weighs = _weighs(kind, settings)
    for name in kind.batch_attributes:
        attribute = BATCH_ATTRIBUTES[name]
        if not attribute.is_offered(settings) and not (weighs and name == _LOG_PROB_OLD and _from_rollouts(settings)):
            raise AgentContractError("the loss of {} reads {}, which {}", kind.__name__, name, attribute.comes_with)
    if updates_itself(kind):
        _check_signals(kind, settings, "has update() in its place")
    target_kl = getattr(settings.experience, "target_kl", None)
    if target_kl is not None and kind.batch_attributes and _LOG_PROB_OLD not in kind.batch_attributes:
        raise AgentContractError(
            "{} ends epochs by how far the policy has moved from the one that collected, which {} does not compare "
            "with its own: {}",
            *(TARGET_KL.at(target_kl), kind.__name__, TARGET_KL.leave_out()),
        )
    if kind.on_policy and not weighs and not _with_likelihoods(settings):
        raise AgentContractError(
            "{} learns from what its own policy chose, and {} chooses in another way: {}",
            *(kind.__name__, type(settings.policy).__name__, _SAMPLED),
        )


def _check_bounds(kind: type[Declared], policy: Policy) -> None:
    for one in getattr(policy, "policies", [policy]):
        if kind.on_policy is False and kind.action_kinds == ("bounded",) and isinstance(one, GaussianPolicy):
            raise AgentContractError(
                "{} draws actions without bounds, and {} learns from actions within bounds: explore with {}",
                *(type(one).__name__, kind.__name__, choice("SquashedGaussianPolicy, or NoisyPolicy for DDPG and TD3")),
            )


def _check_buffer(kind: type[Declared], settings: Settings) -> None:
    if kind.on_policy and not _from_rollouts(settings):
        raise AgentContractError("{} learns from rollouts of its current policy: {}", kind.__name__, PPO.add())
    if kind.on_policy is False and _from_rollouts(settings):
        raise AgentContractError(
            "{} learns from old transitions again and again, and rollouts are forgotten: {}",
            *(kind.__name__, PPO.leave_out()),
        )
    if kind.needs_memory and not _from_sequences(settings):
        raise AgentContractError(
            "{} reads the states in which it acted, which come with sequences of steps: {}",
            *(kind.__name__, choice(SEQUENCES.add().said(PYTHON))),  # by a buffer of its own on the command line
        )
    if _from_sequences(settings) and "ended" not in kind.batch_attributes:
        remembers = getattr(kind, "initial_state", None) not in (None, Declared.initial_state)
        needed = ((STATE_BEFORE, EPISODE_START) if remembers else ()) + ("ended",)
        raise AgentContractError(
            "{} draws sequences, s [B, T, ...] and r [B, T], and episodes end within them: the loss of {} must read "
            "self.ended [B, T], and declare that as batch_attributes = {!r}; else {}",
            *(
                SEQUENCES.at(True),
                kind.__name__,
                tuple(dict.fromkeys((*kind.batch_attributes, *needed))),
                SEQUENCES.leave_out(),
            ),
        )


def _check_as_they_are(kind: type[Declared], settings: Settings) -> None:
    for name in ("normalise_obs", "normalise_reward"):
        if kind.searches_ahead and getattr(settings, name):
            raise AgentContractError(
                "{} searches in a simulator, from observations and by rewards as the environment gives them: {}",
                *(kind.__name__, named(Settings, name).leave_out()),
            )


def _weighs(kind: type[Declared], settings: Settings) -> bool:
    """Whether a loss weighs what a policy chose that does not draw from the agent's probabilities."""
    return _reads_importance(kind) and settings.policy.tells_importance


def _reads_importance(kind: type[Declared]) -> bool:
    """Whether the loss in force is said to read it: a loss of the user's own does not do so as the one it replaces."""
    for one in kind.__mro__:
        if "batch_attributes" in vars(one):
            return IMPORTANCE_RATIO in vars(one)["batch_attributes"]
        if {"__call__", "update"} & vars(one).keys() and not one.__module__.startswith("note_rl."):
            return False
    return False


def say_if_weighed(kind: type[Declared], settings: Settings) -> None:
    """Logs once that an agent learns from what another policy than its own chooses."""
    if _weighs(kind, settings):
        say_once(
            _log,
            "{} learns probabilities, and {} chooses by others: every step is weighed by how much likelier the learned "
            "ones make it, and such gradients scatter more than those of {}, which draws from the learned ones",
            *(kind.__name__, type(settings.policy).__name__, choice("SoftmaxPolicy")),
        )


def check_sequences(agent: Any, settings: Settings) -> None:
    """Refuses what an agent cannot learn from that learns from whole sequences, or cannot be measured of it.

    Raises:
        AgentContractError: Naming what to set.
    """
    if learns_from_sequences(agent):
        if not (_from_rollouts(settings) or _from_sequences(settings)):
            raise AgentContractError(
                "{} has a memory (initial_state) and learns from whole sequences, of rollouts or of a pool: {}, or {}",
                *(type(agent).__name__, PPO.add(), SEQUENCES.add()),
            )
        _check_signals(type(agent), settings, "learns from whole sequences, of which the samples are no parts")


def _check_signals(kind: type[Declared], settings: Settings, reason: str) -> None:
    adaptive = settings.adaptive
    measured = [] if adaptive is None or adaptive.mode == "off" else adaptive.all_signals()
    if any(getattr(signal, "reads_gradients", False) for signal in measured):
        raise AgentContractError(
            "adaptive: gradients of a loss are to be measured, and {} {}: choose other signals",
            *(kind.__name__, choice(reason)),
        )


_SPACES: Mapping[ActionKind, type[spaces.Space[Any]]] = {
    "discrete": spaces.Discrete,
    "multi_discrete": spaces.MultiDiscrete,
    "multi_binary": spaces.MultiBinary,
    "continuous": spaces.Box,
}


def check_actions(kind: type[Declared], env: Env) -> None:
    """Refuses an environment of one agent whose actions are of a kind that the agent does not give.

    Raises:
        EnvironmentMismatchError: Naming both.
    """
    kinds = kind.action_kinds
    taken = next((name for name, space in _SPACES.items() if isinstance(env.action_space, space)), None)
    if kinds is None or taken in kinds:
        return
    if "discrete" in kinds and not (taken == "continuous" and "bounded" in kinds):
        num_discrete_actions(env, kind.__name__)
    else:
        bounded_actions(env, kind.__name__)


def _check_flag(kind: type[Declared], name: str, allowed: tuple[bool | None, ...]) -> None:
    value = vars(kind).get(name, allowed[0])
    if not any(value is one for one in allowed):
        raise AgentContractError(f"{kind.__name__}.{name} must be {' or '.join(map(str, allowed))}, got {value!r}")


def _check_names(kind: type[Declared], attribute: str, known: tuple[str, ...]) -> None:
    declared = vars(kind).get(attribute, ())
    if not isinstance(declared, tuple) or not all(name in known for name in declared):
        raise AgentContractError(
            f"{kind.__name__}.{attribute} must be a tuple of names among {', '.join(known)}; got {declared!r}"
        )
