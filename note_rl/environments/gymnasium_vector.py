"""Vector environments of Gymnasium's kind, made elsewhere, as the training core steps them.

They differ in when an ended episode gives way to the next (Gymnasium's `AutoresetMode`):

* SAME_STEP: in the step that ended it. The true last observation is then found in `info["final_obs"]`.
* DISABLED: when they are reset, with `options={"reset_mask": ...}`.
* NEXT_STEP: in a step of its own, whose action, reward and ends mean nothing, while the others go on.

Gymnasium's own SyncVectorEnv and AsyncVectorEnv take a `reset_mask` in NEXT_STEP too, with a seed for each environment
(their reset() clears the mark that would make the next step a dead one). They are therefore reset explicitly, each
episode gets the seed that it has in `VectorEnvironment`, there is no dead step, and episodes can be replayed. For
others in NEXT_STEP the dead steps are marked in `alive`, and `collect.rows` closes the gaps: skipping the step is no
way out, since the other environments have really taken it, and so is refusing their part of it.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from note_rl.environments.action_masks import ReadMasks, check_unheeded, checked_masks, vector_mask_reader
from note_rl.environments.base import AnyVectorEnv, as_the_space_has_it
from note_rl.environments.goals import GoalLayout
from note_rl.environments.in_process import check_number
from note_rl.environments.observations import ObservationReader, name_of
from note_rl.environments.step_checks import MISTAKES, check_arrays_are_new, explain_vector
from note_rl.environments.training_only import VectorChange
from note_rl.errors import EnvironmentMismatchError
from note_rl.seeding import integer
from note_rl.support.precision import in_single_precision
from note_rl.types import ACTION_MASK, Array, BoolArray, FloatArray


def foreign_environments(env: AnyVectorEnv, seed: int, goals: GoalLayout | None = None) -> "ForeignVector":
    """A vector environment made elsewhere, in whichever autoreset mode.

    Args:
        env: At any point of its life: all of its environments begin new episodes.
        seed: Root of their seeds.
        goals: Layout of the observations of one of its environments, where they have a goal.

    Raises:
        EnvironmentMismatchError: It does not say its mode, or has observations that are no array.
    """
    mode = env.metadata.get("autoreset_mode")
    if mode not in tuple(AutoresetMode):
        raise EnvironmentMismatchError(
            f"{name_of(env)} does not say when it begins new episodes (metadata['autoreset_mode'] is {mode!r}); set "
            "it to one of gymnasium.vector.AutoresetMode"
        )
    if mode is AutoresetMode.SAME_STEP:
        return _SameStep(env, seed, goals)
    if takes_seeds(env):
        return SeededVector(env, seed, goals)
    return _Disabled(env, seed, goals) if mode is AutoresetMode.DISABLED else _NextStep(env, seed, goals)


def takes_seeds(env: AnyVectorEnv) -> bool:
    """Whether reset() takes a list of seeds together with a `reset_mask`; wrappers may not pass them on."""
    if isinstance(env, AsyncVectorEnv):  # without shared memory its workers keep the mark (seen in Gymnasium 1.4)
        return bool(env.shared_memory)
    return isinstance(env, SyncVectorEnv) or bool(getattr(type(env), "takes_seeds", False))


class ForeignVector(abc.ABC):
    """E environments behind one `step`. Subclasses say how ended episodes give way to new ones.

    Attributes:
        for_training: What changes rewards and ends for the agent alone; see `training_only`.
    """

    def __init__(self, env: AnyVectorEnv, seed: int, goals: GoalLayout | None) -> None:
        self.env = env
        inner: Any = env.unwrapped
        self.name = name_of(inner.envs[0] if isinstance(inner, SyncVectorEnv) else env)
        self.seed = seed
        self.action_space = env.single_action_space
        self.observation_space = env.single_observation_space
        self.goal_layout = goals
        self.achieved_goal: FloatArray | None = None
        self.alive: BoolArray | None = None
        self.for_training: Sequence[VectorChange] = ()
        self.counted: FloatArray = np.zeros(len(self))
        self.action_mask: BoolArray | None = None
        self.next_action_mask: BoolArray | None = None
        self._read_masks: ReadMasks | None = None
        self._has_looked = False  # for masks that are not read
        self._has_goals = goals is not None
        if goals is not None:
            self.observation_space = spaces.Box(-np.inf, np.inf, (goals.obs_size + goals.goal_size,), np.float32)
        if not isinstance(self.observation_space, spaces.Box):
            raise EnvironmentMismatchError(
                f"{name_of(env)} shows {self.observation_space}, and vector environments must show arrays; wrap the "
                "single environments with gymnasium.wrappers.FlattenObservation"
            )
        self._read = ObservationReader(self.name, self.observation_space)
        if not self.observation_space.shape:  # single numbers
            space = self.observation_space
            self.observation_space = spaces.Box(space.low.reshape(1), space.high.reshape(1), dtype=space.dtype.type)
        self.obs: Array = self._begin()

    def restart(self, seed: int | None = None) -> None:
        """Begins new episodes everywhere, from another seed."""
        self.seed = self.seed + 1 if seed is None else seed
        self.alive = None
        self.obs = self._begin()

    def _begin(self) -> Array:
        """All environments at the start of an episode."""
        seed = integer(self.seed, "environment", 0, 0)
        try:
            obs, info = self.env.reset(seed=seed)
        except (TypeError, OverflowError):  # ALE's takes 31 bits
            obs, info = self._reset(seed=seed % 2**31)
        self._begun(info, np.ones(len(self), np.bool_))
        return self._seen(obs)[0]

    def _reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        try:
            obs, info = self.env.reset(**arguments)
        except MISTAKES as error:
            explain_vector(self.env, error)
            raise
        return obs, info

    def _begun(self, info: Mapping[str, Any], mask: BoolArray) -> None:
        """The environments in `mask` [E] have begun episodes, with this info."""
        if self.action_mask is None:
            self._read_masks = vector_mask_reader(self.env, info)
        if self._read_masks is not None:
            allowed = checked_masks(self._read_masks(info), ~mask, self.action_space)
            before = allowed if self.action_mask is None else self.action_mask
            self.action_mask = np.where(mask[:, None], allowed, before)

    def _stepped(self, info: Mapping[str, Any], ended: BoolArray) -> None:
        """All environments have taken a step, with this info, that ended the episodes in `ended` [E]."""
        if self._read_masks is not None:
            self.next_action_mask = checked_masks(self._read_masks(info), ended, self.action_space)
            self.action_mask = self.next_action_mask

    @abc.abstractmethod
    def _move_on(self, obs: Array, achieved: FloatArray | None, ended: BoolArray, info: Mapping[str, Any]) -> Array:
        """Next observations of environments that showed `obs` [E, *obs] in this step, the true last one included.

        Where the environments have already begun anew, the true last observations are put into `obs` and `achieved`.
        """

    def _alive(self) -> BoolArray | None:
        """Which environments [E] have really taken this step; None: all."""
        return None

    def __len__(self) -> int:
        """E."""
        return int(self.env.num_envs)

    def step(self, action: Array) -> tuple[Array, FloatArray, Array, BoolArray, BoolArray]:
        """Takes one step in each environment; see `Environments.step`."""
        try:
            shown, gain, terminations, truncations, info = self.env.step(self._to_env(action))
        except MISTAKES as error:
            explain_vector(self.env, error)
            raise
        obs, achieved = self._seen(shown)
        self.counted = self._each(gain, "the rewards", np.float64)
        terminated = self._each(terminations, "terminated", np.bool_)
        ended = terminated | self._each(truncations, "truncated", np.bool_)
        self.alive = self._alive()
        if self.alive is not None:  # whatever the others are said to have got or to have ended with
            self.counted[~self.alive] = 0.0
            terminated &= self.alive
            ended &= self.alive
        if self._read_masks is None and not self._has_looked:
            self._has_looked = True
            check_unheeded(self.name, self.action_space, info)
        self._stepped(info, ended)
        previous, gain = self.obs, self.counted
        for change in self.for_training:
            gain, terminated = change(gain, terminated, info)
        self.obs = self._move_on(obs, achieved, ended, info)
        self.achieved_goal = achieved
        return previous, in_single_precision(gain), obs, terminated, ended

    def _each(self, values: Any, what: str, dtype: type[np.generic]) -> Array:
        """A copy of values [E] of each environment."""
        array = np.asarray(values)
        if array.size != len(self):
            raise EnvironmentMismatchError(
                f"step() of {self.name} gave {what} of the shape {list(array.shape)}: give one for each of its "
                f"{len(self)} environments"
            )
        return array.reshape(-1).astype(dtype)

    def _to_env(self, action: Array) -> Array:
        """A copy, as environments may write to it."""
        return np.array(as_the_space_has_it(action, self.action_space), self.env.action_space.dtype)

    def _seen(self, shown: Any, num: int | None = None) -> tuple[Array, FloatArray | None]:
        """Copies of observations [E, *obs], or another number, and, of goal observations, the goals achieved [E, G]."""
        num = len(self) if num is None else num
        if not self._has_goals:
            seen = np.array(self._read.several(shown, num, "reset() or step()"), order="C")  # sums go by the layout
            return seen.reshape(num, -1) if seen.ndim == 1 else seen, None
        flat = {name: np.asarray(part, np.float32).reshape(len(part), -1) for name, part in shown.items()}
        return np.concatenate([flat["observation"], flat["desired_goal"]], axis=1), flat["achieved_goal"].copy()

    def get_state(self) -> dict[str, Array]:
        """The current observations: where the environments are cannot be read."""
        return {"episode": np.zeros(len(self), np.int64), "obs": self.obs}

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Begins new episodes, as these environments cannot be brought back: False."""
        check_number(state, len(self))
        self.restart(self.seed)
        return False

    def close(self) -> None:
        """Closes the vector environment."""
        self.env.close()


