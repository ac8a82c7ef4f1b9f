"""State that goes on from one call of train() to the next, and the part of a checkpoint about training."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from note_rl.adaptive.adaptation import Adaptation
from note_rl.adaptive.hyperparameters import Override, Places
from note_rl.adaptive.measurements import Measurements
from note_rl.collect.base import Collecting
from note_rl.collect.collector_choice import check_same_spaces, make_collector, same_environments
from note_rl.collect.datasets import check_steps, read_dataset
from note_rl.collect.recorded import RecordedCollector
from note_rl.environments import as_factory, flat_observations, holds_environments
from note_rl.environments.normalise import RewardNormaliser
from note_rl.environments.observation_packing import bytes_of, observed_shape
from note_rl.errors import SettingsError
from note_rl.learners.base import Learner
from note_rl.policy import Policy
from note_rl.replay.experience import Clock, Experience, ReplayExperience
from note_rl.replay.experience.experience_factory import agent_view, make_experience
from note_rl.seeding import generator
from note_rl.settings import RecordedSteps, Settings
from note_rl.settings.adaptive import Adaptive
from note_rl.settings.demonstrations import as_demonstrations
from note_rl.training.checkpoint_checks import NEW_EPISODES
from note_rl.training.plateau_watch import PlateauWatch
from note_rl.training.session import RecentReturns
from note_rl.training.target_updates import with_target_updates
from note_rl.training.train_options import same_pool
from note_rl.types import BEHAVIOUR, Array, BoolArray, Steps, nested, under

_log = logging.getLogger(__name__)


@dataclass
class TrainingState:
    """Where an agent's training stands, under the settings and in the environment of one call of train().

    Attributes:
        settings: The settings of set(), with those that train() added.
        env: The agent's environment by then.
        seed: Root of all randomness.
        policy: How the agent explores.
        clock: Counts over the agent's life.
        exploring, sampling: Random numbers of actions, and of minibatches.
        recent: Returns of the last episodes.
        plateau: Whether returns still rise.
        reward_normaliser: Running moments of returns; None: rewards stay as they are.
        collector: Environments in the middle of their episodes.
        experience: The replay pool, or the rollout.
        adaptation: What is changed while training goes on, and what was measured for it.
    """

    settings: Settings
    env: Any
    seed: int
    policy: Policy
    clock: Clock
    exploring: np.random.Generator
    sampling: np.random.Generator
    recent: RecentReturns
    plateau: PlateauWatch
    reward_normaliser: RewardNormaliser | None
    collector: Collecting
    experience: Experience
    adaptation: Adaptation

    def to_arrays(self, with_experience: bool) -> dict[str, Array]:
        """The arrays among it."""
        arrays = nested("collector", self.collector.get_state())
        if self.reward_normaliser is not None:
            arrays.update(nested("reward_normaliser", self.reward_normaliser.get_state()))
        if with_experience:
            arrays.update(nested("experience", self.experience.get_state()))
        return arrays

    def to_json(self) -> dict[str, Any]:
        """All else, JSON-able."""
        return {
            "seed": self.seed,
            "clock": asdict(self.clock),
            "ahead": self.experience.ahead,
            "recent": list(self.recent),
            "plateau": self.plateau.to_json(),
            "adaptive": self.adaptation.to_json(),
            "random": {
                "exploration": self.exploring.bit_generator.state,
                "sampling": self.sampling.bit_generator.state,
            },
        }

    def take(self, arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
        """Goes on from stored arrays and what to_json() gave; refuses what does not fit (CheckpointError)."""
        experience = under("experience", arrays)
        if experience:
            self.experience.set_state(experience)
        normaliser = under("reward_normaliser", arrays)
        if self.reward_normaliser is not None and normaliser:
            self.reward_normaliser.set_state(normaliser)
        if head.get(NEW_EPISODES):
            self.experience.interrupt()
        elif not self.collector.set_state(under("collector", arrays)):
            self.experience.interrupt()
            _log.warning(
                "the environment did not come back to where it was (it is not deterministic given its seed): "
                "training goes on, but not bit for bit"
            )
        self.clock = Clock(**head["clock"])
        self.experience.ahead = int(head["ahead"])
        self.recent.replace(head["recent"])
        self.plateau.take(head["plateau"])
        self.exploring.bit_generator.state = head["random"]["exploration"]
        self.sampling.bit_generator.state = head["random"]["sampling"]
        self.adaptation.take(head["adaptive"])

    def close(self) -> None:
        """Closes the environments that were made here; those that the user made are the user's."""
        if not holds_environments(self.env):
            self.collector.close()


