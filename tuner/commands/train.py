"""`tuner train`: one run in this process, or the continuation of one."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape

from note_rl.errors import DivergedError, PeerError
from note_rl.support.threads import thread_variables
from tuner.commands.multirun import RunOfMultirun
from tuner.commands.output_folders import remove_empty
from tuner.config.composition import RunConfig
from tuner.config.vocabulary import speaking_of_settings
from tuner.errors import UserError
from tuner.results.metric import Mixed
from tuner.results.number_format import format_mean, format_number, format_seconds, join_words
from tuner.runs import run_folders as runs
from tuner.runs.adaptation_log import describe_adaptation
from tuner.runs.build import build_distributed, build_run, build_trackers, check_trackers, find_function
from tuner.runs.checkpoints import about_best, take_weights
from tuner.runs.config_checks import resolve
from tuner.runs.devices import check_devices
from tuner.runs.follower_rank import follow
from tuner.runs.functions import RETURNED, function_name, is_function, run_function
from tuner.runs.progress_bar import Progress, make_progress, noting_compilation
from tuner.runs.recorder import FunctionRecorder, RunRecorder
from tuner.runs.run_strategy import FIRST_OF_ALL, Role, role_of
from tuner.runs.run_threads import few_threads
from tuner.runs.training import TrainOutcome, run_training
from tuner.support.console import PlainConsole
from tuner.support.plain_text import MAX_TRACEBACK, describe_error, traceback_of
from tuner.support.text_files import atomic_write
from tuner.trackers.base import RunInfo, Tracker, TrackerGroup
from tuner.trackers.history import HistoryTracker
from tuner.trackers.jsonl import JsonlTracker
from tuner.trial.context import TrialContext
from tuner.trial.folder import BEST_FILE, CHECKPOINT_FILE
from tuner.trial.messages import OUTPUT_FILE, JsonDict, Outcome, TrialInterrupted


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses to continue what cannot be continued, and a folder that is another run's."""
    del config_dir
    resolved = resolve(config)
    check_trackers(resolved.get("tracker"))
    if _following_role(resolved):
        return  # it writes nothing
    if config.resume is None:
        runs.check_free(folder)
        return
    if folder != Path(config.resume).absolute():
        raise UserError(
            f"resume={config.resume} continues this one run in its own folder; leave -m and hydra.run.dir out"
        )
    if not folder.exists():
        raise UserError(f"resume={config.resume}: {runs.no_run(folder)}")
    runs.resumed_config(folder, resolved, overrides)


def _following_role(resolved: JsonDict) -> Role | None:
    """Of this process, if another one leads and this one follows."""
    if resolved.get("backend") is None or not resolved.get("strategy"):
        return None
    role = role_of(build_distributed(RunConfig.from_json(resolved)))
    return None if role is None or role.leads else role


