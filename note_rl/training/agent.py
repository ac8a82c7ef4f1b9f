"""What both base classes share: settings, training, saving, evaluation. Delegation only."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gymnasium.vector import VectorEnv

from note_rl.checking import checked_arguments
from note_rl.collect import sizing
from note_rl.collect.acting import PolicyRunner
from note_rl.collect.contract import check_calls, check_made, check_parts, check_reads_triplets, window_function
from note_rl.collect.evaluation import Greedy, evaluate
from note_rl.collect.recipe import Rebuildable
from note_rl.environments import EnvLike, check_same_spaces, for_evaluation
from note_rl.environments.frames import check_frame_stack
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import SettingsError
from note_rl.learners.priorities import PrioritizedReplay
from note_rl.policy import Policy, exploration
from note_rl.settings import Budget, ReplaySettings, RolloutSettings, Settings
from note_rl.settings.set_arguments import settings_from_set
from note_rl.training.adjusting import Adjustable
from note_rl.training.callbacks import Hooks
from note_rl.training.counts import Counted
from note_rl.training.persistence import Persistent
from note_rl.training.pictures import Pictured
from note_rl.training.progress import ProgressLines, on_the_console
from note_rl.training.saving import Saver, saving_options
from note_rl.training.train_options import TrainOptions, train_options
from note_rl.training.trainer import Trainer
from note_rl.types import Evaluation, TrainResult


class Agent(Persistent, Rebuildable, Counted, Adjustable, Pictured):
    """Base of `RL` and `RL_pytorch`. A subclass gives `env`, `param`, `action` and `__call__`; see `note_rl.RL`.

    Attributes:
        optimizer: What train() was given last, and takes when it is called without one.
        evaluation_env: What evaluate() plays in, where that is not `env` without its training wrappers: for example
            without wrappers that clip rewards. An environment, id, list or factory.
        frame_stack: Frames that its networks see together, as set() must say too; None: whatever set() says.
        default_update_batches: Gradient steps between calls of update_param() where set() is not told; None: 100 if it
            copies, else 1.
    """

    env: EnvLike
    param: Any
    evaluation_env: EnvLike | None = None
    optimizer: Any = None
    stop_training: bool = False
    frame_stack: int | None = None
    default_update_batches: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.prioritized_replay = PrioritizedReplay()
        self._set_arguments: dict[str, Any] = {}
        self._device: str | None = None  # where set() had the parameters moved
        self._measured: tuple[Any, int] | None = None  # environment, and what num_envs="auto" is there
        self._adapted: tuple[Settings, Settings] | None = None  # what set() was told, and with train()'s arguments
        self._bookkeeping = frozenset({*vars(self), "stop_training"})  # attributes that no loss depends on

    def default_policy(self) -> Policy | None:
        """What action()'s answers mean as long as set() was not called; None: values of actions, or the actions."""
        return None

    def _move_to(self, device: str) -> None:
        """Moves all parameters (SettingsError where that cannot be done)."""

    def update_param(self) -> None:
        """Updates the target networks; agents without any leave it as it is."""

    @property
    def settings(self) -> Settings:
        """What set() was told, or assigned directly."""
        if self._settings is None:
            raise SettingsError(f"call {type(self).__name__}.set(...) before training")
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        check_frame_stack(type(self).__name__, self.frame_stack, settings.experience.frame_stack)
        self._settings = settings

    def set(self, **arguments: Any) -> None:
        """Says how to explore and what to train from. A later call changes only what it names.

        Args:
            **arguments: policy, noise: exploration (one of them is required once); a list has one per environment, or
                one per agent with MARL.
                pool_size: capacity of the replay pool in transitions, all environments together (10,000).
                batch: minibatch size (64).
                num_updates or gradient_steps: gradient steps per training phase; None: one shuffled pass over the pool.
                train_freq: environment steps per training phase; None: an episode.
                learning_starts: environment steps before the first gradient step.
                num_steps: n of n-step returns; the agent must have `gamma`.
                update_batches, update_steps: gradient or environment steps between calls of update_param(); neither:
                every gradient step, or every 100 where it copies. With PPO, update_steps is the length of a rollout in
                steps of all environments together.
                trial_count, criterion: stop when the mean return of so many episodes reaches the criterion.
                PPO: on-policy: collect, train for some epochs, forget.
                rollout_steps, num_epochs: steps per environment (2,048) and passes (10) of each rollout (PPO).
                HER: hindsight: True, "future", "final", "episode" or a `Hindsight`.
                PR: prioritized replay (or rollout, with PPO), with initial_TD, alpha, beta, initial_ratio, lambda_.
                TRL: triplets of one trajectory. MARL: several agents. IRL: learned reward; expert: demonstrations.
                frame_stack: frames shown together. num_envs: environments stepped together, or "auto".
                normalise_obs, normalise_reward: by running moments.
                gamma, gae_lambda: replace the agent's own. max_grad_norm: global norm of gradients.
                device: where parameters are moved.
                seed: root of the randomness of environments, exploration and sampling. Weights are drawn by the
                framework when the networks are made: call note_rl.seeding.seed_everything(seed) before that.
                schedules: values over training progress, by name.
                adaptive: which hyperparameters are changed while training goes on: `note_rl.settings.Adaptive`.

        Raises:
            SettingsError: Arguments that are unknown, out of range or contradict each other.
        """
        check_made(self)
        merged = {**self._set_arguments, **arguments}
        self.settings = settings_from_set(**merged)
        self._set_arguments = merged

    def _train(
        self, optimizer: Any, budget: Budget, arguments: dict[str, Any], callbacks: Sequence[Any] = ()
    ) -> TrainResult:
        check_parts(self)
        options = train_options(arguments)
        with on_the_console(options.p != 0):
            return self._train_as_told(optimizer, budget, options, callbacks)

    def _train_as_told(
        self, optimizer: Any, budget: Budget, options: TrainOptions, callbacks: Sequence[Any]
    ) -> TrainResult:
        check_calls(self, self._called(), self._multi_agent)
        if isinstance(self.settings.experience, ReplaySettings) and self.settings.experience.trajectories:
            check_reads_triplets(self)
        saving = saving_options(self, options.save_data, options.parallel_training_and_save)
        trainer = self._ready_trainer(optimizer, options)
        options.say_what_is_missing()
        progress = ProgressLines(budget, 10 if options.p is None else options.p)
        watching = [*callbacks, *options.callbacks, progress]
        if saving is None:
            return trainer.run(budget, Hooks(watching, self), self._history, options.num_store)
        saver = Saver(saving, self._snapshot, self._saving_record, trainer.recent_mean)
        try:
            return trainer.run(budget, Hooks([*watching, saver], self), self._history, options.num_store)
        finally:
            saver.close()

    def _called(self) -> list[str]:
        """The methods that training will call."""
        experience = self.settings.experience
        names = ["action", "__call__", "update_param", "adjust_func", "window_size_func", "window_size_fn"]
        if isinstance(experience, RolloutSettings):
            names.append("value")
        elif experience.hindsight:
            names.append("reward_done_func")
        return [*names, *["reward_done_func_ma"] * self._multi_agent, *["reward"] * experience.learned_reward]

    def _ready_trainer(self, optimizer: Any, options: TrainOptions) -> Trainer:
        """The trainer of an earlier call, or a new one that takes over what was restored or counted before."""
        trainer, settings = self._trainer, self._settings_for(options)
        if optimizer is None:
            optimizer = self.optimizer
            if optimizer is None:
                raise SettingsError(
                    "train() needs an optimizer when it is first called, for example optimizer=Adam(...)"
                )
        if settings.device is not None and settings.device != self._device:
            if self._learner is not None:
                raise SettingsError(
                    f"device={settings.device!r} comes too late: set it before the agent acts or trains"
                )
            self._move_to(settings.device)
            self._device = settings.device
        if trainer is None or trainer.settings is not settings or trainer.env is not self.env:
            trainer = Trainer(self, self.learner, settings, self._seed(settings), former=trainer)
        self.learner.actor.parameters_changed()  # by anybody, since it acted last
        trainer.prepare(optimizer, options.jit_compile)
        self.optimizer = optimizer
        self._take_over_restored(trainer)
        self._trainer = trainer
        return trainer

    def _settings_for(self, options: TrainOptions) -> Settings:
        """What set() was told with what train() adds; the same object as last time if nothing has changed."""
        told = self.settings
        experience = options.applied_to(told.experience, window_function(self))
        num_envs, workers = options.num_envs(told.num_envs, self.env), options.workers(told.workers)
        if num_envs == "auto":
            num_envs = self._auto_num_envs(0 if workers is None else workers.processes)
        if experience is told.experience and (num_envs, workers) == (told.num_envs, told.workers):
            return told
        adapted = replace(told, experience=experience, num_envs=num_envs, workers=workers)
        if self._adapted is not None and self._adapted[0] is told:
            former = self._adapted[1]
            same_kind = type(former.experience) is type(experience) and former.experience.window == experience.window
            if same_kind and (former.num_envs, former.workers) == (num_envs, workers):
                return former
        self._adapted = (told, adapted)
        return adapted

    def _auto_num_envs(self, fewest: int = 0) -> int:
        """As many as `env` or a restored file holds, else measured once, but not fewer than there are workers."""
        if isinstance(self.env, VectorEnv):
            return int(self.env.num_envs)
        if isinstance(self.env, list | tuple):
            return len(self.env)
        if self._restored is not None:
            return len(self._restored.arrays["trainer/collector/episode"])
        if self._measured is None or self._measured[0] is not self.env:
            self._measured = (self.env, sizing.chosen_num_envs(self, self.settings.experience))
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
        return sizing.recommended_processes(self, num_envs, sizing.Share(memory_mb, safety_factor, min_exp_per_proc))

    def _seed(self, settings: Settings) -> int:
        if self._restored is not None:
            return int(self._restored.head["trainer"]["seed"])
        if settings.seed is not None:
            return settings.seed
        return self._trainer.seed if self._trainer is not None else secrets.randbits(32)

    @checked_arguments()
    def evaluate(self, num_episodes: int = 10, *, seed: int = 0) -> Evaluation:
        """Plays episodes in fresh environments without exploration: in `evaluation_env` if there is one, else in `env`.

        Args:
            num_episodes: Episodes to play.
            seed: Of the environments; the same seed gives the same episodes for the same parameters.
        """
        check_parts(self)
        check_calls(self, ("action",), self._multi_agent)
        return self._evaluate(self._seen_as_one(self._env_to_evaluate_in()), num_episodes, seed)

    def _env_to_evaluate_in(self) -> Any:
        if self.evaluation_env is None:
            return for_evaluation(self.env)
        check_same_spaces(*map(self._seen_as_one, (self.env, self.evaluation_env)))
        return for_evaluation(self.evaluation_env)

    @property
    def _multi_agent(self) -> bool:
        return self._settings is not None and self._settings.multi_agent

    def _seen_as_one(self, env: Any) -> Any:
        return joint_environments(env, getattr(self, "reward_done_func_ma", None)) if self._multi_agent else env

    def _evaluate(self, env: EnvLike, num_episodes: int, seed: int) -> Evaluation:
        return evaluate(self.greedy_in, env, num_episodes, seed)

    def greedy_in(self, action_space: Any) -> Greedy:
        """The agent acting without exploration in environments of this action space, from the start of an episode."""
        settings = self._settings
        if settings is None:
            policy = self.default_policy()
        else:
            policy = exploration(settings.policy, None, per_agent=self._multi_agent)
        self.learner.actor.parameters_changed()  # by anybody, since it acted last
        act = PolicyRunner(self.learner, self.obs_normaliser, self._multi_agent)
        return Greedy(act, policy, action_space, 1 if settings is None else settings.experience.frame_stack)
