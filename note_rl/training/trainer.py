"""The training loop: collect, store, train; the same for every algorithm and framework."""

import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from note_rl.adaptive.adaptation import Adaptation
from note_rl.adaptive.hyperparameters import Override
from note_rl.adaptive.scheduled import ScheduledValues
from note_rl.collect.base import Collecting
from note_rl.collect.contract import explaining_triplets
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.errors import WorkerError
from note_rl.learners.adjustable import LEARNING_RATE, numbered, of_the_agent
from note_rl.learners.base import Learner, Staged, TakesSteps
from note_rl.learners.reports import mean_losses, means_over
from note_rl.policy import exploration
from note_rl.replay.experience import Clock, Experience
from note_rl.settings import Budget, Settings
from note_rl.settings.switch_names import MATMUL
from note_rl.training.callbacks import Hooks
from note_rl.training.curve_plots import History
from note_rl.training.data_feed import Feed
from note_rl.training.session import EpisodeEnd, Session, diverged
from note_rl.training.state import StateMaker, TrainingState
from note_rl.types import Array, Sample, TrainResult, Update

_log = logging.getLogger(__name__)
_PENDING = "steps_pending"  # in a checkpoint's head: steps of a round that had begun are not in it


class Trainer:
    """Brings a learner, environments and experience together.

    Args:
        agent: Gives the environment and, while it trains, its hyperparameters.
        learner: Of this agent.
        settings: The settings of set(), with those that train() adds.
        seed: Root of all randomness.
        former: Where an earlier trainer stopped, which had other settings or another environment; None: nowhere yet.

    Attributes:
        state: What training goes on from.
        steps: Takes gradient steps: the learner, or those it trains together with, too.
        feed: Collects, and gives the minibatches.
        schedules: Values over progress.
        num_store: Rounds of collecting before each update block.
    """

    def __init__(
        self,
        agent: Any,
        learner: Learner,
        settings: Settings,
        seed: int,
        former: TrainingState | None = None,
    ) -> None:
        _give_hyperparameters(agent, settings)
        policy = exploration(settings.policy, None, per_agent=settings.multi_agent)
        self.agent = agent
        self.learner = learner
        self.steps: TakesSteps = learner
        self.schedules = ScheduledValues(settings.schedules, policy, agent)
        self.num_store = Override(1)
        make = StateMaker(agent, learner, settings, policy, self.num_store)
        self.state = make.first(seed) if former is None else make.next(former, seed)
        self.feed = Feed(agent, self.state, PolicyRunner(learner, agent.obs_normaliser, settings.multi_agent))
        self.is_running = False
        self._loss = math.nan  # of the last phase that has one
        self._updates: list[Update] = []  # of the last phase that had any
        self._rates: dict[str, float] = {}  # that the optimizers were given for them
        self._jit: Any = "auto"
        self._expected: list[str] | None = None  # numbers of the agent that each update takes; None: not known yet

    @property
    def settings(self) -> Settings:
        """The settings of set(), with those that train() added."""
        return self.state.settings

    @property
    def clock(self) -> Clock:
        """Counts over the agent's life."""
        return self.state.clock

    @property
    def collector(self) -> Collecting:
        """Steps the environments."""
        return self.state.collector

    @property
    def experience(self) -> Experience:
        """The replay pool, or the rollout."""
        return self.state.experience

    @property
    def adaptation(self) -> Adaptation:
        """Changes hyperparameters while training goes on."""
        return self.state.adaptation

    def prepare(self, optimizer: Any, jit: Any) -> None:
        """Makes the learner ready; see `Learner.prepare`."""
        scaled = [LEARNING_RATE] * self.state.plateau.scales
        names = list(dict.fromkeys([*self.schedules.for_learner, *self.adaptation.attributes(), *scaled]))
        self.steps.prepare(optimizer, self.settings.max_grad_norm, names, jit)
        self._jit, self._expected = jit, list(of_the_agent(names))
        self.adaptation.bind()
        rates = [numbers.values.get(LEARNING_RATE) for numbers in self.learner.optimizer_numbers()]
        if LEARNING_RATE in self.schedules.for_learner and len(set(rates)) > 1:
            _log.warning(
                "the schedule of learning_rate replaces the rates of all optimizers and parameter groups (%s) by one; "
                "to keep them apart, leave it out and give each optimizer a schedule of its own",
                ", ".join("a schedule" if rate is None else f"{rate:g}" for rate in rates),
            )
        if self.settings.normalise_reward and self.settings.experience.learned_reward:
            _log.warning(
                "normalise_reward has no effect: the agent learns from its own reward, and only that of the "
                "environment is normalised"
            )

    def adapted_anew(self) -> None:
        """Something is adapted that was not before, and has to go into compiled code from the next iteration on."""
        self._expected = None

    def run(self, budget: Budget, hooks: Hooks, history: History, num_store: int = 1) -> TrainResult:
        """Trains until the budget is used up, the criterion is reached, returns no longer rise or somebody says so.

        Args:
            budget: How long.
            hooks: Gets all events.
            history: What happens is added to it.
            num_store: Rounds of collecting before each update block.

        Raises:
            DivergedError: A loss was not finite.
        """
        ends = (self.state.recent, self.state.plateau)
        session = Session(self.agent, self.clock, budget, *ends, hooks, history, self._loss)
        self.num_store.told = self.num_store.now = num_store
        with self._collecting():
            stop_reason = self._run(session)
        return session.result(stop_reason)

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """Environments are at work within; what was adapted is put back afterwards."""
        goes_on = False
        self.is_running = True
        try:
            self.feed.begin()
            yield
            goes_on = True
        except (KeyboardInterrupt, WorkerError):
            raise
        except BaseException:
            goes_on = True
            raise
        finally:
            self.is_running = False
            self.feed.end(goes_on)
            self.adaptation.put_back()

    def _run(self, session: Session) -> str:
        """Until there is a reason to stop."""
        self.agent.stop_training = False
        session.hooks("on_train_begin", session.logs())
        stop_reason = session.stop_reason
        if stop_reason is not None:
            _log.warning("train() plays nothing: %s is reached already", stop_reason)
        while stop_reason is None:
            session.announce_episode()
            self._iterate(session)
            stop_reason = session.stop_reason
        session.hooks("on_train_end", session.logs())
        return stop_reason

    def _iterate(self, session: Session) -> None:
        """Collects, stores, learns and adapts, once."""
        hyperparameters = self._hyperparameters(session)
        self._collect(session)
        self.feed.store()
        loss = self._learn(hyperparameters, session)
        self._loss = self._loss if math.isnan(loss) else loss
        self._adapt(session.hooks)
        self.feed.end_iteration()
        session.note_phase(loss)
        self.state.plateau.end_of_phase(self.clock, self.recent_mean())
        if session.hooks.wants("on_phase_end"):
            session.tell_phase({**hyperparameters, **self.schedules.of_the_policy(), **self.adaptation.logs()})
        self._tell_reductions(session)

    def _tell_reductions(self, session: Session) -> None:
        plateau = self.state.plateau
        for reduction in plateau.news():
            assert plateau.options is not None
            text = reduction.text(plateau.rates, plateau.options.patience)
            _log.info("%s", text)
            session.hooks("on_plateau", text, {**session.logs(), "learning_rate": plateau.rates[0] * reduction.after})

    def _hyperparameters(self, session: Session) -> dict[str, float]:
        """Moves what is scheduled or adapted; returns those of them that the learner takes, by name."""
        self.clock.progress = session.progress
        if self._expected is None:
            self.prepare(None, self._jit)
        hyperparameters = self.adaptation.move_to(self.schedules.move_to(self.clock.progress), self.clock)
        for name in self._expected or ():  # also those that nothing has moved yet
            hyperparameters.setdefault(name, float(getattr(self.agent, name)))
        return self.state.plateau.scaled(hyperparameters, self.learner.optimizer_numbers)

    def _collect(self, session: Session) -> None:
        """As many rounds as are asked for, if the budget is not used up before."""
        num_rounds = 0
        while num_rounds < self.num_store.now and (num_rounds == 0 or session.steps_left != 0):
            num_rounds += 1
            self._notice_changes(session.hooks)
            before, began = self.clock.num_env_steps, time.perf_counter()
            collected = self.feed.collect(session.steps_left)
            seconds = time.perf_counter() - began
            self.clock.num_env_steps += collected.num_env_steps
            for share, episode in collected.ends:
                ended = EpisodeEnd(before + round(share * collected.num_env_steps), began + share * seconds)
                session.note_episode(episode, ended)
            session.note_steps(self.collector.num_envs)

    def _notice_changes(self, hooks: Hooks) -> None:
        """Has the next actions and gradient steps be those of what callbacks, or adjust_func(), may have set."""
        if hooks.parameters_may_have_changed:
            self.steps.changed_by_hand()
            hooks.parameters_may_have_changed = False

    def _learn(self, hyperparameters: Mapping[str, float], session: Session) -> float:
        """Mean loss over the gradient steps of this iteration; nan if a parameter group has learned in none."""
        self.steps.expect(self.clock.gradient_steps_to_come(session.beginning))
        updates = []
        for sample in self.feed.update_blocks(self.clock):
            updates.append(self._update(sample, hyperparameters, session))
        if not updates:
            return math.nan
        self._updates = updates
        self._rates = {name: rate for name, rate in hyperparameters.items() if name.startswith(LEARNING_RATE)}
        mean = sum(float(update.loss.sum()) for update in updates) / sum(len(update.loss) for update in updates)
        return sum(mean_losses(updates)) if math.isnan(mean) else mean

    def _update(self, sample: Sample, hyperparameters: Mapping[str, float], session: Session) -> Update:
        """One update block."""
        first, measurements, hooks = self.clock.num_gradient_steps, self.adaptation.measurements, session.hooks
        if hooks.wants("on_batch_begin"):
            for offset in range(sample.num_gradient_steps):
                hooks("on_batch_begin", first + offset, session.logs())
        self._notice_changes(hooks)
        measurements.before_update(sample)
        with explaining_triplets(self.agent, self.settings.experience, first):
            update = self.steps.update(sample, hyperparameters)
        self.collector.check()
        if update.diverged:
            raise diverged(first, update)
        measurements.after_update(sample, update)
        self.clock.num_gradient_steps += sample.num_gradient_steps
        self.feed.feedback(sample, update)
        if hooks.wants("on_batch_end"):
            for offset, value in enumerate(np.nansum(update.loss, axis=-1)):  # of the groups that learned
                hooks("on_batch_end", first + offset, {"loss": float(value)})
        return update

    def _adapt(self, hooks: Hooks) -> None:
        """Decides what to change before the next iteration; so does the agent's adjust_func(), where it has learned."""
        self.adaptation.end_of_phase(self.clock)
        adjust = getattr(self.agent, "adjust_func", None)
        if adjust is not None and self.adaptation.measurements.has_learned:
            adjust()
            hooks.parameters_may_have_changed = True

    def reported(self) -> dict[str, float]:
        """Values of the last training phase, by name; see `Counted.reported`."""
        values = {**means_over(self._updates), **self.experience.logs(), **self._learning_rates(), **self._losses()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def _losses(self) -> dict[str, float]:
        """Those of each parameter group, where some wait."""
        if not (self._updates and self.agent.groups_at_sync):
            return {}
        return {numbered("loss", index): loss for index, loss in enumerate(mean_losses(self._updates))}

    def _learning_rates(self) -> dict[str, float]:
        """Those of the last update: what was scheduled or adapted, else the optimizers' own."""
        if self._rates or not self._updates:
            return self._rates
        rates = [numbers.values.get(LEARNING_RATE, math.nan) for numbers in self.learner.optimizer_numbers()]
        if len(set(rates)) == 1:
            return {LEARNING_RATE: rates[0]}
        return {numbered(LEARNING_RATE, index): rate for index, rate in enumerate(rates)}

    def recent_mean(self) -> float | None:
        """Mean return of the last `trial_count` episodes (10 if set() does not say); None before there are enough."""
        return self.state.recent.mean()

    def get_state(self, with_experience: bool) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON-able values from which training goes on exactly, the learner's parameters not included."""
        head = self.state.to_json()
        if self.feed.is_pending:  # a callback saves while episodes are played
            head[_PENDING] = True
        if isinstance(self.learner, Staged):
            head |= {"stages": list(self.learner.stages), "matmul": self.learner.matmul}
            head |= {"refusals": list(self.learner.refusals)} if any(self.learner.refusals) else {}
        return self.state.to_arrays(with_experience), head

    def set_state(self, arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
        """Takes over a stored state; refuses one that does not fit (CheckpointError)."""
        self.state.take(arrays, head)
        if head.get(_PENDING):  # those steps are in no file
            self.experience.interrupt()
        if isinstance(self.learner, Staged) and "stages" in head:
            others, all_groups = map(int, head["stages"])
            apart, uncompilable = map(str, head.get("refusals", ("", "")))
            self.learner.resume((others, all_groups), (apart, uncompilable))
            now, then = self.learner.matmul, head["matmul"]
            if then != now:
                _log.warning(
                    "the checkpoint is of a run whose large products of matrices were taken by %s, and now they are by "
                    "%s: training goes on, but not to the same bits; %s asks for them",
                    *(then, now, MATMUL.at(then)),
                )

    def close(self) -> None:
        """Closes the environments that were made here."""
        self.state.close()


def _give_hyperparameters(agent: Any, settings: Settings) -> None:
    """Those of set() take the place of the agent's own."""
    for name in ("gamma", "gae_lambda"):
        value = getattr(settings, name)
        if value is not None:
            setattr(agent, name, value)