def check_fit(config: DictConfig) -> None:
    """Builds a new run and lets its agent act once: what does not fit is refused before the run begins.

    Of a function in the place of an agent, the module is imported.

    Raises:
        UserError, note_rl.errors.NoteRLError: Raised by `build_run` or `BuiltRun.try_out`.
    """
    if config.resume is None and config.get("backend") is None:
        find_function(resolve(config)["agent"])
    elif config.resume is None:
        run = RunConfig.from_json(resolve(config))
        if run.strategy.get("strategy") in FIRST_OF_ALL:
            return
        with few_threads(run.backend), speaking_of_settings():
            check_devices(build_distributed(run))
            built = build_run(run)
            if run.init is not None:
                take_weights(built.agent, run.init)
            built.try_out()


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains with a progress display and says where the run is."""
    return _run(config, folder, overrides, None)


def run_of_multirun(config: DictConfig, folder: Path, overrides: Sequence[str], member: RunOfMultirun) -> int:
    """The same for one of several runs, which trackers show together."""
    return _run(config, folder, overrides, member)


def _ends_of_schedules(config: JsonDict, overrides: Sequence[str], total_steps: int, begun: int) -> list[str]:
    """Which schedules follow another budget that is typed, and which do not."""
    typed = next((word for word in overrides if word.lstrip("+").startswith("training.total_steps=")), None)
    if typed is None:
        return []
    notes = []
    if begun and (names := config.get("schedule")):
        done = f"{100 * begun / total_steps:.0f} %"
        notes.append(f"schedules go over all of {typed}: {join_words(names)} continues where it is after {done} of it")
    repeated = (config.get("adaptive") or {}).get("schedule") or {}
    if last := max((step for pairs in repeated.values() for step, _ in pairs), default=0):
        fixed = "adaptive.schedule is in environment steps and does not follow"
        notes.append(f"{fixed} {typed}: its last change is at step {last:,}")
    return notes


def _run(config: DictConfig, folder: Path, overrides: Sequence[str], member: RunOfMultirun | None) -> int:
    console = PlainConsole()
    progress = make_progress(resolve(config).get("progress"), console)
    if OmegaConf.select(config, "backend.device") == "cpu":
        for name, value in thread_variables(1).items():
            os.environ.setdefault(name, value)  # small networks are several times faster with one thread
    role = _following_role(resolve(config))
    if role is not None:
        console.print(f"{role.name} trains along with the process that leads, which keeps the run", soft_wrap=True)
        remove_empty([folder])  # now: it may be killed
        follow(RunConfig.from_json(resolve(config)))
        return 0
    check_fit(config)
    folder = _shortest(folder)
    begun = 0 if config.get("resume") is None else runs.steps_done(folder)
    goes_on = f", from step {begun:,} on" if begun else ""
    console.print(f"training in {escape(str(folder))}{goes_on}", soft_wrap=True)
    own = runs.written_config(folder) if begun else resolve(config)
    for note in _ends_of_schedules(own, overrides, OmegaConf.select(config, "training.total_steps"), begun):
        console.print(escape(note), soft_wrap=True)
    outcome = train(config, folder, overrides, progress, member)
    final, seconds = f"[bold]{format_number(outcome.final_return)}[/bold]", format_seconds(outcome.seconds)
    if config.get("backend") is None or outcome.stop_reason == RETURNED:  # a function, also of a run that goes on
        console.print(f"score {final} ({seconds})", soft_wrap=True)
    else:
        watch = f"watch it: [bold]tuner play {escape(str(folder))}[/bold]"
        steps = f"{outcome.num_env_steps:,} steps"
        mean = f"[bold]{format_mean(outcome.final_return)}[/bold]"
        console.print(f"mean return {mean} after {steps} ({seconds}); {watch}", soft_wrap=True)
        if len(outcome.evaluations) > 1:
            score = Mixed()([(point.fraction, point.mean_return) for point in outcome.evaluations])
            console.print(f"score as in a study ({Mixed.label}): {format_number(score)}", soft_wrap=True)
        if not outcome.num_gradient_steps:
            console.print(escape(_nothing_learned(resolve(config)["buffer"], outcome)), soft_wrap=True)
    _say_better(console, folder, outcome)
    for line in describe_adaptation(folder):
        console.print(escape(line), soft_wrap=True)
    return 0


def _nothing_learned(buffer: JsonDict, outcome: TrainOutcome) -> str:
    """Why a run ended before its first gradient step, as far as its settings tell."""
    begins = buffer.get("learning_starts") or buffer.get("num_steps") or 0
    setting = "buffer.learning_starts" if buffer.get("learning_starts") else "buffer.num_steps"
    why = f": {setting}={begins}" if begins >= outcome.num_env_steps else ""
    return f"nothing was learned: the run was over before the first gradient step{why}; raise training.total_steps"


def _say_better(console: Console, folder: Path, outcome: TrainOutcome) -> None:
    """Where the weights are that were evaluated better than the last ones, or that these were by other episodes."""
    path = folder / BEST_FILE
    about = about_best(path) if path.is_file() else {}
    if about and about["mean_return"] > outcome.final_return:
        if about["num_env_steps"] == outcome.num_env_steps:  # it ended early, right behind an evaluation
            first = format_number(about["mean_return"])
            line = f"that is of fresh episodes: the {first} of the same weights before it may have been luck"
            console.print(line, soft_wrap=True)
            return
        best = f"[bold]{format_number(about['mean_return'])}[/bold] after {about['num_env_steps']:,} steps"
        watch = f"[bold]tuner play {escape(str(folder))} weights=best[/bold]"
        console.print(f"best evaluation {best}; watch it: {watch}", soft_wrap=True)


def train(
    config: DictConfig,
    folder: Path,
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
    member: RunOfMultirun | None = None,
) -> TrainOutcome:
    """Trains one agent in a folder.

    Args:
        config: Composed from the primary config `train`, checked.
        folder: Of the run; with `resume`, the folder of the run that is continued.
        overrides: As typed; they decide which settings of a continued run are changed.
        progress: Shows how it goes; None: nothing is shown.
        member: Of a new run, its place among others.

    Raises:
        UserError: The run cannot be continued, or its folder is in use.
        KeyboardInterrupt: After Ctrl-C, with a checkpoint written.
    """
    resolved = resolve(config)
    resolved.pop("progress", None)
    is_new, trust = resolved.pop("resume", None) is None, resolved.pop("trust", None)
    put_back = _nothing
    if is_new:
        if resolved.get("init") is not None:  # wherever the run is resumed from
            resolved["init"] = str(Path(resolved["init"]).absolute())
        runs.begin(folder, resolved)
        if member is not None:
            member.keep(folder)
        prepare = None
    else:
        resolved = runs.resumed_config(folder, {**resolved, "trust": trust}, overrides)
        put_back = runs.keep_as_it_is(folder)
        prepare = partial(runs.continue_with, folder, resolved)
    return _recorded(_info_of(resolved, folder), progress or Progress(), prepare, put_back)


def _info_of(config: JsonDict, folder: Path) -> RunInfo:
    """A run as trackers know it: one of several is named by what tells it from the others."""
    member = RunOfMultirun.kept_in(folder)
    if member is not None and member.name:
        return RunInfo(member.name, member.group, config, folder, member.overrides)
    group = " ".join(filter(None, [function_name(config), config.get("env", {}).get("id")]))
    return RunInfo(folder.name, group, config, folder)


def _nothing() -> None:
    """A new run has nothing that could be put back."""


def objective(config: DictConfig, trial: TrialContext) -> float:
    """Trains as a job of `hydra/sweeper=optuna`; the trial gets every evaluation and may end the run.

    Returns:
        The score that `tuner tune` goes by: half area under the curve of evaluations, half their final part.
    """
    resolved = trained_config(config)
    if not (trial.folder / runs.CONFIG_FILE).exists():  # it does if an earlier attempt crashed
        runs.begin(trial.folder, resolved)
    if is_function(resolved):
        run_function(resolved, trial.folder, trial)
    else:
        window = int(resolved["training"].get("reward_window", 100))
        with closing(HistoryTracker(trial.folder, window)) as history:
            run_training(RunConfig.from_json(resolved), trial.folder, trial, history)
    return Mixed()(sorted(trial.reported))


def tracker_of(config: DictConfig) -> Tracker:
    """The trackers of a sweep with this config."""
    return TrackerGroup(list(build_trackers(resolve(config).get("tracker")).values()))


def trained_config(config: DictConfig) -> JsonDict:
    """A resolved config without what says how the command is called."""
    return {key: value for key, value in resolve(config).items() if key not in ("resume", "trust", "progress")}


def _train(config: JsonDict, folder: Path, recorder: RunRecorder) -> TrainOutcome:
    if is_function(config):
        return run_function(config, folder, recorder)
    return run_training(RunConfig.from_json(config), folder, recorder, recorder)


def _recorded(
    info: RunInfo,
    progress: Progress,
    prepare: Callable[[], None] | None,
    put_back: Callable[[], None],
) -> TrainOutcome:
    """Trains; whatever the end, it is written down and the trackers are notified.

    Args:
        info: The run, its config resolved.
        progress: Shown to the user.
        prepare: Changes the folder before it is read, once it is sure that nobody else trains there.
        put_back: Undoes the change, where the run could not begin.
    """
    config, folder = info.config, info.folder
    tracker = TrackerGroup([JsonlTracker(), *build_trackers(config.get("tracker")).values()])
    kind = FunctionRecorder if is_function(config) else RunRecorder
    recorder = kind(info, tracker, progress, runs.steps_done(folder), prepare)
    with recorder.stopping_on_signals():
        try:
            with noting_compilation(progress):
                outcome = _train(config, folder, recorder)
        except BaseException as error:
            with ExitStack() as last:
                if not recorder.began:
                    last.callback(put_back)
                if isinstance(error, TrialInterrupted | KeyboardInterrupt) or recorder.stopped_at_once:
                    raise _stopped(recorder, folder) from None
                diverged = isinstance(error, DivergedError)
                recorder.failed(Outcome.DIVERGED if diverged else Outcome.CRASHED, describe_error(error))
                _keep_long_traceback(error, folder)
                if isinstance(error, PeerError) and not diverged and (folder / CHECKPOINT_FILE).exists():
                    raise PeerError(f"{error}\n{_way_on(config, folder)}") from error
                raise
        try:
            recorder.finished(outcome)
        except KeyboardInterrupt:  # while trackers are closed, which say what they lack
            raise KeyboardInterrupt(f"the run is complete, its trackers were not waited for: {folder}") from None
    return outcome


def _stopped(recorder: RunRecorder, folder: Path) -> KeyboardInterrupt:
    """Writes down that the user has stopped the run; returns what says how it goes on."""
    with suppress(KeyboardInterrupt):  # pressed again while trackers are closed
        recorder.failed(Outcome.STOPPED, "interrupted")
    if isinstance(recorder, FunctionRecorder) or (folder / CHECKPOINT_FILE).exists():
        return KeyboardInterrupt(f"stopped; continue with: tuner train resume={folder}")
    return KeyboardInterrupt(f"stopped before its first checkpoint; from step 0 on: tuner train resume={folder}")


def _way_on(config: JsonDict, folder: Path) -> str:
    """How a run goes on that has lost a process which trained along."""
    others = role_of(build_distributed(RunConfig.from_json(config))) is not None
    again = " in place of the command of this process, and those of the others again" if others else ""
    return f"it goes on from its checkpoint: tuner train resume={folder}{again}"


def _keep_long_traceback(error: BaseException, folder: Path) -> None:
    """Of a traceback that is too long to be shown, all is in the folder of the run; a note behind it says so."""
    trace, path = traceback_of(error), folder / OUTPUT_FILE
    if len(trace) > MAX_TRACEBACK:
        with suppress(OSError):
            atomic_write(path, trace)
            error.add_note(f"all of it is in {path}")


def _shortest(folder: Path) -> Path:
    """Relative to the working directory where that is possible."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