@dataclass(frozen=True)
class StateMaker:
    """Makes a state for settings: the first one of an agent, or one that goes on from a former state.

    Attributes:
        agent: Gives the environment and what experience asks of it.
        learner: Of this agent.
        settings: The settings of set(), with those that train() adds.
        policy: How to explore.
        num_store: Rounds of collecting before each update block, which may be adapted.
    """

    agent: Any
    learner: Learner
    settings: Settings
    policy: Policy
    num_store: Override

    def first(self, seed: int) -> TrainingState:
        """Everything is new.

        Args:
            seed: Root of all randomness.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other.
        """
        self.policy.begin()
        exploring, sampling = (generator(seed, name) for name in ("exploration", "sampling"))
        normaliser = RewardNormaliser() if self.settings.normalise_reward else None
        if normaliser is not None and self.agent.reward_moments:
            normaliser.set_state(self.agent.reward_moments)
        collector = self._collector(seed, exploring)
        experience = self._experience(collector, normaliser, sampling)
        self._begin_with_dataset(experience, collector)
        self._keep_bytes()
        if self.agent.num_env_steps == 0:  # else what was restored knows of it
            self._take_moments(collector, normaliser)
        return TrainingState(
            settings=self.settings,
            env=self.agent.env,
            seed=seed,
            policy=self.policy,
            clock=Clock(),
            exploring=exploring,
            sampling=sampling,
            recent=self._recent(),
            plateau=PlateauWatch(self.settings.plateau),
            reward_normaliser=normaliser,
            collector=collector,
            experience=experience,
            adaptation=self._adaptation(collector, experience),
        )

    def next(self, former: TrainingState, seed: int) -> TrainingState:
        """Counts and random numbers go on; environments, pool and what was measured where they are of the same kind.

        Args:
            former: Not to be used any more.
            seed: Of what is made anew.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other.
        """
        normaliser = (former.reward_normaliser or RewardNormaliser()) if self.settings.normalise_reward else None
        self._keep_bytes()
        is_same_env = former.env is self.agent.env  # else former returns say nothing of those to come
        collector = self._next_collector(former, seed)
        experience = self._experience(collector, normaliser, former.sampling)
        if same_pool(former.settings.experience, self.settings.experience):
            experience.set_state(former.experience.get_state())
            experience.ahead = former.experience.ahead
            if collector is not former.collector:
                experience.interrupt()
        else:
            self._begin_with_dataset(experience, collector)
        adaptation = self._adaptation(collector, experience)
        if former.settings.adaptive == self.settings.adaptive:
            adaptation.take(former.adaptation.to_json())
        return replace(
            former,
            settings=self.settings,
            env=self.agent.env,
            seed=seed,
            policy=self.policy,
            recent=self._recent(former.recent if is_same_env else ()),
            plateau=replace(former.plateau, options=self.settings.plateau),
            reward_normaliser=normaliser,
            collector=collector,
            experience=experience,
            adaptation=adaptation,
        )

    def _next_collector(self, former: TrainingState, seed: int) -> Collecting:
        """The same environments in the middle of their episodes, or others, in which the agent has to fit."""
        if former.env is self.agent.env and same_environments(former.settings, self.settings):
            former.collector.explore_with(self.policy, self.settings)
            return former.collector
        made = self._collector(seed, former.exploring)
        check_same_spaces(former.collector, made)
        former.close()
        return made

    def _collector(self, seed: int, exploring: np.random.Generator) -> Collecting:
        if self.settings.experience.offline:
            env, chosen = self.agent.env, self.settings.num_envs
            num_envs = len(env) if isinstance(env, list | tuple) else chosen if isinstance(chosen, int) else 1
            return RecordedCollector(self._recorded(num_envs), env, self.policy)
        return make_collector(self.agent, self.settings, self.policy, seed, exploring)

    @cached_property
    def _recording(self) -> RecordedSteps | None:
        """The recorded steps that the pool begins with; None: it is empty."""
        dataset = getattr(self.settings.experience, "dataset", None)
        return None if dataset is None else read_dataset(dataset, self.agent.env)

    def _recorded(self, num_envs: int) -> Steps:
        assert self._recording is not None
        return self._recording.steps(num_envs)

    def _begin_with_dataset(self, experience: Experience, collector: Collecting) -> None:
        """Fills the pool with recorded steps, where there are any."""
        if self._recording is not None:
            assert isinstance(experience, ReplayExperience)
            kept_besides = "its own answers" if BEHAVIOUR in self.agent.batch_attributes else "the goals it achieved"
            if BEHAVIOUR in self.agent.batch_attributes or collector.goal_layout is not None:
                raise SettingsError(
                    f"{type(self.agent).__name__} keeps {kept_besides} with every step here, which a data set does not "
                    "tell: leave dataset out"
                )
            experience.begin_with(self._recorded(collector.num_envs))

    def _keep_bytes(self) -> None:
        """Leaves bytes as they are where observations are about to be normalised."""
        normaliser = self.agent.obs_normaliser
        if self.settings.normalise_obs and (normaliser.moments is None or self.agent.num_env_steps == 0):
            normaliser.kept = self._bytes_shown()

    def _bytes_shown(self) -> BoolArray | None:
        """Which entries of an observation were bytes under a key of a dictionary; networks divide those by 255."""
        if self.settings.multi_agent:
            return None
        probe = flat_observations(as_factory(self.agent.env)())
        try:
            return bytes_of(observed_shape(probe))
        finally:
            probe.close()

    def _take_moments(self, collector: Collecting, normaliser: RewardNormaliser | None) -> None:
        """Observations and rewards are normalised by what was recorded, before anything is learned from it."""
        if self._recording is not None:
            steps = self._recorded(collector.num_envs)
            if self.settings.normalise_obs:
                self.agent.obs_normaliser.update(steps.obs)
            if normaliser is not None:
                normaliser.update(steps, float(getattr(self.agent, "gamma", 1.0)))

    def _recent(self, returns: Iterable[float] = ()) -> RecentReturns:
        return RecentReturns(self.settings.trial_count, self.settings.criterion, returns)

    def _experience(
        self, collector: Collecting, normaliser: RewardNormaliser | None, sampling: np.random.Generator
    ) -> Experience:
        expert = getattr(self.settings.experience, "expert", None)
        if expert is not None:
            pairs = as_demonstrations(expert)
            obs = pairs.obs if self.settings.experience.frame_stack == 1 else None
            check_steps("the demonstrations have", obs, pairs.action, collector)
        view = agent_view(self.agent, self.learner, self.settings, collector.goal_layout, normaliser)
        settings = with_target_updates(self.settings, self.agent, self.learner)
        return make_experience(settings, view, collector.num_envs, sampling)

    def _adaptation(self, collector: Collecting, experience: Experience) -> Adaptation:
        targets = Places(self.agent, self.policy, experience, self.learner.optimizer_numbers, self.num_store)
        options = self.settings.adaptive or Adaptive()  # only what the agent's own methods ask for
        measurements = Measurements(
            options, experience, self.learner, collector.num_envs, lambda: getattr(self.agent, "clip", None)
        )
        return Adaptation(options, targets, measurements)
