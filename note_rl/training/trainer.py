"""The training loop: collect, store, train; the same for every algorithm and framework."""

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from note_rl.adaptive.adaptation import Adaptation
from note_rl.adaptive.hyperparameters import Override, Targets
from note_rl.adaptive.measurements import Measurements
from note_rl.adaptive.scheduled import ScheduledValues
from note_rl.collect.acting import PolicyRunner
from note_rl.collect.base import Collecting
from note_rl.collect.choosing import check_same_spaces, make_collector, same_environments
from note_rl.collect.contract import explaining_triplets
from note_rl.collect.joining import joined
from note_rl.environments import holds_environments
from note_rl.environments.normalise import RewardNormaliser
from note_rl.errors import WorkerError
from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.base import Learner, Staged
from note_rl.policy import exploration
from note_rl.replay.experience import Clock, Experience
from note_rl.replay.experience.view import agent_view, make_experience
from note_rl.seeding import generator
from note_rl.settings import Budget, Settings
from note_rl.settings.adaptive import Adaptive
from note_rl.training.callbacks import Hooks
from note_rl.training.normal_inputs import with_normal_inputs
from note_rl.training.plotting import History
from note_rl.training.session import RecentReturns, Session, diverged
from note_rl.training.target_updates import with_target_updates
from note_rl.training.train_options import same_pool
from note_rl.types import Array, Steps, TrainResult, nested, under

_log = logging.getLogger(__name__)