class _SameStep(ForeignVector):
    """Already begun anew when step() returns; later episodes go on from each environment's own random numbers."""

    _has_probed = False

    def _begin(self) -> Array:
        if not takes_seeds(self.env):
            return super()._begin()
        everybody = np.ones(len(self), np.bool_)
        obs, info = self._reset(seed=_seeds(self.seed, np.zeros(len(self), np.int64), everybody))
        self._begun(info, everybody)
        return self._seen(obs)[0]

    def _stepped(self, info: Mapping[str, Any], ended: BoolArray) -> None:
        """It is that of the new episodes; that of the last observations stands in `final_info`, if at all."""
        if self._read_masks is None:
            return
        self.action_mask = checked_masks(self._read_masks(info), np.zeros_like(ended), self.action_space)
        last = info.get("final_info", {}).get(ACTION_MASK)
        self.next_action_mask = np.where(
            ended[:, None], checked_masks(last, np.ones_like(ended), self.action_space), self.action_mask
        )

    def _move_on(self, obs: Array, achieved: FloatArray | None, ended: BoolArray, info: Mapping[str, Any]) -> Array:
        if not ended.any():
            return obs
        now = obs.copy()
        final = info.get("final_obs")
        for index in np.flatnonzero(ended):
            last = None if final is None else final[index]
            if last is None:
                raise EnvironmentMismatchError(
                    f"{name_of(self.env)} begins episodes in the step that ends the last one, but its info has no "
                    "'final_obs' of it, so the value of time limits would be wrong"
                )
            one = (
                {name: np.asarray(part)[None] for name, part in last.items()}
                if self._has_goals
                else np.asarray(last)[None]
            )
            seen, reached = self._seen(one, 1)
            if not self._has_probed and np.array_equal(seen[0], now[index]):
                self._has_probed = True
                check_arrays_are_new(self.env, self.name)
            obs[index] = seen[0]
            if achieved is not None and reached is not None:
                achieved[index] = reached[0]
        return now


