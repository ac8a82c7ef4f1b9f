"""From the arguments of set() and train() to a trainer at work."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gymnasium.vector import VectorEnv

from note_rl.collect import collection_size
from note_rl.collect.contract import check_calls, check_parts, check_reads_triplets, window_function
from note_rl.distributed.follower import follow
from note_rl.distributed.leader import Leader
from note_rl.distributed.rank_messages import Ranks
from note_rl.environments import EnvLike
from note_rl.environments.frames import check_frame_stack
from note_rl.errors import SettingsError
from note_rl.learners.declarations import Declared, check_sequences, check_settings, say_if_weighed, updates_itself
from note_rl.learners.peers import Alone
from note_rl.learners.step_way import StepWay
from note_rl.settings import Budget, ReplaySettings, RolloutSettings, Settings
from note_rl.settings.state_dependent_noise import check_explores_alike
from note_rl.settings.switch_names import DEVICE
from note_rl.support.value_kinds import Count, checked_arguments
from note_rl.training.callback_states import CallbackStates
from note_rl.training.callbacks import Hooks
from note_rl.training.checkpoint_saver import Saver, SavingOptions, saving_options
from note_rl.training.persistence import Persistent
from note_rl.training.progress_lines import ProgressLines, on_the_console
from note_rl.training.train_options import TrainOptions, train_options
from note_rl.training.trainer import Trainer
from note_rl.types import TrainResult


class Trainable(Declared, Persistent):
    """The part of an agent that training is concerned with.

    Attributes:
        env: Where it acts.
        optimizer: What train() was given last, and takes when it is called without one.
        stop_training: Set by anybody to end train().
    """

    env: EnvLike
    optimizer: Any = None
    stop_training: bool = False

    def __init__(self) -> None:
        super().__init__()
        self._device: str | None = None  # where set() had the parameters moved
        self._measured: tuple[Any, int] | None = None  # environment, and what num_envs="auto" is there
        self._adapted: tuple[Settings, Settings] | None = (
            None  # the settings of set(), and those with train()'s arguments
        )
        self._leader: Leader | None = None  # while others take gradient steps along

    def _move_to(self, device: str) -> None:
        """Moves all parameters (SettingsError where that cannot be done)."""

    @property
    def settings(self) -> Settings:
        """The arguments of set(), or settings assigned directly."""
        if self._settings is None:
            raise SettingsError(f"call {type(self).__name__}.set(...) before training")
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        check_frame_stack(type(self), self.frame_stack, settings.experience.frame_stack)
        self._settings = settings

    @property
    def _multi_agent(self) -> bool:
        return self._settings is not None and self._settings.multi_agent

    @property
    def learning_rate_factor(self) -> float:
        """Factor by which a `Plateau` has multiplied every learning rate so far."""
        return 1.0 if self._trainer is None else self._trainer.state.plateau.factor

    def how_steps_are_taken(self) -> StepWay:
        """Says which way gradient steps are taken now, and why not a quicker one: `print(agent.how_steps_are_taken())`.

        What pays is decided while training goes on, so the answer after train() is about its last steps.
        """
        return self.learner.step_way()

    def note_evaluation(self, mean_return: float, at: int | None = None) -> None:
        """Tells a `Plateau(by="evaluations")` of an evaluation; called by a callback while train() runs.

        Args:
            mean_return: Of its episodes.
            at: Environment steps that it counts for; None: those that were taken. One that does not lie behind the last
                one is ignored, so that a resumed run may report it again.
        """
        if self._trainer is None:
            raise SettingsError("note_evaluation() is for callbacks: call it while train() runs")
        clock, plateau = self._trainer.clock, self._trainer.state.plateau
        plateau.note_evaluation(float(mean_return), clock.num_env_steps if at is None else at, clock)

    def note_waiting(self, seconds: float) -> None:
        """Tells that a callback has waited for so long, which is no training: `time` is without it."""
        self._history.seconds -= seconds

    def _train(
        self, optimizer: Any, budget: Budget, arguments: dict[str, Any], callbacks: Sequence[Any] = ()
    ) -> TrainResult:
        self._refuse_inside_of_train("train()", "it goes on by itself; to begin another training, stop it first")
        check_parts(self)
        options = train_options(arguments)
        if budget.episodes is not None and self.settings.experience.offline:
            raise SettingsError(
                f"episodes={budget.episodes}: offline no episodes are played, but for evaluation; say how long by "
                "total_steps"
            )
        with on_the_console(options.p != 0):
            self._check_methods()
            saving = saving_options(
                self,
                with_experience=options.save_data,
                in_background=options.parallel_training_and_save,
                as_folder=options.parallel_dump,
            )
            restored = self._restored
            trainer = self._ready_trainer(optimizer, options)
            progress = ProgressLines(budget, 10 if options.p is None else options.p)
            with self._saving(saving, trainer) as savers:
                told = [*callbacks, *options.callbacks]
                hooks = Hooks([*told, progress, *savers], self)
                self._callback_states = CallbackStates(told)
                if restored is not None:
                    self._callback_states.set_state(restored.arrays, restored.head)
                return trainer.run(budget, hooks, self._history, options.num_store)

    def _train_as_one_of(
        self,
        group: Ranks,
        optimizer: Any,
        budget: Budget,
        arguments: dict[str, Any],
        callbacks: Sequence[Any] = (),
    ) -> TrainResult:
        """Trains together with other ranks: the first leads, the others take its gradient steps along with it."""
        if group.rank:
            return follow(self, self._last_optimizer() if optimizer is None else optimizer, group)
        self._leader = leader = Leader(self, group)
        try:
            result = self._train(optimizer, budget, arguments, callbacks)
            leader.end(result)
        except BaseException as error:
            leader.give_up(error)
            raise
        finally:
            self._leader = None
            if self._learner is not None:
                self._learner.join(Alone())
        return result

    def _check_methods(self) -> None:
        """Refuses methods that cannot be called as training will call them (AgentContractError)."""
        check_calls(self, self._called(), self._multi_agent)
        check_sequences(self, self.settings)
        experience = self.settings.experience
        if isinstance(experience, ReplaySettings) and experience.trajectories:
            check_reads_triplets(self)

    def _called(self) -> list[str]:
        """The methods that training will call."""
        experience = self.settings.experience
        learns_by = "update" if updates_itself(type(self)) else "__call__"
        names = ["action", learns_by, "update_param", "adjust_func", "window_size_func", "window_size_fn"]
        if isinstance(experience, RolloutSettings):
            names.append("value")
        elif experience.hindsight:
            names.append("reward_done_func")
        return [*names, *["reward_done_func_ma"] * self._multi_agent, *["reward"] * experience.learned_reward]

    @contextmanager
    def _saving(self, options: SavingOptions | None, trainer: Trainer) -> Iterator[list[Saver]]:
        """Yields the part that writes files while training goes on, if any; all files are complete afterwards."""
        if options is None:
            yield []
            return
        saver = Saver(options, self._snapshot, self._saving_record, trainer.recent_mean)
        try:
            yield [saver]
        finally:
            saver.close()

    def _ready_trainer(self, optimizer: Any, options: TrainOptions) -> Trainer:
        """The trainer of an earlier call, or a new one that takes over what was restored or counted before."""
        check_explores_alike(type(self).__name__, self.on_policy, self.gsde is not None, self.settings.policy)
        check_settings(type(self), self.settings)
        say_if_weighed(type(self), self.settings)
        settings = self._settings_for(options)
        if optimizer is None:
            optimizer = self._last_optimizer()
        self._move_as_told(settings)
        trainer = self._trainer_for(settings)
        trainer.steps = self._leader or self.learner
        self.learner.actor.parameters_changed()  # by anybody, since it acted last
        trainer.prepare(optimizer, options.jit_compile)
        self.optimizer = optimizer
        self._take_over_restored(trainer)
        self._trainer = trainer
        return trainer

    def _last_optimizer(self) -> Any:
        if self.optimizer is None:
            raise SettingsError("train() needs an optimizer when it is first called, for example optimizer=Adam(...)")
        return self.optimizer

    def _move_as_told(self, settings: Settings) -> None:
        """Moves the parameters to the device of set(), once."""
        if settings.device is None or settings.device == self._device:
            return
        if self._learner is not None:
            raise SettingsError("{} comes too late: set it before the agent acts or trains", DEVICE.at(settings.device))
        self._move_to(settings.device)
        self._device = settings.device

    def _trainer_for(self, settings: Settings) -> Trainer:
        """The former trainer, or one that goes on from it where settings or environment are others."""
        former = self._trainer
        if former is None:
            return Trainer(self, self.learner, settings, self._seed(settings))
        if former.settings is settings and former.state.env is self.env:
            return former
        former.feed.settle()
        return Trainer(self, self.learner, settings, self._seed(settings), former.state)

    def _seed(self, settings: Settings) -> int:
        if self._restored is not None:
            return int(self._restored.head["trainer"]["seed"])
        if settings.seed is not None:
            return settings.seed
        return self._trainer.state.seed if self._trainer is not None else secrets.randbits(32)

    def _settings_for(self, options: TrainOptions) -> Settings:
        """The settings of set() with those that train() adds; the same object as last time if nothing has changed."""
        told = self.settings
        experience = options.applied_to(told.experience, window_function(self))
        num_envs, workers = options.num_envs(told.num_envs, self.env), options.workers(told.workers)
        if num_envs == "auto":
            num_envs = self._auto_num_envs(0 if workers is None else workers.processes)
        if experience is told.experience and (num_envs, workers) == (told.num_envs, told.workers):
            return told
        adapted = replace(told, experience=experience, num_envs=num_envs, workers=workers)
        if self._adapted is None or self._adapted[0] is not told or not _alike(self._adapted[1], adapted):
            self._adapted = (told, adapted)
        return self._adapted[1]

    def _take_global_batch(self, size: int | None) -> None:
        """Trains on minibatches of this size, all replicas together, until set() is called again; None: as now.

        Raises:
            SettingsError: It is no whole number of at least 1, or the other settings do not allow it.
        """
        if size is None:
            return
        batch_size, experience = Count()("global_batch_size", size), self.settings.experience
        if batch_size != experience.batch_size:
            self.settings = replace(self.settings, experience=replace(experience, batch_size=batch_size))

    def _auto_num_envs(self, fewest: int = 0) -> int:
        """As many as `env` or a restored file holds, else measured once, but not fewer than there are workers."""
        if isinstance(self.env, VectorEnv):
            return int(self.env.num_envs)
        if isinstance(self.env, list | tuple):
            return len(self.env)
        if self._restored is not None:
            return len(self._restored.arrays["trainer/collector/episode"])
        if self._measured is None or self._measured[0] is not self.env:
            self._measured = (self.env, collection_size.chosen_num_envs(self, self.settings.experience))
        return max(self._measured[1], fewest)

    @checked_arguments()
    def get_optimal_processes(
        self, memory_mb: float, safety_factor: float = 0.75, min_exp_per_proc: int | None = None
    ) -> int:
        """Recommends `processes` for train(pool_network=True), and logs in one line why.

        A step of the environment and its memory are measured; set() must have been called.

        Args:
            memory_mb: Memory that pool and workers may use, in MB.
            safety_factor: Share of it that is really used.
            min_exp_per_proc: Experiences that each process should have at least; None: ten minibatches.
        """
        told = self.settings.num_envs
        num_envs = self._auto_num_envs() if isinstance(told, str) else told or 1
        return collection_size.recommended_processes(
            self, num_envs, collection_size.Share(memory_mb, safety_factor, min_exp_per_proc)
        )


def _alike(former: Settings, new: Settings) -> bool:
    """Whether train() has added the same as last time to the settings of set()."""
    same_kind = type(former.experience) is type(new.experience) and former.experience.window == new.experience.window
    return same_kind and (former.num_envs, former.workers) == (new.num_envs, new.workers)