class Trainer:
    """Brings a learner, environments and experience together and keeps the count over an agent's life.

    Args:
        agent: Gives the environment and, while it trains, its hyperparameters.
        learner: Of this agent.
        settings: What set() was told, with what train() adds.
        seed: Root of all randomness.
        former: The trainer of an earlier call, with other settings or another environment, whose life goes on: counts
            and random numbers, and environments and pool where they are of the same kind.
    """

    def __init__(
        self, agent: Any, learner: Learner, settings: Settings, seed: int, former: "Trainer | None" = None
    ) -> None:
        self.agent = agent
        self.learner = learner
        self.settings = settings
        self.seed = seed
        self.clock: Clock = Clock() if former is None else former.clock
        self.policy = exploration(settings.policy, None, per_agent=settings.multi_agent)
        self._exploring: np.random.Generator = generator(seed, "exploration") if former is None else former._exploring
        self._sampling: np.random.Generator = generator(seed, "sampling") if former is None else former._sampling
        self._take_hyperparameters()
        self.schedules = ScheduledValues(settings.schedules, self.policy, agent)
        self._act = PolicyRunner(learner, agent.obs_normaliser, settings.multi_agent)
        self._reward_normaliser = self._make_reward_normaliser(former)
        self.collector = self._make_collector(former)
        self.experience = self._make_experience(former)
        returns = () if former is None else former._recent.returns
        self._recent: RecentReturns = RecentReturns(settings.trial_count, settings.criterion, returns)
        self._loss = math.nan  # of the last training phase
        self.num_store = Override(1)  # rounds of collecting before each training phase
        self._jit: Any = "auto"
        self._expected: list[str] = []  # numbers of the agent that each update is told
        self._to_prepare = False
        self.adaptation = self._make_adaptation(former)
        self._beginning = self.clock  # of this call of train()

    def _take_hyperparameters(self) -> None:
        for name in ("gamma", "gae_lambda"):
            value = getattr(self.settings, name)
            if value is not None:
                setattr(self.agent, name, value)

    def _make_collector(self, former: "Trainer | None") -> Collecting:
        """New ones, or those of the former trainer in the middle of their episodes."""
        self.env = self.agent.env
        if former is not None and former.env is self.env and same_environments(former.settings, self.settings):
            former.collector.explore_with(self.policy, self.settings)
            return former.collector
        made = make_collector(self.agent, self.settings, self.policy, self.seed, self._exploring)
        if former is not None:
            check_same_spaces(former.collector, made)
            former.close()
        return made

    def _make_reward_normaliser(self, former: "Trainer | None") -> RewardNormaliser | None:
        if not self.settings.normalise_reward:
            return None
        kept = None if former is None else former._reward_normaliser
        return kept if kept is not None else RewardNormaliser()

    def _make_experience(self, former: "Trainer | None") -> Experience:
        """A new one; the pool of the former trainer goes along if it is of the same kind."""
        view = agent_view(self.agent, self.learner, self.settings, self.collector.goal_layout, self._reward_normaliser)
        settings = with_target_updates(self.settings, self.agent, self.learner)
        experience = make_experience(settings, view, self.collector.num_envs, self._sampling)
        if former is not None and same_pool(former.settings.experience, self.settings.experience):
            experience.set_state(former.experience.get_state())
            if former.collector is not self.collector:
                experience.interrupt()
        return experience

    def _make_adaptation(self, former: "Trainer | None") -> Adaptation:
        """A new one; what was learned of the same kind goes along."""
        numbers = self.learner.optimizer_numbers
        place = Targets(self.agent, self.policy, self.experience, numbers, self.num_store)
        options = self.settings.adaptive or Adaptive()  # only what the agent's own methods ask for
        measurements = Measurements(
            options, self.experience, self.learner, self.collector.num_envs, lambda: getattr(self.agent, "clip", None)
        )
        made = Adaptation(options, place, measurements)
        if former is not None and former.settings.adaptive == self.settings.adaptive:
            made.take(former.adaptation.to_json())
        return made

    def prepare(self, optimizer: Any, jit: Any) -> None:
        """Makes the learner ready; see `Learner.prepare`."""
        self._jit = jit
        names = list(dict.fromkeys([*self.schedules.for_learner, *self.adaptation.attributes()]))
        self._expected = list(of_the_agent(names))
        self.learner.prepare(optimizer, self.settings.max_grad_norm, names, jit)
        self.adaptation.bind()

    def adapted_anew(self) -> None:
        """Something is adapted that was not before, and has to go into compiled code from the next phase on."""
        self._to_prepare = True

    def run(self, budget: Budget, hooks: Hooks, history: History, num_store: int = 1) -> TrainResult:
        """Trains until the budget is used up, the criterion is reached or somebody sets `agent.stop_training`.

        Args:
            budget: How long.
            hooks: Told of everything.
            history: What happens is added to it.
            num_store: Rounds of collecting before each training phase.

        Raises:
            DivergedError: A loss was not finite.
        """
        session = Session(self.agent, self.clock, budget, self._recent, hooks, history, self._loss)
        self.num_store.told = self.num_store.now = num_store
        keep = False
        try:
            if not self.collector.begin(self._act):
                self.experience.interrupt()
            stop_reason = self._run(session)
            keep = True
        except (KeyboardInterrupt, WorkerError):
            raise
        except BaseException:
            keep = True
            raise
        finally:
            self.collector.end(keep)
            self.adaptation.put_back()
        return session.result(stop_reason)

    def _run(self, session: Session) -> str:
        """Until there is a reason to stop."""
        self.agent.stop_training = False
        counts_from_birth = session.budget.total_steps is not None  # so what pays does not depend on interruptions
        self._beginning = Clock() if counts_from_birth else replace(self.clock, progress=session.progress)
        session.hooks("on_train_begin", session.logs())
        stop_reason = session.stop_reason
        if stop_reason is not None:
            _log.warning("train() plays nothing: %s is reached already", stop_reason)
        while stop_reason is None:
            session.announce_episode()
            self._phase(session)
            stop_reason = session.stop_reason
        session.hooks("on_train_end", session.logs())
        return stop_reason

    def _phase(self, session: Session) -> None:
        self.clock.progress = session.progress
        if self._to_prepare:
            self._to_prepare = False
            self.prepare(None, self._jit)
        hyperparameters = self.adaptation.move_to(self.schedules.move_to(self.clock.progress), self.clock)
        for name in self._expected:  # also those that nothing has moved yet
            hyperparameters.setdefault(name, float(getattr(self.agent, name)))
        rounds: list[Steps] = []
        while len(rounds) < self.num_store.now and (not rounds or session.steps_left != 0):
            rounds.append(self._collect(session))
        steps = joined(rounds)
        if self._reward_normaliser is not None:
            self._reward_normaliser.update(steps, float(getattr(self.agent, "gamma", 1.0)))
        self.experience.store(steps)
        self._loss = self._train(hyperparameters, session)
        self._adapt()
        if self.settings.normalise_obs:  # only now: all of a phase sees the same
            self.agent.obs_normaliser.update(steps.obs)
        session.note_phase(self._loss)
        if session.hooks.wants("on_phase_end"):
            session.tell_phase({**hyperparameters, **self.schedules.of_the_policy(), **self.adaptation.logs()})

    def _adapt(self) -> None:
        """Decides what to change before the next phase; so does the agent's own adjust_func(), where it has learned."""
        self.adaptation.end_of_phase(self.clock)
        adjust = getattr(self.agent, "adjust_func", None)
        if adjust is not None and self.adaptation.measurements.last is not None:
            adjust()

    def _collect(self, session: Session) -> Steps:
        length = self.experience.phase_length(self.collector.num_envs, session.steps_left)
        steps, episodes = self.collector.collect(self._act, length)
        self.clock.num_env_steps += steps.num_env_steps
        for episode in episodes:
            session.note_episode(episode)
        return steps

    def _train(self, hyperparameters: Mapping[str, float], session: Session) -> float:
        """Mean loss over the gradient steps of this phase; nan if there were none."""
        losses, hooks = [], session.hooks
        self.learner.expect(self.clock.gradient_steps_to_come(self._beginning))
        for drawn in self.experience.update_blocks(self.clock):
            sample = with_normal_inputs(drawn, self.agent, self._sampling)
            first = self.clock.num_gradient_steps
            if hooks.wants("on_batch_begin"):
                for offset in range(sample.num_gradient_steps):
                    hooks("on_batch_begin", first + offset, session.logs())
            self.adaptation.measurements.before_update(sample)
            with explaining_triplets(self.agent, self.settings.experience, first):
                update = self.learner.update(sample, hyperparameters)
            loss = update.loss
            self.collector.check()
            if update.diverged:
                raise diverged(first, loss)
            self.adaptation.measurements.after_update(sample, update)
            self.clock.num_gradient_steps += sample.num_gradient_steps
            losses.append(loss)
            self.experience.feedback(sample, update)
            if hooks.wants("on_batch_end"):
                for offset, value in enumerate(loss.sum(axis=-1)):
                    hooks("on_batch_end", first + offset, {"loss": float(value)})
        return float(np.concatenate(losses).sum(axis=-1).mean()) if losses else math.nan

    def recent_mean(self) -> float | None:
        """Mean return of the last `trial_count` episodes (10 if set() was not told); None before there are so many."""
        return self._recent.mean()

    def get_state(self, with_experience: bool) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON-able values from which training goes on exactly, learner not included."""
        arrays = nested("collector", self.collector.get_state())
        if self._reward_normaliser is not None:
            arrays.update(nested("reward_normaliser", self._reward_normaliser.get_state()))
        if with_experience:
            arrays.update(nested("experience", self.experience.get_state()))
        head: dict[str, Any] = {
            "seed": self.seed,
            "clock": asdict(self.clock),
            "recent": list(self._recent.returns),
            "adaptive": self.adaptation.to_json(),
            "random": {
                "exploration": self._exploring.bit_generator.state,
                "sampling": self._sampling.bit_generator.state,
            },
        }
        if isinstance(self.learner, Staged):
            head["stages"] = list(self.learner.stages)
        return arrays, head

    def set_state(self, arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
        """Takes over a stored state; refuses one that does not fit (CheckpointError)."""
        experience = under("experience", arrays)
        if experience:
            self.experience.set_state(experience)
        normaliser = under("reward_normaliser", arrays)
        if self._reward_normaliser is not None and normaliser:
            self._reward_normaliser.set_state(normaliser)
        if not self.collector.set_state(under("collector", arrays)):
            self.experience.interrupt()
            _log.warning(
                "the environment did not come back to where it was (it is not deterministic given its seed): "
                "training goes on, but not bit for bit"
            )
        self.clock = Clock(**head["clock"])
        self._recent.returns.clear()
        self._recent.returns.extend(head["recent"])
        self._exploring.bit_generator.state = head["random"]["exploration"]
        self._sampling.bit_generator.state = head["random"]["sampling"]
        if isinstance(self.learner, Staged) and "stages" in head:
            others, all_groups = map(int, head["stages"])
            self.learner.resume((others, all_groups))
        if "adaptive" in head:
            self.adaptation.take(head["adaptive"])

    def close(self) -> None:
        """Closes the environments that were made here; those that the user made are the user's."""
        if not holds_environments(self.env):
            self.collector.close()