class _Disabled(ForeignVector):
    """Begins anew when it is asked to."""

    def _move_on(self, obs: Array, achieved: FloatArray | None, ended: BoolArray, info: Mapping[str, Any]) -> Array:
        if not ended.any():
            return obs
        shown, info = self._reset(options={"reset_mask": ended.copy()})
        self._begun(info, ended)
        return np.where(_rows(ended, obs), self._seen(shown)[0], obs)


class _NextStep(ForeignVector):
    """Begins anew in the step after the end, which is dead for those that do."""

    _dead: BoolArray | None = None  # [E] whose next step is one

    def _begin(self) -> Array:
        self._dead = None
        return super()._begin()

    def _alive(self) -> BoolArray | None:
        return None if self._dead is None else ~self._dead

    def _move_on(self, obs: Array, achieved: FloatArray | None, ended: BoolArray, info: Mapping[str, Any]) -> Array:
        self._dead = ended.copy() if ended.any() else None
        return obs


class SeededVector(ForeignVector):
    """Begins anew when it is asked to, with a given seed: the same episodes as in `VectorEnvironment`."""

    def _begin(self) -> Array:
        self._episode = np.zeros(len(self), np.int64)
        self._length = np.zeros(len(self), np.int64)  # [E] steps of the running episodes
        self._taken: list[Array] = []  # actions [E] or [E, A] since the oldest of them began
        return self._restarted(np.ones(len(self), np.bool_), None)

    def _restarted(self, mask: BoolArray, obs: Array | None) -> Array:
        """Observations once the environments in `mask` [E] have begun the episodes of the numbers in `_episode`."""
        seeds = _seeds(self.seed, self._episode, mask)
        shown, info = self._reset(seed=seeds, options={"reset_mask": mask.copy()})
        self._begun(info, mask)
        self._length[mask] = 0
        seen = self._seen(shown)[0]
        return seen if obs is None else np.where(_rows(mask, obs), seen, obs)

    def step(self, action: Array) -> tuple[Array, FloatArray, Array, BoolArray, BoolArray]:
        """Takes one step in each environment; see `Environments.step`."""
        self._taken.append(np.array(action))
        self._length += 1
        return super().step(action)

    def _move_on(self, obs: Array, achieved: FloatArray | None, ended: BoolArray, info: Mapping[str, Any]) -> Array:
        if not ended.any():
            return obs
        self._episode += ended
        begun = self._restarted(ended, obs)
        del self._taken[: len(self._taken) - int(self._length.max())]
        return begun

    def get_state(self) -> dict[str, Array]:
        """Per environment: the number of its episode, and the actions taken in it so far."""
        state = {"episode": self._episode.copy(), "obs": self.obs}
        for index, length in enumerate(self._length):
            rows = self._taken[len(self._taken) - length :]
            state[f"actions/{index}"] = np.asarray([row[index] for row in rows])
        return state

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Replays all episodes so that they end together: the longest begins first, the others as late as they can.

        Returns:
            Whether the replay ended in the stored observation.

        Raises:
            CheckpointError: The state is of another number of environments.
        """
        check_number(state, len(self))
        taken = [state[f"actions/{index}"] for index in range(len(self))]
        self.obs = self._begin()
        wanted = np.array(state["episode"])
        left = max(map(len, taken))
        idle = next(
            (actions[0] for actions in taken if len(actions)), np.zeros(0)
        )  # an environment that waits may play any action
        while left > 0:
            self._begin_episodes(wanted, np.array([len(actions) == left for actions in taken]))
            self.step(np.stack([actions[-left] if len(actions) >= left else idle for actions in taken]))
            left -= 1
        self._begin_episodes(wanted, np.array([len(actions) == 0 for actions in taken]))
        exact = bool(np.array_equal(self.obs, state["obs"]) and np.array_equal(self._episode, wanted))
        if not exact:
            self.restart()
        return exact

    def _begin_episodes(self, wanted: Array, mask: BoolArray) -> None:
        if mask.any():
            self._episode[mask] = wanted[mask]
            self.obs = self._restarted(mask, self.obs)


def _seeds(seed: int, episode: Array, mask: BoolArray) -> Any:  # a list, which VectorEnv's annotation does not know
    return [
        integer(seed, "environment", index, int(episode[index])) if begins else None
        for index, begins in enumerate(mask.tolist())
    ]


def _rows(mask: BoolArray, like: Array) -> BoolArray:
    return mask.reshape(-1, *[1] * (like.ndim - 1))
