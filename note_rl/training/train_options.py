"""The arguments of train() besides optimizer and length, in clear names."""

import logging
from dataclasses import dataclass, fields
from typing import Any

from gymnasium.vector import VectorEnv

from note_rl.errors import say_once
from note_rl.settings.experience import ExperienceSettings, RolloutSettings, with_train_arguments
from note_rl.settings.replay_choices import Window
from note_rl.settings.window_functions import WindowFunction
from note_rl.settings.workers import WorkerSettings
from note_rl.support.setting_fields import check_fields, documented, like, setting
from note_rl.support.value_kinds import Count, flag, flag_or_auto, refuse_unknown
from note_rl.training.callbacks import as_callbacks

_log = logging.getLogger(__name__)


@documented
@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The keyword arguments of train(), under the manuals' names."""

    pool_network: bool = setting(False, flag, text="Step environments in `processes` worker processes.")
    processes: int | None = setting(
        None,
        Count(),
        text="Worker processes; also how many environments are stepped together, if neither set(num_envs=...) nor a "
        "list of environments says so; None: this process.",
    )
    parallel_store_and_training: bool = setting(
        True,
        flag,
        text="Worker processes go on collecting while the learner trains, with parameters that are one phase old; "
        "False: in turn.",
    )
    parallel_training_and_save: bool = setting(
        False, flag, text="Files written while training are written in the background."
    )
    parallel_dump: bool = setting(
        False,
        flag,
        text="Each of them is a folder with a file for every array, written several at a time; restore() reads both.",
    )
    num_store: int = setting(
        1, Count(), text="Rounds of collecting (episodes, `train_freq` steps or rollouts) before each training phase."
    )
    processes_her: int | None = setting(
        None,
        Count(),
        text="Taken, and without effect: minibatches are prepared in this process, as that takes 2 to 5 % of processor "
        "time, and 5.3 % with hindsight and observations of 10,000 numbers; None: the same.",
    )
    processes_pr: int | None = setting(
        None, Count(), text="As `processes_her`, for prioritized minibatches; None: the same."
    )
    window_size: int | float | WindowFunction | None = like(Window, "size")
    clearing_freq: int | None = like(Window, "clearing_freq")
    window_size_: int | None = like(Window, "clear_size")
    window_size_ppo: int | None = setting(
        None,
        Count(),
        text="Transitions of the highest score that are kept of a prioritized rollout at each update of the targets "
        "(after each epoch, if set() was given no update_batches), and drawn from then on; the agent's "
        "window_size_func decides instead, see `window_size_pr`; None: all.",
    )
    window_size_pr: int | None = setting(
        None,
        Count(),
        text="Transitions of the highest priority that are kept of a prioritized pool at each update of the targets, "
        "and drawn from then on; None: all. The agent's window_size_func(p), or window_size_fn(p), is asked instead, "
        "if it has one; what it returns from adjust_window_size() is the number of the oldest that go.",
    )
    random: bool = setting(
        False, flag, text="Which environment belongs to which worker process is drawn; False: in blocks."
    )
    jit_compile: bool | str = setting(
        "auto",
        flag_or_auto,
        text='Whether updates are compiled. Keras: by XLA; "auto" leaves it out on CPUs where there are convolutions '
        'or gradients of maximum pooling, which it does slowly there, and says so once. PyTorch: "auto" records a '
        "gradient step once and replays it without modules and autograd, if 2,000 steps or more are to come and the "
        "agent's class declares `traceable = True`; where a few runs as long as this one pay for it, it is compiled by "
        "inductor, which takes 20 to 40 s once for these networks and minibatches: later runs find it in "
        "~/.cache/note-rl. True does both at once for any agent. Numbers, lists, dicts, functions and layers that "
        "`__call__` reads may change: the step is recorded anew. What could change unseen, such as other objects and "
        "the agent's counters, is refused by its name. What cannot be had is said once, and updates go on without.",
    )
    save_data: bool = setting(True, flag, text="Whether files written while training hold the replay pool.")
    callbacks: Any = setting((), text="One or several; see `note_rl.training.callbacks`.")
    p: int | None = setting(
        None,
        Count(0),
        text="Progress lines in all, not the number of episodes between two of them, as one of the manuals has it: for "
        "a line every 50 of 200 episodes, p is 4. 0 is silent; None: 10. They are logged; where logging is not "
        "configured, stderr shows them while training lasts.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
        object.__setattr__(self, "callbacks", as_callbacks(self.callbacks))

    def num_envs(self, chosen: int | str | None, env: Any) -> int | str | None:
        """Environments stepped together: what set() said, the length of a list, or one per process asked for."""
        if self.processes is None:
            return chosen
        if isinstance(env, VectorEnv):
            given: int | str | None = int(env.num_envs)
        else:
            given = len(env) if isinstance(env, list | tuple) else chosen
        if given is None:
            return self.processes
        if isinstance(given, int) and not self.pool_network and self.processes != given:
            say_once(
                _log,
                f"processes={self.processes}, but there are {given} environments (num_envs, env): it has no effect",
            )
        return chosen

    def workers(self, chosen: WorkerSettings | None) -> WorkerSettings | None:
        """The workers that step the environments: the arguments of train(), else the settings."""
        if not self.pool_network or self.processes is None:
            return chosen
        return WorkerSettings(
            processes=self.processes,
            overlapping=self.parallel_store_and_training,
            random_places=self.random,
            start_method="auto" if chosen is None else chosen.start_method,
        )

    def applied_to(self, experience: ExperienceSettings, window_size_func: WindowFunction | None) -> ExperienceSettings:
        """The experience settings with the windows that train() was given.

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
        )


def train_options(arguments: dict[str, Any]) -> TrainOptions:
    """Options from the keyword arguments of train().

    Raises:
        SettingsError: An unknown name, or a value out of range.
    """
    further = ("optimizer", "episodes", "total_steps")  # which train() takes itself
    refuse_unknown("train", arguments, [*further, *(field.name for field in fields(TrainOptions))])
    return TrainOptions(**arguments)


_RHYTHM = {
    "batch_size",
    "learning_starts",
    "train_freq",
    "gradient_steps",
    "target_update_interval",
    "target_update_env_steps",
    "window",
    "replay_ratio",
}


def same_pool(former: ExperienceSettings, new: ExperienceSettings) -> bool:
    """Whether a pool gathered under the former settings goes on under the new: only the rhythm of training differs."""
    if isinstance(former, RolloutSettings) or type(former) is not type(new):
        return False
    names = [field.name for field in fields(former) if field.name not in _RHYTHM]
    pairs = [(getattr(former, name), getattr(new, name)) for name in names]
    return all(one is other or (type(one) is type(other) and one == other) for one, other in pairs)
