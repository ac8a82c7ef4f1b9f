"""Interfaces for parts of your own: one name for each kind of part, who calls it, and in which process.

A part is a class or a function in a module of yours, and a YAML file in a folder of groups whose `_target_` names it
(`tuner guide extend`). A package adds its files by an entry point of the group `tuner.conf`, see below. `tuner.testing`
has the tests that each kind of part has to pass.

There are three kinds of processes. The *controller* is the process of the command: it composes the configuration,
calls the sampler and the trackers, and trains nothing. A *trial* is the process of one run; with `tuner train` it is
the process of the command. A *seat* is a process on another machine that starts trials there.

In the controller, each from one thread:

`Executor` (group `executor`): decides where trials run. The study calls `reclaim` for each trial that an earlier
    controller has left, `start` where a slot is free, `wait` for events, `answer` for each report, and `close` at the
    end. It may have a static method `check` with the arguments of the constructor, which refuses wrong ones before
    anything starts; a static method `count_seats`, which says how many trials there is room for; a method `warm_up`,
    called early where starting takes seconds; and a constant `in_this_process`, True where trials share this process.
`Cluster` (no group): all that an executor on other machines has to write. `RemoteExecutor`, its base class, does the
    rest: it calls `new_seat` for each trial at a time, `ask`, `ready` and `answer` in turns, `shortage` where seats
    find no room, `kill`, and `close` at the end. `answer` raises a `SeatLostError` or a `SeatUnreachableError` of a
    seat that is gone or silent. The `Seat` itself, made of `SeatSettings`, runs in the process that `new_seat` starts.
`Tracker`, `RunTracker`, `RunInfo`, `PartOfRun`, `Table` (group `tracker`): show what runs measure. `start_run` is
    called for each run and for the study, `log` about once a second for each run, `finish` at its end, `close` at the
    end of the command. A tracker that raises an exception is disabled. Slow work belongs in a thread of its own.
`BaseSampler` (group `sampler`): Optuna's base class of what proposes configurations. Called for each trial, between
    two events. It is made anew when a study is continued, with another seed.
`BasePruner` (group `pruner`): Optuna's base class of what ends runs early. `prune` is called at each rung of a run.

In the trial:

`Env` (group `env`): Gymnasium's environment. Made for training, and apart from it for evaluation. With
    `collector=pool` it is made in processes that the trial starts.
`Wrapper` (groups `wrapper`, `wrapper_training`): Gymnasium's wrapper, called with the environment.
`RL_pytorch`, `RL` (group `agent`): base class of agents in PyTorch, and in Keras. Called by the trainer: `action` for
    each step in the environments, the agent itself for the loss of each gradient step, `update_param` for target
    networks.
`TrainableAgent` (group `agent`): all that is used of an agent. Both base classes offer it; needed by nobody else.
`TrialContext` (group `agent`, agent=function): what a training function gets that has an argument `context`. It calls
    `report` and gets a `TrialInterrupted` where it is to end; `tuner.report`, `tuner.checkpoint` and `tuner.resume` do
    the same without the argument.
`Policy`, `NoiseProcess` (groups `policy`, `noise`): choose actions by the answers of the agent, and add noise to them.
    Called for each step; their state is part of checkpoints.
`Schedule` (group `schedule`): a function of the used share of the budget, 0 to 1; called before each training phase.
`Signal`, `register`, `TrainingView` (group `adaptive`): a measurement that hyperparameters follow. `register` stands
    above the class; the trainer calls it after each update block. See `tuner guide adapt`.
`Callback`: hooks of training for Python code that calls `agent.train` itself; no group.
`Progress` (group `progress`): what `tuner train` prints; called in the process that trains, not within a study.

Groups without a class of their own: a `network` is a function of the shape of an observation and the number of outputs,
which returns a network of the framework; an `optimizer` a function of the parameters, which returns an optimizer of the
framework. Both are called once, in the trial, when the agent is made.

A package of such parts declares, in its `pyproject.toml`, which of its packages holds a folder of groups:

    [project.entry-points."tuner.conf"]
    mlflow = "tuner_mlflow.conf"        # tuner_mlflow/conf/tracker/mlflow.yaml is tracker=mlflow

The name on the left appears in messages. See `tuner.config.installed_groups` for which files are read and trusted.

Importing this module imports nothing else: each name is imported when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gymnasium import Env, Wrapper
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

    from note_rl import RL, RL_pytorch
    from note_rl.adaptive.signals.base import Signal, TrainingView
    from note_rl.policy.base import Policy
    from note_rl.policy.noise import NoiseProcess
    from note_rl.settings.schedules import Schedule
    from note_rl.settings.signals import register
    from note_rl.training.callbacks import Callback
    from tuner.executors.base import Event, Executor, Seats, TrialFunction
    from tuner.executors.remote.cluster import Cluster, SeatLostError, SeatUnreachableError
    from tuner.executors.remote.exchange import SeatSettings
    from tuner.executors.remote.remote_executor import RemoteExecutor
    from tuner.executors.remote.seat import Seat
    from tuner.runs.build import TrainableAgent
    from tuner.runs.progress_bar import Progress
    from tuner.trackers.base import PartOfRun, RunInfo, RunTracker, Table, Tracker
    from tuner.trial.context import TrialContext
    from tuner.trial.messages import TrialInterrupted, TrialSpec

__all__ = [
    "RL",
    "BasePruner",
    "BaseSampler",
    "Callback",
    "Cluster",
    "Env",
    "Event",
    "Executor",
    "NoiseProcess",
    "PartOfRun",
    "Policy",
    "Progress",
    "RL_pytorch",
    "RemoteExecutor",
    "RunInfo",
    "RunTracker",
    "Schedule",
    "Seat",
    "SeatLostError",
    "SeatSettings",
    "SeatUnreachableError",
    "Seats",
    "Signal",
    "Table",
    "Tracker",
    "TrainableAgent",
    "TrainingView",
    "TrialContext",
    "TrialFunction",
    "TrialInterrupted",
    "TrialSpec",
    "Wrapper",
    "register",
]

_HOMES: Final = {
    "gymnasium": ("Env", "Wrapper"),
    "note_rl": ("RL", "RL_pytorch"),
    "note_rl.adaptive.signals.base": ("Signal", "TrainingView"),
    "note_rl.policy.base": ("Policy",),
    "note_rl.policy.noise": ("NoiseProcess",),
    "note_rl.settings.schedules": ("Schedule",),
    "note_rl.settings.signals": ("register",),
    "note_rl.training.callbacks": ("Callback",),
    "optuna.pruners": ("BasePruner",),
    "optuna.samplers": ("BaseSampler",),
    "tuner.executors.base": ("Event", "Executor", "Seats", "TrialFunction"),
    "tuner.executors.remote.cluster": ("Cluster", "SeatLostError", "SeatUnreachableError"),
    "tuner.executors.remote.exchange": ("SeatSettings",),
    "tuner.executors.remote.remote_executor": ("RemoteExecutor",),
    "tuner.executors.remote.seat": ("Seat",),
    "tuner.runs.build": ("TrainableAgent",),
    "tuner.runs.progress_bar": ("Progress",),
    "tuner.trackers.base": ("PartOfRun", "RunInfo", "RunTracker", "Table", "Tracker"),
    "tuner.trial.context": ("TrialContext",),
    "tuner.trial.messages": ("TrialInterrupted", "TrialSpec"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'tuner.extending' has no attribute {name!r}")
