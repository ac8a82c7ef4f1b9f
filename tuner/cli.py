"""`tuner train | tune | find | ...`: checks the primary config, hands over to Hydra.

Everything behind the command is ordinary Hydra: overrides, --multirun, --cfg job, --config-dir, --help, completion.
What the user did wrong is answered in a line or two with exit status 2.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from note_rl.errors import DivergedError, NoteRLError, PeerError
from tuner.checking.hydra_messages import explain_option
from tuner.commands import COMMANDS, Command
from tuner.commands.at_once import COMPLETION, answered_at_once, as_meant, refuse
from tuner.commands.multirun import Multirun
from tuner.commands.output_folders import make_folder, remove_empty
from tuner.commands.preflight import Preflight, admit_groups, compose_or_explain
from tuner.commands.tracebacks import describe_crash, exit_of_the_user
from tuner.config.composition import conf_folder, config_loader, prepare_hydra
from tuner.config.hydra_internals import arguments_parser, hydra_of, run_as_main
from tuner.config.vocabulary import speaking_of_settings
from tuner.errors import UserError
from tuner.support.help_columns import width_of
from tuner.support.interrupts import EXIT_INTERRUPTED, begin_work
from tuner.support.passwords import hidden, without_password
from tuner.support.plain_text import MAX_MESSAGE, message_of, one_line, plain
from tuner.support.text_files import is_full
from tuner.trial.context import TrialContext, current_trial

if TYPE_CHECKING:
    from tuner.executors.preload import Backend
    from tuner.trackers.base import Tracker
    from tuner.trial.messages import JsonDict

EXIT_CRASHED = 1


@dataclass
class HydraJob:
    """The callable that Hydra runs for each job. Plain data, so that launchers and sweepers can send it elsewhere.

    Attributes:
        command: Which one.
        multirun: The command line of several runs; None: this is one.
        statuses: Of the runs that have ended.
    """

    command: Command
    multirun: Multirun | None = None
    statuses: list[int] = field(default_factory=list)

    def __call__(self, config: DictConfig) -> float:
        """Runs the command in the folder that Hydra has made. One run that fails does not keep others from running.

        Returns:
            The exit status; as a job of hydra/sweeper=optuna, the score of the run.
        """
        begin_work()
        hydra = HydraConfig.get()
        folder, overrides = Path(hydra.runtime.output_dir), _as_typed(hydra.overrides.task)
        trial = current_trial()
        if isinstance(trial, TrialContext):
            return self.command.load().objective(self._meant(config), trial)
        status = _answered(self.command, lambda: self._run(self._meant(config), folder, overrides))
        self.statuses.append(status)
        if status == EXIT_INTERRUPTED and self.multirun is not None:
            raise KeyboardInterrupt(f"the same command goes on:\n  {self.multirun.again}")
        return status

    def _run(self, config: DictConfig, folder: Path, overrides: tuple[str, ...]) -> int:
        module = self.command.load()
        try:
            if self.multirun is None or not self.command.has_objective:
                return module.run(config, folder, overrides)
            member = self.multirun.member(overrides, Path(HydraConfig.get().sweep.dir))
            return module.run_of_multirun(config, folder, overrides, member)
        except SystemExit as error:
            raise exit_of_the_user(error) from error

    @property
    def folder_by_clock(self) -> bool:
        """Whether the folder of a sweep has its name from the time: then it is no wish of the user's."""
        return self.multirun is not None and self.multirun.folder_by_clock

    def _meant(self, config: DictConfig) -> DictConfig:
        from tuner.runs.config_checks import as_meant  # brings Gymnasium

        as_meant(config, self.command.config_name)
        return config

    def sweep_tracker(self, config: DictConfig) -> "Tracker":
        """The trackers of a sweep of hydra/sweeper=optuna with this config."""
        return self.command.load().tracker_of(config)

    def run_config(self, config: DictConfig) -> "JsonDict":
        """The run's configuration under which hydra/sweeper=optuna identifies a job with this config."""
        return self.command.load().trained_config(self._meant(config))

    def sweep_backend(self, config: DictConfig) -> "Backend":
        """The framework that the fork server of hydra/sweeper=optuna imports for these jobs; called before any run.

        Raises:
            UserError: The command has no score.
        """
        if not self.command.has_objective:
            raise UserError("hydra/sweeper=optuna searches by the score of training runs: tuner train -m ...")
        return cast("Backend", str(config.backend.name) if "backend" in config else "none")  # a function has none


def _as_typed(overrides: list[str]) -> tuple[str, ...]:
    """The overrides with their references, such as `${oc.env:DB_URL}`, which are not for any file."""
    plain = OmegaConf.to_container(overrides, resolve=False)
    assert isinstance(plain, list)
    return tuple(map(str, plain))


