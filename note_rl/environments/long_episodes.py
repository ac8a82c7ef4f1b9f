"""Episodes of evaluations end, also in environments that never end them; training says that it waits."""

import logging
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from note_rl.environments.observations import name_of
from note_rl.environments.wrappers import wrapper_of
from note_rl.errors import say_once
from note_rl.errors.wording import Sentence, choice

_log = logging.getLogger(__name__)
LONG, LONGEST = 10_000, 1_000_000
"""Steps of an episode, after which it is said that it goes on, and after which it is cut off."""
_REMEDY = Sentence("{} sets a time limit", choice("gymnasium.wrappers.TimeLimit"))


class LongEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says where an episode is long, and cuts off those that do not end.

    Args:
        env: The environment.
        is_random: Whether actions are random: then episodes are cut off after `LONG` steps, otherwise after `LONGEST`.
    """

    _num_steps = 0

    def __init__(self, env: Any, *, is_random: bool = False) -> None:
        super().__init__(env)
        self._is_random = is_random

    def reset(self, **arguments: Any) -> Any:
        """Begins an episode."""
        self._num_steps = 0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> Any:
        """One step."""
        answer = self.env.step(action)
        self._num_steps += 1
        longest = LONG if self._is_random else LONGEST
        if LONG == self._num_steps < longest:
            say_once(
                _log,
                "an evaluation episode of {} has not ended after {:,} steps, and there is no time limit: it is cut off "
                "after {:,}; {}",
                *(name_of(self), LONG, longest, _REMEDY),
            )
        if self._num_steps < longest:
            return answer
        if self._is_random:
            say_once(
                _log,
                "an episode of the random policy in {} was cut off after {:,} steps, and its return until then counts. "
                "Episodes of an agent go on for up to {:,} steps, so their returns may be on another scale; {}",
                *(name_of(self), longest, LONGEST, _REMEDY),
            )
        else:
            say_once(
                _log,
                "an evaluation episode of {} was cut off after {:,} steps, and its return until then counts; {}",
                *(name_of(self), longest, _REMEDY),
            )
        obs, reward, terminated, _, info = answer
        return obs, reward, terminated, True, info


def say_if_none_ends(num_steps: int, what_waits: str) -> None:
    """Says once that no episode has ended in `LONG` steps of training.

    Args:
        num_steps: Of each environment since one has ended.
        what_waits: For an end, and how to do without, for the message.
    """
    if num_steps >= LONG:
        say_once(
            _log,
            "no episode of training has ended in {:,} steps of each environment, and {}; {}",
            *(LONG, what_waits, _REMEDY),
        )


def limited(env: Any, *, is_random: bool = False) -> Any:
    """The environment; where it has no time limit, its episodes are cut off as `LongEpisodes` says."""
    if not isinstance(env, gymnasium.Env):
        return env
    has_limit = (getattr(env.spec, "max_episode_steps", None) or 0) > 0 or wrapper_of(env, TimeLimit) is not None
    return env if has_limit else LongEpisodes(env, is_random=is_random)
