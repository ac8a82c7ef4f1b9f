"""What train() was told besides optimizer and length, in clear names."""

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from gymnasium.vector import VectorEnv

from note_rl.errors import SettingsError
from note_rl.experience_settings import ReplaySettings, RolloutSettings, with_train_arguments
from note_rl.replay.options import WindowFunction, at_least
from note_rl.worker_settings import WorkerSettings

_log = logging.getLogger(__name__)
_said: set[str] = set()


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The keyword arguments of train(), under the manuals' names.

    Attributes:
        pool_network: Step environments in `processes` worker processes.
        processes: Worker processes (None: this process); also how many environments are stepped together, if neither
            set(num_envs=...) nor a list of environments says so.
        parallel_store_and_training: Worker processes go on collecting while the learner trains, with parameters that
            are one phase old; False: in turn.
        num_store: Rounds of collecting (episodes, `train_freq` steps or rollouts) before each training phase.
        processes_her, processes_pr: Processes preparing hindsight or prioritized minibatches ahead of the learner;
            until they exist, minibatches are prepared in this process.
        window_size: Newest transitions kept: a number, a share of the pool in (0, 1), or a function giving a number.
        clearing_freq, window_size_: After every `clearing_freq` stored transitions the `window_size_` oldest go.
        window_size_pr, window_size_ppo: Transitions of the highest priority that are kept at each update of the
            targets, in a prioritized pool or rollout (there after each epoch, if set() was told no update_batches), and
            drawn from then on. The agent's window_size_func(p) is asked instead, if it has one.
        random: Which environment belongs to which worker process is drawn; False: in blocks.
        jit_compile: Whether updates are compiled: True, False or "auto".
        save_data: Whether files written while training hold the replay pool.
        parallel_training_and_save: Those files are written in the background.
        callbacks: See `note_rl.callbacks`.
        p: Progress lines in all (None: 10); 0 is silent.
    """

    pool_network: bool = False
    processes: int | None = None
    parallel_store_and_training: bool = True
    parallel_training_and_save: bool = False
    num_store: int = 1
    processes_her: int | None = None
    processes_pr: int | None = None
    window_size: int | float | WindowFunction | None = None
    clearing_freq: int | None = None
    window_size_: int | None = None
    window_size_ppo: int | None = None
    window_size_pr: int | None = None
    random: bool = False
    jit_compile: bool | str = "auto"
    save_data: bool = True
    callbacks: Sequence[Any] | None = ()
    p: int | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        at_least(1, processes=self.processes, num_store=self.num_store)
        at_least(0, p=self.p)
        if self.jit_compile not in (True, False, "auto"):
            raise SettingsError(f"jit_compile must be True, False or 'auto', got {self.jit_compile!r}")

    def say_what_is_missing(self) -> None:
        """Tells, once per process and feature, what runs in this process although processes were asked for."""
        if self.processes_her or self.processes_pr:
            _say_once("processes_her, processes_pr: minibatches are prepared in this process until workers exist")

    def num_envs(self, chosen: int | str | None, env: Any) -> int | str | None:
        """Environments stepped together: what set() said, the length of a list, or one per process asked for."""
        if chosen is None and self.processes is not None and not isinstance(env, list | tuple | VectorEnv):
            return self.processes
        return chosen

    def workers(self, chosen: WorkerSettings | None) -> WorkerSettings | None:
        """Who steps the environments: what train() was told, else what the settings say."""
        if not self.pool_network or self.processes is None:
            return chosen
        return WorkerSettings(
            processes=self.processes,
            overlapping=self.parallel_store_and_training,
            random_places=self.random,
            start_method="auto" if chosen is None else chosen.start_method,
        )

    def applied_to(
        self, experience: ReplaySettings | RolloutSettings, window_size_func: WindowFunction | None
    ) -> ReplaySettings | RolloutSettings:
        """The experience settings with the windows that train() was told.

        Raises:
            SettingsError: Arguments that do not fit the kind of experience.
        """
        return with_train_arguments(
            experience,
            window_size=self.window_size,
            clearing_freq=self.clearing_freq,
            window_size_=self.window_size_,
            window_size_ppo=self.window_size_ppo,
            window_size_pr=self.window_size_pr,
            window_size_func=window_size_func,
            processes_her=self.processes_her,
            processes_pr=self.processes_pr,
        )


def train_options(arguments: dict[str, Any]) -> TrainOptions:
    """Options from the keyword arguments of train().

    Raises:
        SettingsError: An unknown name, or a value out of range.
    """
    known = [field.name for field in fields(TrainOptions)]
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise SettingsError(f"train() has no argument {name!r}; {hint}")
    return TrainOptions(**arguments)


_RHYTHM = {
    "batch_size",
    "learning_starts",
    "train_freq",
    "gradient_steps",
    "target_update_interval",
    "target_update_env_steps",
    "window",
}


def same_pool(former: ReplaySettings | RolloutSettings, new: ReplaySettings | RolloutSettings) -> bool:
    """Whether a pool gathered under the former settings goes on under the new: only the rhythm of training differs."""
    if not (isinstance(former, ReplaySettings) and isinstance(new, ReplaySettings)):
        return False
    names = [field.name for field in fields(ReplaySettings) if field.name not in _RHYTHM]
    pairs = [(getattr(former, name), getattr(new, name)) for name in names]
    return all(one is other or (type(one) is type(other) and one == other) for one, other in pairs)


def _say_once(sentence: str) -> None:
    if sentence not in _said:
        _said.add(sentence)
        _log.warning("%s", sentence)
