"""`tuner import study`: copies a study of another program, and says what of it is understood."""

import re
import shlex
from pathlib import Path
from typing import Final

from rich.markup import escape

from tuner.commands.preflight import compose_or_explain
from tuner.config.composition import config_loader, run_config_of
from tuner.config.paths import flatten
from tuner.errors import UserError
from tuner.features.imports.facts import Source
from tuner.features.imports.foreign_parameters import Imported, MeantAgent, imported
from tuner.features.imports.foreign_storage import absolute, ended_trials, find_study, foreign_storage, url_of
from tuner.features.imports.study_copy import Copied, Original, copy_study, definition_of
from tuner.features.imports.zoo_files import LIBRARY, library_agent
from tuner.results.number_format import counted, join_words
from tuner.runs.config_checks import resolve
from tuner.runs.functions import function_name, is_function
from tuner.study import StudyStore
from tuner.support.console import PlainConsole
from tuner.support.passwords import shown
from tuner.trial.messages import JsonDict, Outcome

_DEFAULT: Final = "sqlite:///studies.db"


def import_study(config: JsonDict) -> int:
    """Copies a study; the other one stays as it is.

    Args:
        config: Of the command, resolved.

    Raises:
        UserError: There is no such study, it has no complete trial, or the copy cannot be made.
    """
    console, target = PlainConsole(), str(config["storage"]["url"])
    url = target if config["source"] is None else url_of(str(config["source"]))
    agent, called = _agent(config["agent_name"])
    keys = {str(name): str(key) for name, key in (config["keys"] or {}).items()}
    with foreign_storage(url) as storage:
        foreign = find_study(storage, url, config["name"])
        source = Source(shown(absolute(url)), foreign.study_name)
        trials = ended_trials(foreign, source.storage)
        num_complete = sum(trial.state.name == "COMPLETE" for trial in trials)
        if not num_complete:
            raise UserError(
                f"the study {source.name} in {source.storage} has no complete trial: there is nothing to import yet"
            )
        parameters = imported(trials, keys, agent)
        name = _name_of_copy(config["study"]["name"], source.name, absolute(url) == absolute(target))
        definition = definition_of(name, parameters, called, len(trials), Path(config["study"]["folder"]))
        with StudyStore(target) as store, console.status(f"reading {escape(source.name)}") as status:

            def show(done: int, total: int) -> None:
                status.update(f"copying trial {done + 1:,} of {total:,}")

            copied = copy_study(Original(foreign, source), parameters, store, definition, show)
    at = "" if target == _DEFAULT else f" storage.url={shlex.quote(shown(target))}"
    for line in (_ends(source, copied), _kept(parameters, agent), *_next(name, at, parameters, agent)):
        console.print(escape(line), highlight=False, soft_wrap=True)
    return 0


def _agent(name: str | None) -> tuple[MeantAgent, str]:
    """Whose keys are meant, and what that agent is called in a study.

    Raises:
        UserError: There is no such agent.
    """
    if name is None:
        return MeantAgent(), ""
    if name == LIBRARY:
        raise UserError(f"agent={LIBRARY} has several algorithms: name one, such as agent={library_agent('ppo')}")
    config = run_config_of(resolve(compose_or_explain(config_loader(), "tune", [f"agent={name}"])))
    paths = frozenset(path for path in flatten(config) if "_target_" not in path)
    return MeantAgent(name, paths, own=not is_function(config)), function_name(config).lower()


def _name_of_copy(typed: str | None, name: str, in_same_storage: bool) -> str:
    """A name that can be that of a folder; in the storage of the other study it is another one."""
    if typed is not None:
        if in_same_storage and typed == name:
            raise UserError(f"study.name={typed} is the study itself, which stays as it is: name the copy otherwise")
        return typed
    plain = re.sub(r"[^\w.=-]+", "-", name).strip("-.") or "imported"
    return f"{plain}-imported" if in_same_storage and plain == name else plain


def _ends(source: Source, copied: Copied) -> str:
    words = {Outcome.COMPLETE: "complete", Outcome.PRUNED: "pruned", Outcome.CRASHED: "failed"}
    parts = [
        f"{count} {words.get(outcome, 'without a finite value')}" for outcome, count in sorted(copied.trials.items())
    ]
    total = sum(copied.trials.values())
    new = "" if copied.num_new == total else f", {copied.num_new} of them new"
    rest = f"; {counted(copied.num_left_out, 'trial')} without an end left out" if copied.num_left_out else ""
    return f"{counted(total, 'trial')} of study {source.name} ({join_words(parts)}){new}{rest}"


def _kept(parameters: Imported, agent: MeantAgent) -> str:
    """One line on what has a key here, and what has none."""
    mapped = {name: path for path, name in parameters.names.items() if name not in parameters.unmapped}
    known = ", ".join(f"{name} is {path}" for name, path in sorted(mapped.items()) if name != path)
    if not parameters.unmapped:
        return f"parameters: {known or 'all have keys of ours already'}"
    of = f" of agent={agent.name}" if agent.name else ""
    missing = f"no key{of} is known of {join_words(parameters.unmapped)}"
    how = f"keys={{{parameters.unmapped[0]}: KEY}} names one"
    return f"parameters: {known + '; ' if known else ''}{missing}; {how}"


def _next(name: str, at: str, parameters: Imported, agent: MeantAgent) -> list[str]:
    shown_name = shlex.quote(name)
    lines = [f"it is study {name} here: tuner report {shown_name}{at}"]
    if len(parameters.unmapped) < len(parameters.names):
        whose = f"agent={agent.name} " if agent.name else ""
        lines.append(f"a search that begins with its best: tuner tune {whose}warm_start=study:{shown_name}{at}")
    return lines
