"""The agent as experience sees it, and the experience that settings ask for."""

import logging
import math
from typing import Any

import numpy as np

from note_rl.environments.goals import GoalLayout
from note_rl.environments.normalise import RewardNormaliser
from note_rl.errors import SettingsError, say_once
from note_rl.errors.wording import SettingName
from note_rl.learners.base import Learner
from note_rl.learners.declarations import learns_from_sequences, state_read_by
from note_rl.learners.recurrence import unpacked
from note_rl.replay.experience.base import AgentView, Experience
from note_rl.replay.experience.replay_experience import ReplayExperience
from note_rl.replay.experience.rollout_experience import RolloutExperience
from note_rl.replay.experience.rollout_sequences import SequencedRolloutExperience
from note_rl.replay.experience.sequences import SequenceExperience
from note_rl.replay.hindsight import goal_functions
from note_rl.replay.whole_sequences import ValueFromState
from note_rl.settings import ReplaySettings, RolloutSettings, Settings
from note_rl.support.setting_fields import given, named
from note_rl.types import Array, FloatArray

_log = logging.getLogger(__name__)


def agent_view(
    agent: Any,
    learner: Learner,
    settings: Settings,
    goals: GoalLayout | None,
    reward: RewardNormaliser | None,
) -> AgentView:
    """Returns the interface of experience to an agent.

    Args:
        agent: Whose gamma and gae_lambda are read anew each time, as schedules may move them.
        learner: Evaluates its value() and reward().
        settings: Whether the moments of observations move.
        goals: Where the goal stands in an observation, where tasks have one.
        reward: Normalises rewards; None: they stay as they are.
    """
    if agent.obs_normaliser.moments is not None and not settings.normalise_obs:
        _log.info("observations stay normalised as they were when these weights were trained; their moments stay, too")
    in_sequences, has_value = learns_from_sequences(agent), hasattr(agent, "value")
    told = getattr(agent, "normalise_advantage", agent.default_normalise_advantage)
    return AgentView(
        gamma=(lambda: float(agent.gamma)) if hasattr(agent, "gamma") else None,
        gae_lambda=lambda: float(getattr(agent, "gae_lambda", agent.default_gae_lambda)),
        value=learner.value if has_value and not in_sequences else None,
        value_from=_value_from(agent, learner) if has_value and in_sequences else None,
        in_sequences=in_sequences,
        reward=learner.reward if hasattr(agent, "reward") else None,
        goals=goal_functions(agent, goals),
        standardise_advantage=told if told == "minibatch" else bool(told),
        normaliser=agent.obs_normaliser,
        normalise_reward=reward,
        normal_nbytes=4 * sum(math.prod(shape) for shape in agent.normal_inputs.values()),
    )


def _value_from(agent: Any, learner: Learner) -> ValueFromState:
    """Values of observations in states that stand in rows, and of the next ones in the states behind the first."""
    read = state_read_by(agent, "value")

    def value_from(obs: Array, next_obs: Array, before: FloatArray) -> FloatArray:
        state = unpacked(before, agent)
        values, after = learner.value_from(obs, {name: state[name] for name in read})
        next_values, _ = learner.value_from(next_obs, dict(after))
        return np.stack([values, next_values])

    return value_from


def make_experience(settings: Settings, view: AgentView, num_envs: int, rng: np.random.Generator) -> Experience:
    """Replay, rollouts or sequences.

    Raises:
        NoteRLError: The agent or the number of environments does not fit.
    """
    chosen = settings.experience
    if isinstance(chosen, ReplaySettings):
        return ReplayExperience(chosen, view, rng)
    if isinstance(chosen, RolloutSettings):
        chosen.check_memory(view.in_sequences, num_envs)
        if not view.in_sequences:
            return RolloutExperience(chosen.for_envs(num_envs), view, rng)
        length = chosen.steps_of_sequence(num_envs)
        _check_adapted(settings, length)
        _say_if_short(chosen, num_envs, length)
        return SequencedRolloutExperience(chosen.for_envs(num_envs), view, rng, length)
    return SequenceExperience(chosen.for_envs(num_envs), view, rng)


def _check_adapted(settings: Settings, length: int) -> None:
    """Refuses batch sizes that are no whole sequences (SettingsError)."""
    adapters = {} if settings.adaptive is None else settings.adaptive.adapters()
    if "batch_size" in adapters and adapters["batch_size"].align % length:
        raise SettingsError(
            "adaptive: batch sizes that are multiples of {} are no whole sequences of {} steps; give {}",
            *(adapters["batch_size"].align, length),
            SettingName("parameters.batch_size.align", part="Adaptive").at(length),
        )


def _say_if_short(chosen: RolloutSettings, num_envs: int, length: int) -> None:
    """Logs once that the sizes of rollout and minibatch leave short sequences."""
    steps = chosen.steps_per_env(num_envs)
    if chosen.sequence_length is None and length < steps:
        say_once(
            _log,
            "an agent with a memory learns here from sequences of {} steps, the longest that divide the {} steps of "
            "each environment and {}: for sequences of whole rollouts, choose a multiple of {} as {}",
            *(length, steps, given(chosen, "batch_size"), steps, named(RolloutSettings, "batch_size")),
        )
