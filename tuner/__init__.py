"""Hyperparameter tuning for reinforcement learning.

    import tuner

    outcome = tuner.train(["agent=ppo", "env=acrobot"])      # as `tuner train agent=ppo env=acrobot`
    result = tuner.tune(["agent=ppo"])                       # as `tuner tune agent=ppo`
    agent = tuner.load(result).agent()                       # of a study; of a run: tuner.load_agent(RUN)
    action, _ = agent.predict(observation)

Importing this package imports neither a framework, nor Optuna, nor Hydra: each function brings what it needs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path  # each module that is imported here lengthens the time before Ctrl-C is listened to

    from tuner.commands.study_result import StudyResult, TuneResult
    from tuner.runs.player import Player
    from tuner.runs.training import TrainOutcome

__all__ = ["checkpoint", "hub", "load", "load_agent", "report", "resume", "train", "tune"]


def train(
    overrides: Sequence[str] = (),
    *,
    folder: "str | Path | None" = None,
    config_dir: "str | Path | None" = None,
    show_progress: bool = False,
) -> "TrainOutcome":
    """Trains one agent in this process, as `tuner train` does.

    On a CPU that is with one thread, unless OMP_NUM_THREADS says otherwise; PyTorch has its threads back afterwards.

    Args:
        overrides: As on the command line: `["agent=ppo", "agent.gamma=0.98", "seed=3"]`.
        folder: Of the run; by default a new one under runs/.
        config_dir: A folder with groups of your own, as --config-dir.
        show_progress: Whether progress is shown, as `progress=` says.

    Returns:
        Evaluations, returns and the folder of the run.

    Raises:
        tuner.errors.UserError: A setting is wrong; the message says what to write instead.
        note_rl.errors.NoteRLError: The training core refuses a setting.
        KeyboardInterrupt: After Ctrl-C; a checkpoint was written, `resume=FOLDER` continues.
    """
    from pathlib import Path

    from tuner.checking.features import named
    from tuner.commands import train as command
    from tuner.commands.preflight import check_command
    from tuner.config.overrides import quoted_texts
    from tuner.runs.progress_bar import make_progress
    from tuner.support.console import PlainConsole

    overrides = named(quoted_texts(overrides))
    checked = check_command("train", overrides, config_dir)
    target = checked.folder if folder is None else Path(folder).absolute()
    command.check(checked.config, target, overrides)
    command.check_fit(checked.config)
    progress = make_progress(checked.config.get("progress"), PlainConsole()) if show_progress else None
    return command.train(checked.config, target, overrides, progress)


def tune(
    overrides: "Sequence[str] | Callable[..., Any]" = (),
    also: Sequence[str] = (),
    *,
    space: "Mapping[str, Any] | None" = None,
    config_dir: "str | Path | None" = None,
    show_progress: bool = False,
    **settings: Any,
) -> "TuneResult":
    """Runs a study, or what is left of it, as `tuner tune` does.

    Args:
        overrides: As on the command line: `["agent=ppo", "study.num_trials=50"]`. Or a training function of a module,
            or a class of Stable-Baselines3: `tuner.tune(PPO, env="CartPole-v1", num_trials=20, vf_coef=0.4)`.
        also: Further overrides, beside a function or a class.
        space: The search space, by argument: a pair (low, high), a list of choices, or
            `dict(low=1e-5, high=1e-2, log=True)`; of a class, None: its own search space, less what is given.
        settings: Other arguments of it; and total_steps, num_points, num_episodes, num_trials, name, folder and seed,
            which are the study's. Of a class env and num_envs are, too.
        config_dir: A folder with groups of your own, as --config-dir.
        show_progress: Whether the live table is shown.

    Returns:
        The verdict, the winner's config and how to train it again: all that `load` gives of a finished study.

    Raises:
        tuner.errors.UserError: A setting is wrong; the message says what to write instead.
        note_rl.errors.NoteRLError: The training core refuses a setting.
        tuner.study.StudyStopped: After Ctrl-C; the same call goes on.
    """
    from tuner.checking.features import meant
    from tuner.commands import tune as command
    from tuner.commands.preflight import check_command
    from tuner.config.overrides import quoted_texts
    from tuner.errors import UserError
    from tuner.support.console import PlainConsole

    if callable(overrides) or not isinstance(overrides, Sequence):
        from tuner.commands.python_calls import as_typed

        overrides = as_typed(overrides, space, settings, also)
    elif space is not None or settings or also:
        extra = next(iter(settings), "space" if space is not None else "also")
        raise UserError(f"{extra}= is for a function or a class in the first place; beside a list, type it in the list")
    overrides = meant(quoted_texts(overrides))
    checked = check_command("tune", overrides, config_dir)
    command.check(checked.config, checked.folder, overrides)
    if checked.config.plan:
        raise UserError("plan=true prints a plan and runs nothing, which is for the command line: leave it out here")
    console = PlainConsole() if show_progress else None
    return command.tune(checked.config, overrides, config_dir=config_dir, console=console)


def load(
    study: "str | Path | StudyResult | None" = None, *, storage: str | None = None, trust: Sequence[str] = ()
) -> "StudyResult":
    """Loads the result of a study or a sweep, finished or not: trials, winner, trained agent. Changes nothing.

    Args:
        study: Its name, its folder (a `Path`, or text with a slash), or what `tune` returned; None: the latest.
        storage: URL of its storage; by default studies.db in this folder, or that which the study's folder belongs to.
        trust: Modules outside of `tuner` that the study may name, as `trust=` on the command line.

    Returns:
        With `.trials`, `.winner`, `.overrides`, `.verdict` and `.agent()`.

    Raises:
        tuner.errors.UserError: There is no such study or storage.
    """
    from tuner.commands.study_loading import load as load_study
    from tuner.config.trust import trusted_modules

    return load_study(study, storage, trusted_modules(list(trust)))


def load_agent(run: "str | Path", *, weights: str = "last", trust: Sequence[str] = ()) -> "Player":
    """The trained agent of a run, on the CPU: `action, _ = tuner.load_agent(RUN).predict(obs)`.

    Of an algorithm of another library it has `model`, what that library itself knows.

    Args:
        run: Its folder, a checkpoint file in one, or a study, by folder or name: the winner's run of highest score.
        weights: "last", or "best": those of the best evaluation.
        trust: Modules outside of `tuner` that it may name, as `trust=` on the command line.

    Raises:
        tuner.errors.UserError: There is no such run, it has no such weights, or a function was run.
        note_rl.errors.CheckpointError: The checkpoint is damaged.
    """
    from tuner.commands.study_loading import player_of
    from tuner.config.trust import trusted_modules

    return player_of(str(run), weights, trusted_modules(list(trust)))


def report(step: float, value: float, *, checkpoint: Any = None, **metrics: float) -> bool:
    """Reports an intermediate value of the trial that this process runs; outside a study it does nothing.

    For any function that a study runs, the task function of a Hydra application among them. A step that an earlier
    attempt of the same trial has reported keeps the value that it had.

    Args:
        step: Where in the run: the done fraction of its budget, in (0, 1]; for jobs of a Hydra sweep also a number of
            epochs or the like.
        value: The metric there.
        checkpoint: A state for `tuner.checkpoint`, saved before the report is made: the trial then goes on right behind
            this report, wherever it is ended. None: nothing is saved.
        metrics: Further measurements there, by name: written to metrics.jsonl and shown by trackers.

    Returns:
        Whether a study listens.

    Raises:
        tuner.trial.messages.TrialInterrupted: The trial is to end early (pruned or stopped). Let it pass.
        tuner.errors.UserError: The values are no points of a curve, or cannot be saved.
    """
    from tuner.trial.context import current_trial

    trial = current_trial()
    if trial is None:
        return False
    if not metrics and checkpoint is None:
        trial.report(step, value)
        return True
    from tuner.runs.function_state import report as report_more

    report_more(trial, step, value, metrics, checkpoint)
    return True


def checkpoint(state: Any) -> bool:
    """Saves what the trial of this process goes on from if it is ended and continued; outside a study it does nothing.

    What is there when this returns is found again after any kill, and replaces what was saved before. Nothing is saved
    but what is given: random numbers, environments, optimizers and places in a data set are yours to put in. Call it
    in the process that was started, not in one that it has forked.

    Args:
        state: A dictionary of arrays (of NumPy, PyTorch, or what NumPy can read), numbers and texts, in dictionaries,
            lists and tuples of any depth: `{"model": model.state_dict(), "epoch": 3}`. Or a folder with files of any
            kind, which is copied.

    Returns:
        Whether it was saved.

    Raises:
        tuner.trial.messages.TrialInterrupted: The trial is to end early; it was saved before. Let it pass.
        tuner.errors.UserError: It is neither; names what in it cannot be saved.
    """
    from tuner.trial.context import current_trial

    trial = current_trial()
    if trial is None:
        return False
    from tuner.runs.function_state import save

    save(trial, state)
    return True


def resume() -> Any:
    """Returns the state that this trial saved last by `tuner.checkpoint`; None: it begins, or this process is no trial.

    Call it once, before the first report. Restored is what was given to `tuner.checkpoint`, and nothing else: whatever
    else the function draws or counts begins anew. PyTorch's tensors come back on the CPU.

    Returns:
        The dictionary; or the folder with the files, which is there until the next checkpoint and is not to be changed.

    Raises:
        tuner.trial.messages.TrialInterrupted: The trial is to end early: the answer to its last report. Let it pass.
        tuner.errors.UserError, note_rl.errors.CheckpointError: The checkpoint is damaged, or of a newer version.
    """
    from tuner.trial.context import current_trial

    trial = current_trial()
    if trial is None:
        return None
    from tuner.runs.function_state import resume as last_state

    return last_state(trial)


def hub(package: str, cls: str, registry: str | None = None, **arguments: Any) -> Any:
    """A sampler or pruner from OptunaHub: `sampler=hub sampler.package=samplers/auto_sampler sampler.cls=AutoSampler`.

    Args:
        package: Its path in the registry. Its code is downloaded and run.
        cls: The class in it.
        registry: A folder with such packages, in place of the public registry.
        arguments: Of the class.

    Raises:
        tuner.errors.UserError: OptunaHub is not installed, or there is no such package or class.
    """
    from tuner.study.sampling.optunahub import from_registry

    return from_registry(package, cls, registry, **arguments)
