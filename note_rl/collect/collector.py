"""Collecting experience in this process."""

from collections.abc import Mapping, Sequence

import numpy as np

from note_rl.collect.base import Collecting
from note_rl.collect.contract import check_allowed, check_answers
from note_rl.collect.policy_runner import Act, PolicyRunner, answers_of, masked_answers
from note_rl.collect.step_rows import Rows
from note_rl.environments import Environments
from note_rl.environments.frames import FrameStack
from note_rl.environments.long_episodes import say_if_none_ends
from note_rl.environments.observations import check_finite, check_rewards, say_if_dark, say_if_rounded
from note_rl.errors import CheckpointError
from note_rl.learners.base import Learner
from note_rl.learners.recurrence import RecurrentState
from note_rl.policy import Policy
from note_rl.settings import Settings
from note_rl.settings.switch_names import POOL_NETWORK
from note_rl.types import BEHAVIOUR, IMPORTANCE_RATIO, STATE_BEFORE, Array, Episode, FloatArray, Steps, nested, under

_WAITS = "what comes next waits for the end of one: train_freq (buffer.train_freq) says after how many steps to learn"


class Collector(Collecting):
    """Lets a policy act in E environments and keeps account of their episodes.

    Args:
        envs: The environments.
        policy: Chooses actions.
        rng: All randomness of exploration.
        frame_stack: Frames that are shown to the agent together; what is collected holds each of them once.
        reads: What the agent's loss reads besides (`Declared.batch_attributes`). With `behaviour` among it, what the
            agent answers is collected, too; with `importance_ratio`, how likely that makes what was chosen; with
            `state_before`, the states of a recurrent agent and where episodes begin.
    """

    def __init__(
        self,
        envs: Environments,
        policy: Policy,
        rng: np.random.Generator,
        frame_stack: int = 1,
        reads: Sequence[str] = (),
    ) -> None:
        self.envs = envs
        self.policy = policy
        self.rng = rng
        self.num_envs = len(envs)
        self.action_space, self.observation_space = envs.action_space, envs.observation_space
        self.goal_layout = envs.goal_layout
        policy.bind(envs.action_space, len(envs))
        self._frames = FrameStack(frame_stack)
        self._keep_answers = BEHAVIOUR in reads
        self._keep_importance = IMPORTANCE_RATIO in reads
        self._keep_states = STATE_BEFORE in reads
        self._recurrent = RecurrentState(keeps_before=self._keep_states)
        self._rows = Rows(len(envs))
        self._begin_episodes()
        self._answers_seen = False  # and found to fit
        self._earned: list[FloatArray] = []  # counted rewards of the steps that these two do not yet hold
        say_if_dark(envs.name, envs.observation_space)
        self._is_under_way = False  # a call of collect(), also one that an exception has cut off

    def begin(self, act: PolicyRunner[Learner]) -> bool:
        """See `Collecting`; where the last call of collect() was cut off, new episodes begin."""
        if not self._is_under_way:
            return True
        self.envs.restart()
        self._rows, self._earned, self._is_under_way = Rows(self.num_envs), [], False
        self._begin_episodes()
        self._recurrent = RecurrentState(keeps_before=self._keep_states)
        self.policy.reset(np.arange(self.num_envs))
        return False

    def _begin_episodes(self) -> None:
        self._starts = np.ones(self.num_envs, np.bool_)  # where the next step is the first of an episode
        self._return, self._length = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)

    def explore_with(self, policy: Policy, settings: Settings) -> None:
        """See `Collecting`."""
        policy.bind(self.envs.action_space, len(self.envs))
        self.policy = policy
        self._answers_seen = False

    def collect(self, act: Act, num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """Goes on from where the last call stopped.

        Args:
            act: Scores [E, A] for observations [E, *obs].
            num_steps: Steps per environment; None: until an episode ends.

        Returns:
            The steps taken [T, E] and the episodes that ended in them, in order.
        """
        self._is_under_way = True
        rows, envs, policy = self._rows, self.envs, self.policy
        answers_to = answers_of(act, self._recurrent, self.rng)
        episodes: list[Episode] = []
        while len(rows) < num_steps if num_steps is not None else not (episodes and len(rows)):
            check_finite(envs.name, envs.obs)  # before products with it, of which NumPy would warn
            scores = answers_to(self._frames.show(envs.obs, self._starts), self._starts)
            if not self._answers_seen:
                check_answers(scores, self.num_envs, policy, envs.action_space)
                self._answers_seen = True
            mask = envs.action_mask
            scores = masked_answers(act, policy, scores, mask)
            action = policy.select(scores, self.rng)
            if mask is not None:
                check_allowed(action, mask, policy)
            if self._keep_importance:
                log_prob, importance = policy.likelihoods(scores, action)
            else:
                log_prob, importance = policy.log_prob(scores, action), None
            obs, reward, next_obs, terminated, ended = envs.step(policy.for_env(action))
            answers = scores if self._keep_answers else None
            states = self._recurrent.before
            starts = None if states is None else self._starts
            further = (envs.achieved_goal, answers, importance, mask, envs.next_action_mask, states, starts)
            row = (obs, action, reward, next_obs, terminated, ended, log_prob, *further)
            rows.add(row, envs.alive)
            self._earned.append(envs.counted)
            self._starts = ended
            if num_steps is None:
                say_if_none_ends(len(rows), _WAITS)
            if envs.alive is not None:
                self._length -= ~envs.alive
                self._starts = ended | ~envs.alive
            if True in self._starts.tolist():  # several times faster than any() on a few booleans
                episodes.extend(self._finish(ended))
                policy.reset(np.flatnonzero(self._starts))
        self._settle()
        steps = rows.take()
        say_if_rounded(envs.name, steps.obs)
        check_finite(envs.name, steps.next_obs)
        check_rewards(envs.name, steps.reward)  # in single precision
        self._is_under_way = False
        return steps, episodes

    def _settle(self) -> None:
        """Adds what was earned since the last time, step by step as if at once: an addition costs more than a list."""
        if self._earned:
            single = len(self._earned) == 1
            earned = self._earned[0][None] if single else np.stack(self._earned)  # [T, E] or [T, E, n]
            check_rewards(self.envs.name, earned)
            earned = earned if earned.ndim == 2 else earned.sum(axis=-1)
            if single:
                self._return = self._return + earned[0]
            else:
                self._return = np.add.accumulate(np.concatenate([self._return[None], earned]))[-1]
            self._length += len(self._earned)
            self._earned = []

    def _finish(self, ended: Array) -> list[Episode]:
        self._settle()
        finished = [
            Episode(float(self._return[index]), int(self._length[index]), int(index)) for index in np.flatnonzero(ended)
        ]
        self._return[ended] = 0.0
        self._length[ended] = 0
        return finished

    def get_state(self) -> dict[str, Array]:
        """Where the environments are, what their running episodes have gathered, and how far exploration has come."""
        return {
            "return": self._return,
            "length": self._length,
            "starts": self._starts,
            **nested("policy", self.policy.get_state()),
            **nested("frames", self._frames.get_state()),
            **nested("recurrent", self._recurrent.arrays or {}),
            **self.envs.get_state(),
        }

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Takes over a stored state; see `Collecting`."""
        if "workers" in state:
            raise CheckpointError(
                "the checkpoint was written while {} worker processes stepped the environments: train with {} and as "
                "many processes, or take over the parameters only (restore_param)",
                *(int(state["workers"].max()) + 1, POOL_NETWORK.at(True)),
            )
        policy = under("policy", state)
        if policy:
            self.policy.set_state(policy)
        self._frames.set_state(under("frames", state))
        exact = self.envs.set_state(state)
        self._recurrent = RecurrentState((exact and under("recurrent", state)) or None, self._keep_states)
        self._begin_episodes()
        if exact:
            self._return, self._length = np.array(state["return"]), np.array(state["length"])
            self._starts = np.array(state["starts"])
        return exact

    def close(self) -> None:
        """Closes all environments."""
        self.envs.close()