def main(argv: Sequence[str] | None = None) -> int:
    """The console script.

    Args:
        argv: The words behind `tuner`; None: this process's arguments.

    Returns:
        0, or 1 if something crashed, 2 for a mistake of the user's, 130 after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        sys.argv[1:] = map(without_password, arguments)  # W&B and other libraries write down how they were called
    name, *others = arguments = as_meant(arguments)
    if _runs_own_code(name, arguments) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # env.id=my_pkg:MyEnv-v0 finds my_pkg.py here, as `python` would
    if name in COMPLETION:
        return _answered(COMMANDS["train"], lambda: _complete(arguments))
    if (status := answered_at_once(arguments)) is not None:
        return status
    command = COMMANDS[name]
    try:
        return _answered(command, lambda: _dispatch(command, others))
    except KeyboardInterrupt as interruption:
        sys.stderr.write(f"\n{plain(str(interruption), MAX_MESSAGE) or 'stopped'}\n")
        return EXIT_INTERRUPTED


def _runs_own_code(name: str, arguments: Sequence[str]) -> bool:
    """Whether modules in the working directory are part of the program, as they are for `python`.

    Not for what reads folders and storages only: these may be somebody else's, and the working directory with them, and
    a torch.py in it would be imported. `tuner.config.trust` adds the directory once the code in question is known.
    """
    is_resumed = any(word.startswith("resume=") for word in arguments)
    if name not in COMMANDS:
        return False
    return COMMANDS[name].own_code or (COMMANDS[name].is_job and not is_resumed)


def _answered(command: Command, work: Callable[[], int]) -> int:
    """Does some work; every error becomes an answer and an exit status."""
    try:
        with speaking_of_settings(), _no_executor_left():
            return work()
    except (UserError, NoteRLError) as error:
        return refuse(str(error), command)
    except (DivergedError, PeerError) as error:
        sys.stderr.write(f"tuner {command.name}: {plain(message_of(error), MAX_MESSAGE)}\n")
        return EXIT_CRASHED
    except SystemExit as error:  # argparse and Hydra's --help, --version, --cfg
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BrokenPipeError:  # the reader of our output has gone: `tuner train --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HydraException as error:
        first, _, rest = str(error).strip().partition("\n")
        reason = rest.partition("\n")[0] if first.endswith(":") else ""  # what a class of the user's own has raised
        return refuse(f"{first} {reason}".strip(), command)
    except Exception as error:  # noqa: BLE001 - the border of the program: what is left is a crash, shown as such
        if is_full(error):
            return refuse(f"the disk is full ({one_line(message_of(error))}); make room and start again", command)
        sys.stderr.write(hidden(describe_crash(error)))
        return EXIT_CRASHED


@contextmanager
def _no_executor_left() -> Iterator[None]:
    """Closes an executor that was begun for a command that is refused after all."""
    try:
        yield
    finally:
        if (module := sys.modules.get("tuner.executors.head_start")) is not None:
            module.end()


def _dispatch(command: Command, arguments: list[str]) -> int:
    parser = arguments_parser()
    options = _options(command, parser, ["--help" if word == "help" else word for word in arguments])
    if options.experimental_rerun is not None:
        raise UserError("--experimental-rerun loads a pickle, which may run anything: use tuner train resume=RUN")
    options.overrides = command.meant(_with_positional(command, options.overrides, options.config_dir))
    config_name = options.config_name or command.config_name
    if options.help or options.cfg or options.info or options.hydra_help or options.shell_completion:
        return _shown(command, options, parser, config_name)
    multirun = options.multirun or "hydra.mode=MULTIRUN" in options.overrides
    checked = command.checked(options.overrides, options.config_dir, config_name=config_name, multirun=multirun)
    multirun = multirun or checked.multirun
    if multirun or not command.is_job:
        begin_work()
    if not command.is_job:
        return _called(command, checked, options)
    folder, key = (checked.sweep_folder, "sweep") if multirun else (checked.folder, "run")
    if command.has_plan and checked.config.plan:
        if multirun:
            raise UserError("plan=true plans one study: leave -m out")
        return command.load().plan(checked.config, tuple(options.overrides), options.config_dir)
    several = Multirun.of(command.name, options.overrides, options.config_dir) if multirun else None
    job = HydraJob(command, several)
    made = make_folder(folder, command.folder_key or f"hydra.{key}.dir")
    options.overrides.append(f"hydra.{key}.dir={_quoted(str(folder))}")  # or the clock would give Hydra another name
    options.multirun = multirun
    try:
        return _hand_to_hydra(job, options, parser) if options.config_path else _run_in_hydra(job, options)
    finally:
        remove_empty([folder, *made])  # made for a run that never began


def _shown(command: Command, options: argparse.Namespace, parser: argparse.ArgumentParser, config_name: str) -> int:
    """A help page, or the configuration as composed: nothing is run."""
    admit_groups(options.config_dir, options.overrides, config_name)
    if options.help:
        from tuner.commands.help_page import help_page

        page = help_page(command, options.overrides, options.config_dir, config_name, width_of(sys.stdout))
        sys.stdout.write(page)
        return 0
    try:
        return _hand_to_hydra(HydraJob(command), options, parser)
    except HydraException:
        compose_or_explain(config_loader(options.config_dir), config_name, options.overrides)
        raise


def _called(command: Command, checked: Preflight, options: argparse.Namespace) -> int:
    """A command that Hydra has no part in."""
    overrides = tuple(options.overrides)
    if command.only_shows:
        return command.load().show(checked.config, overrides, options.config_dir)
    if command.has_plan and checked.config.plan:
        return command.load().plan(checked.config, overrides, options.config_dir)
    return command.load().run(checked.config, checked.folder, overrides)


def _options(command: Command, parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Parses the command line with Hydra's own parser; its errors are replaced by our words."""

    def refused(message: str) -> NoReturn:
        raise UserError(f"{message}; tuner {command.name} --help says more")

    parser.error = refused  # type: ignore[method-assign]
    options, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown:
        raise explain_option(unknown[0], arguments, command.config_name)
    return options


