"""What both base classes share: settings, training, saving, evaluation. Delegation only."""

import inspect
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from note_rl.callbacks import Hooks
from note_rl.checkpoint import nested, read_checkpoint, under, write_checkpoint
from note_rl.environments import EnvLike
from note_rl.errors import SettingsError
from note_rl.evaluation import evaluate
from note_rl.learners.base import Learner
from note_rl.policy import GreedyQPolicy, Policy
from note_rl.progress import ProgressLines
from note_rl.settings import Budget, Settings, settings_from_set
from note_rl.trainer import Trainer
from note_rl.types import Array, Evaluation, TrainResult


class Agent:
    """Base of `RL` and `RL_pytorch`. A subclass gives `env`, `param`, `action` and `__call__`; see `note_rl.RL`."""

    env: EnvLike
    param: Any
    stop_training: bool = False

    def __init__(self) -> None:
        self._set_arguments: dict[str, Any] = {}
        self._settings: Settings | None = None
        self._learner: Learner | None = None
        self._trainer: Trainer | None = None
        self._restored: tuple[dict[str, Array], dict[str, Any]] | None = None

    def _make_learner(self) -> Learner:
        raise TypeError("inherit from RL (Keras) or RL_pytorch, not from Agent")

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
        self._settings = settings

    def set(self, **arguments: Any) -> None:
        """Says how to explore and what to train from. A later call changes only what it names.

        Args:
            **arguments: policy: exploration object (required once).
                pool_size: capacity of the replay pool in transitions, all environments together.
                batch: minibatch size.
                num_updates: gradient steps per training phase; None: one shuffled pass over the pool.
                train_freq: environment steps per training phase; None: an episode.
                learning_starts: environment steps before the first gradient step.
                update_batches, update_steps: gradient or environment steps between calls of update_param().
                trial_count, criterion: stop when the mean return of so many episodes reaches the criterion.
                PPO: on-policy: collect, train for some epochs, forget.
                rollout_steps, num_epochs: steps per environment and passes of each rollout (PPO).
                num_envs: environments stepped together.
                max_grad_norm: global norm that gradients are scaled down to.
                seed: root of all randomness.
                schedules: values over training progress, by name.

        Raises:
            SettingsError: Arguments that are unknown, out of range or contradict each other.
        """
        merged = {**self._set_arguments, **arguments}
        known = inspect.signature(settings_from_set).parameters
        unknown = sorted(set(merged) - set(known))
        if unknown:
            raise SettingsError(f"set() has no argument {unknown[0]!r}; it takes {', '.join(sorted(known))}")
        self.settings = settings_from_set(**merged)
        self._set_arguments = merged

    def _train(
        self,
        optimizer: Any,
        budget: Budget,
        *,
        callbacks: Sequence[Any] = (),
        jit_compile: bool | str = "auto",
        p: int | None = None,
    ) -> TrainResult:
        trainer = self._ready_trainer(optimizer, jit_compile)
        progress = ProgressLines(budget, 10 if p is None else p)
        return trainer.run(budget, Hooks([*callbacks, progress], self))

    def _ready_trainer(self, optimizer: Any, jit_compile: bool | str) -> Trainer:
        """The trainer of an earlier call, or a new one that takes over what was restored or counted before."""
        trainer = self._trainer
        former = None if trainer is None or trainer.settings is self.settings else trainer.get_state(False)
        if trainer is None or former is not None:
            seed = self.settings.seed if self.settings.seed is not None else secrets.randbits(32)
            if self._restored is not None:
                seed = self._restored[1]["trainer"]["seed"]
            trainer = Trainer(self, self.learner, self.settings, seed)
        self.learner.prepare(optimizer, self.settings.max_grad_norm, trainer.learner_schedules(), jit_compile)
        if former is not None:
            self._hand_over(former, trainer)
        if self._restored is not None:
            arrays, head = self._restored
            self.learner.set_state(under("learner", arrays))
            trainer.set_state(under("trainer", arrays), head["trainer"])
            self._restored = None
        self._trainer = trainer
        return trainer

    def _hand_over(self, former: tuple[dict[str, Array], dict[str, Any]], trainer: Trainer) -> None:
        """Other settings, same life: counts and, where the kind of experience is the same, the pool go along."""
        assert self._trainer is not None
        if self._trainer.settings.experience == trainer.settings.experience:
            trainer.experience = self._trainer.experience
        trainer.clock = self._trainer.clock
        if self._trainer.envs is not trainer.envs and not _shares_environments(self._trainer, trainer):
            self._trainer.close()

    @property
    def learner(self) -> Learner:
        """Evaluates and improves the parameters; made when first needed, after the subclass has set `param`."""
        if self._learner is None:
            self._learner = self._make_learner()
        return self._learner

    @property
    def num_env_steps(self) -> int:
        """Environment steps taken over the agent's life."""
        return self._trainer.clock.num_env_steps if self._trainer else self._restored_count("num_env_steps")

    @property
    def num_gradient_steps(self) -> int:
        """Gradient steps taken over the agent's life."""
        return self._trainer.clock.num_gradient_steps if self._trainer else self._restored_count("num_gradient_steps")

    def _restored_count(self, name: str) -> int:
        return int(self._restored[1]["trainer"]["clock"][name]) if self._restored else 0

    def evaluate(self, num_episodes: int = 10, *, seed: int = 0) -> Evaluation:
        """Plays episodes in fresh environments without exploration.

        Args:
            num_episodes: Episodes to play.
            seed: Of the environments; the same seed gives the same episodes for the same parameters.
        """
        policy: Policy = self._settings.policy if self._settings is not None else GreedyQPolicy()
        return evaluate(lambda obs: policy.greedy(self.learner.act(obs)), self.env, num_episodes, seed)

    def save(self, path: str | os.PathLike[str], save_data: bool = True) -> None:
        """Writes everything that training needs to go on exactly, to one file.

        Args:
            path: Replaced in one move.
            save_data: Whether the replay pool goes along.

        Raises:
            CheckpointError: The file cannot be written.
        """
        arrays = nested("learner", self.learner.get_state())
        head: dict[str, Any] = {"agent": type(self).__name__}
        if self._trainer is not None:
            trainer_arrays, head["trainer"] = self._trainer.get_state(save_data)
            arrays.update(nested("trainer", trainer_arrays))
        elif self._restored is not None:
            restored, restored_head = self._restored
            arrays = {**restored, **arrays}
            head["trainer"] = restored_head["trainer"]
        write_checkpoint(path, arrays, head)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Takes over what save() wrote. Parameters at once, the rest when train() is called next.

        Raises:
            CheckpointError: The file is damaged, foreign, from a newer version or of another agent. The agent is as
                it was.
        """
        arrays, head = read_checkpoint(path)
        self._restore_parameters(under("learner", arrays))
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
        self._restored = (arrays, head) if "trainer" in head else None

    def _restore_parameters(self, state: Mapping[str, Array]) -> None:
        self.learner.set_state(state)


def _shares_environments(former: Trainer, trainer: Trainer) -> bool:
    return any(env is other for env in former.envs.envs for other in trainer.envs.envs)