def _with_positional(command: Command, words: Sequence[str], config_dir: str | None) -> list[str]:
    """A bare word becomes the setting that the command takes it for."""

    def is_bare(word: str) -> bool:  # of a command that takes one, a path may have = in it
        is_path = command.positional is not None and os.path.lexists(word)
        return is_path or ("=" not in word and not word.startswith("~"))

    bare = [word for word in words if is_bare(word)]
    if command.positional is None:
        if bare and bare[0] in COMMANDS:
            raise UserError(f"{bare[0]} is a command of its own: tuner {bare[0]} ...")
        return list(words)
    if command.takes_several and bare:
        listed = f"{command.positional}=[{','.join(map(_quoted, bare))}]"
        return [listed, *(word for word in words if word not in bare)]
    if len(bare) > 1:
        raise UserError(f"takes one {command.positional}, got {' and '.join(bare)}; settings are written KEY=VALUE")
    key = (command.key_of(bare[0], config_dir) if bare and command.key_of else None) or command.positional
    return [f"{key}={_quoted(word)}" if word in bare else word for word in words]


def _quoted(text: str) -> str:
    """A value that Hydra reads back as this very text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _hand_to_hydra(job: HydraJob, options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Lets Hydra do what was asked for: print, or run the job in its folder, once or for each value of a sweep."""
    prepare_hydra()
    with _unformatted_errors():
        if options.cfg and not options.config_path:  # by our own loader, as for what is run
            name = options.config_name or job.command.config_name
            shown = hydra_of(job.command.name, config_loader(options.config_dir))
            shown.show_cfg(name, options.overrides, options.cfg, options.package, options.resolve)
            return 0
        run_as_main(options, parser, job, conf_folder(), job.command.config_name)
    return max(job.statuses, default=0)  # 0: nothing was run, or elsewhere by a launcher


def _run_in_hydra(job: HydraJob, options: argparse.Namespace) -> int:
    """The same for what runs and is checked; `hydra.main` composes once more, to learn if there are several runs."""
    prepare_hydra()
    command = job.command
    hydra = hydra_of(command.name, config_loader(options.config_dir))
    run, mode = (hydra.multirun, "MULTIRUN") if options.multirun else (hydra.run, "RUN")
    with _unformatted_errors():
        GlobalHydra.instance().initialize(hydra)
        try:
            run(options.config_name or command.config_name, job, [*options.overrides, f"hydra.mode={mode}"])
        finally:
            GlobalHydra.instance().clear()
    return max(job.statuses, default=0)


@contextmanager
def _unformatted_errors() -> Iterator[None]:
    """Makes Hydra raise a job's exception instead of printing it its own way."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before


def _complete(arguments: list[str]) -> int:
    """Shell completion: the script to install, or what may follow in the line being typed (COMP_LINE)."""
    parser = arguments_parser()
    options = parser.parse_args(arguments)
    words = os.environ.get("COMP_LINE", "").split(" ")
    if any(word.startswith("query=") for word in options.overrides):
        if len(words) <= 2:
            sys.stdout.write(" ".join(name for name in COMMANDS if name.startswith(words[-1])) + "\n")
            return 0
        if words[1] not in COMMANDS:
            return 0
        os.environ["COMP_LINE"] = " ".join([words[0], *words[2:]])
        return _hand_to_hydra(HydraJob(COMMANDS[words[1]]), options, parser)
    return _hand_to_hydra(HydraJob(COMMANDS["train"]), options, parser)
