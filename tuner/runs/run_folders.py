"""Run folders and the configuration in them."""

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from note_rl.errors import NoteRLError
from note_rl.support.atomic_files import atomic_target
from note_rl.support.formats import marked
from note_rl.training.checkpoint import read_checkpoint
from tuner.config.composition import with_section_defaults, without_reference
from tuner.config.paths import config_difference, get_path, num_values, set_path
from tuner.config.trust import admit, remember, trusted_modules
from tuner.errors import UserError
from tuner.results.metric import STEP_TOLERANCE, missing_points
from tuner.runs.adaptation_log import DECISIONS_FILE
from tuner.runs.config_checks import checked_run
from tuner.runs.functions import function_name, is_function
from tuner.runs.training import EARLY_STOPPING, TARGET_REWARD
from tuner.support.names import did_you_mean
from tuner.support.text_files import atomic_write, parse_json
from tuner.trackers.history import HISTORY_FILE, read_history
from tuner.trackers.jsonl import SUMMARY_FILE
from tuner.trial.folder import (
    APPENDED,
    CHECKPOINT_FILE,
    METRICS_FILE,
    REPLACED,
    REPORTS_FILE,
    RESULT_FILE,
    SPEC_FILE,
    link_among,
    read_reports,
    read_times,
    torn_bytes,
)
from tuner.trial.foreign import unmarked
from tuner.trial.messages import JsonDict, Outcome

CONFIG_FILE = "config.yaml"
CHANGEABLE = (
    *("training.total_steps", "training.target_reward", "training.target_by", "plateau", "evaluation.num_episodes"),
    *("checkpoint", "tracker", "backend.device"),
)
"""Settings that may be changed when a run is continued: none that makes it another run."""


def begin(folder: Path, config: Mapping[str, Any]) -> None:
    """Makes the folder of a new run and writes its configuration.

    Raises:
        UserError: The folder holds a run already, or cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / CONFIG_FILE).open("x") as file:
            file.write(_to_yaml(marked(config)))
        remember(config)
    except FileExistsError:
        check_free(folder)
        raise
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be used: {error.strerror}") from error


def newest() -> Path | None:
    """The run in runs/ that was begun last; None: there is none."""
    begun = [file for file in Path("runs").glob(f"*/{CONFIG_FILE}") if file.is_file()]
    return max(begun, key=lambda file: file.stat().st_mtime).parent if begun else None


def check_free(folder: Path) -> None:
    """Refuses a folder that a run is in."""
    if os.path.lexists(folder / CONFIG_FILE):
        raise UserError(f"{folder} holds a run already; continue it with resume={folder}, or choose another folder")


def check_same(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuses a folder that was begun with another configuration, naming what differs."""
    if not os.path.lexists(folder / CONFIG_FILE):
        return
    changed = config_difference(*map(with_section_defaults, (written_config(folder), yaml.safe_load(_to_yaml(config)))))
    if changed:
        told = "; ".join(changed[:3])
        raise UserError(f"{folder} was begun with another configuration ({told}); choose another hydra.run.dir")


def read_config(folder: Path, trust: Sequence[str] = ()) -> JsonDict:
    """The resolved configuration of a run of `tuner train` or of a trial of a study, fit to be built.

    Args:
        folder: Of the run; it may come from anybody.
        trust: Modules outside of `tuner` that it may name, see `tuner.config.trust`.

    Raises:
        UserError: No run is in that folder, it cannot be read, or it names code that nobody has vouched for.
    """
    config = written_config(folder)
    admit(config, folder, trust)
    return config


def written_config(folder: Path) -> JsonDict:
    """The configuration in the folder, from any source: to be compared, not to be built."""
    if os.path.lexists(folder / CONFIG_FILE):
        return without_reference(_mapping_in(folder / CONFIG_FILE, yaml.safe_load))
    if os.path.lexists(folder / SPEC_FILE):
        spec = _mapping_in(folder / SPEC_FILE, parse_json)
        if not isinstance(spec.get("config"), dict) or "seed" not in spec:
            raise UserError(f"{folder / SPEC_FILE} is damaged: it has no config or no seed; {_REMEDY}")
        return {**spec["config"], "seed": spec["seed"]}
    raise no_run(folder)


def check_run_of_weights(init: str, config: Mapping[str, Any]) -> None:
    """Refuses weights of another framework or for other activations; of a file that is alone nothing is known.

    Args:
        init: The folder of the run that they are of, or a checkpoint file in it.
        config: Of the run that they are for, resolved.
    """
    folder = Path(init) if Path(init).is_dir() else Path(init).parent
    if not has_run(folder):
        return
    there = written_config(folder)
    backend = there.get("backend", {}).get("name")
    if backend not in (None, config["backend"]["name"]):
        raise UserError(f"init={init}: these are weights of an agent in {backend}: add backend={backend}")
    here = _activations(config)
    for path, theirs in _activations(there).items():  # arrays have the same shapes with any of them
        if path in here and here[path] != theirs:
            raise UserError(
                f"init={init}: these weights are for {path}={theirs}, and here it is {here[path]}: add {path}={theirs}"
            )


def _activations(config: Mapping[str, Any]) -> dict[str, str]:
    """Those of all layers that name one, by config path."""
    found: dict[str, str] = {}

    def look(node: object, path: str) -> None:
        parts = node if isinstance(node, Mapping) else dict(enumerate(node)) if isinstance(node, list) else {}
        for name, value in parts.items():
            below = f"{path}.{name}"
            if name == "activation" and isinstance(value, str):
                found[below] = value
            look(value, below)

    look(config.get("network"), "network")
    return found


def has_run(folder: Path) -> bool:
    """Whether a run or a trial is in that folder."""
    return any(os.path.lexists(folder / name) for name in (CONFIG_FILE, SPEC_FILE))


def no_run(folder: Path) -> UserError:
    """The error for a folder without a run; names those beside it that have one, if they are called much the same."""
    siblings = [str(path.parent) for path in folder.parent.glob(f"*/{CONFIG_FILE}")] if folder.parent.is_dir() else []
    return UserError(f"{folder} is not the folder of a run{did_you_mean(str(folder), siblings)}")


def read_run(folder: Path, trust: Sequence[str] = ()) -> JsonDict:
    """As `read_config`, and checked as what is typed is checked: it may be damaged, or somebody has edited it.

    Raises:
        UserError: No run is in that folder, or no run can have this configuration.
    """
    config = read_config(folder, trust)
    try:
        checked_run(config)
    except (UserError, NoteRLError) as error:
        path = folder / (CONFIG_FILE if os.path.lexists(folder / CONFIG_FILE) else SPEC_FILE)
        raise UserError(f"{path} describes no run: {error}\n{_REMEDY[0].upper()}{_REMEDY[1:]}") from error
    return config


_REMEDY = "restore it from a copy, or begin a new run"


def _mapping_in(path: Path, parse: Callable[[str], object]) -> JsonDict:
    """The mapping that a file holds."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is no configuration: it has more than {_MOST_BYTES:,} bytes; {_REMEDY}")
        content = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{path} is damaged: {' '.join(str(error).split())[:_MOST_WORDS]}; {_REMEDY}") from error
    if num_values(content, _MOST_NODES) >= _MOST_NODES:  # some lines of YAML can stand for more than fits into memory
        raise UserError(f"{path} is no configuration: it holds {_MOST_NODES:,} values and more; {_REMEDY}")
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} is damaged: it holds no settings; {_REMEDY}")
    try:
        return unmarked(content)
    except ValueError as error:
        raise UserError(f"cannot read {path}: {error}") from error


_MOST_BYTES = 10_000_000
_MOST_NODES = 100_000
_MOST_WORDS = 200


def changes_of(overrides: Sequence[str]) -> list[str]:
    """Returns which of `CHANGEABLE` are typed behind `resume=`.

    Raises:
        UserError: Something else is, which would make it another run.
    """
    found = []
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key.partition(".")[0] in ("resume", "trust", "progress", "hydra"):
            continue
        allowed = next((name for name in CHANGEABLE if key == name or key.startswith(f"{name}.")), None)
        if allowed is None:
            raise UserError(
                f"{key} cannot be changed when a run is continued (resume=...), only {', '.join(CHANGEABLE)}; start a "
                "new run"
            )
        found.append(allowed)
    return found


def resumed_config(folder: Path, composed: Mapping[str, Any], overrides: Sequence[str]) -> JsonDict:
    """The configuration to continue a run with: its own, with the few changes that leave it the same run.

    Args:
        folder: Of the run.
        composed: The configuration that the command line gives, resolved.
        overrides: As typed.

    Raises:
        UserError: No such run, code in it that nobody has vouched for, a setting that would make it another run, or
            nothing left to train.
    """
    own = read_run(folder, trusted_modules(composed.get("trust")))
    before = copy.deepcopy(own)
    _check_files(folder)
    for changed in changes_of(overrides):
        set_path(own, changed, get_path(composed, changed))
    done, total = steps_done(folder), own["training"]["total_steps"]
    if is_function(own):
        _follow(own, before)
        _refuse_less_than_reported(folder, before["training"]["total_steps"], total)
    if done >= total and _is_complete(folder, own):
        typed = total != before["training"]["total_steps"]
        fewer = f", and training.total_steps={total} asks for no more" if typed else ""
        raise UserError(
            f"{folder} has all of its {done:,} steps{fewer}; to go on training add training.total_steps={2 * done} or "
            f"so, to watch it: tuner play {folder}"
        )
    if own == before and done < total and _is_complete(folder, own):
        _refuse_if_it_would_end_again(folder, done)
    return own


_FOLLOWING = {
    "total_steps": "training.total_steps",
    "steps": "training.total_steps",
    "num_episodes": "evaluation.num_episodes",
}
"""Arguments of a function, by the setting that they are given: a change of that changes them."""


def _follow(config: JsonDict, before: JsonDict) -> None:
    """Changes the arguments of a function with the settings that it is given by them.

    Raises:
        UserError: It is not given what has changed, and would do what it did before.
    """
    for setting in dict.fromkeys(_FOLLOWING.values()):
        new, old = get_path(config, setting), get_path(before, setting)
        following = [name for name, whose in _FOLLOWING.items() if whose == setting]
        given = [name for name in following if config["agent"].get(name) == old]
        if new != old and not given:
            missing = " or ".join(f"agent.{name}" for name in following)
            raise UserError(
                f"{setting}={new} would change nothing: {function_name(config)} was not given the {old} of this run as "
                f"{missing}; leave it out, or start a new run"
            )
        config["agent"].update(dict.fromkeys(given, new))


def _refuse_less_than_reported(folder: Path, before: int, total: int) -> None:
    """Refuses a budget that ends before what a function has reported already."""
    done = round(max(dict(read_reports(folder)), default=0.0) * before)
    if total < min(done, before):
        raise UserError(f"training.total_steps={total}: {folder} has reported {done:,} steps already; take more")


def _refuse_if_it_would_end_again(folder: Path, done: int) -> None:
    """Refuses a run that has ended by itself before the end of its budget, unless something else was its reason."""
    ends = {
        TARGET_REWARD: ("reached its target", "training.target_reward=null or a higher one"),
        EARLY_STOPPING: ("stopped early", "plateau=off"),
    }
    reason = _result(folder).get("stop_reason")
    if reason in ends:
        what, way = ends[reason]
        raise UserError(
            f"{folder} {what} after {done:,} steps; to go on training add {way}, to watch it: tuner play {folder}"
        )


def _check_files(folder: Path) -> None:
    """Refuses to continue a run among whose files is one that cannot be read or replaced, or leads elsewhere."""
    inside = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    linked = link_among(folder, (*APPENDED, *inside))
    if linked is not None:
        raise UserError(f"{linked} is a link, and a run that goes on writes to files of its own only: put these there")
    for name in (*REPLACED, *APPENDED, HISTORY_FILE, SUMMARY_FILE, DECISIONS_FILE):
        path = folder / name
        if os.path.lexists(path) and not path.is_file():
            raise UserError(f"{path} is a folder, or a link to nothing: move it away, then the run can go on")
    for name in (REPORTS_FILE, METRICS_FILE):
        try:
            torn_bytes(folder / name)
        except OSError as error:
            raise UserError(f"{error}, as a run writes them: it is left as it is. Move it away") from error
    read_history(folder / HISTORY_FILE)


def keep_as_it_is(folder: Path) -> Callable[[], None]:
    """Remembers what is written of a run that is about to be continued.

    Returns:
        Puts it back, where the run then could not begin after all.
    """
    kept = {path: path.read_bytes() for name in _REWRITTEN if (path := folder / name).is_file()}

    def put_back() -> None:
        for name in _REWRITTEN:
            if folder / name in kept:
                with atomic_target(folder / name) as aside:
                    aside.write_bytes(kept[folder / name])
            else:
                (folder / name).unlink(missing_ok=True)

    return put_back


_REWRITTEN = (CONFIG_FILE, REPORTS_FILE, METRICS_FILE, RESULT_FILE)


def continue_with(folder: Path, config: JsonDict) -> None:
    """Writes down what a continued run goes on with. Of a new budget, what was reported are other fractions."""
    own = written_config(folder)
    before, after = (one["training"]["total_steps"] for one in (own, config))
    reports = read_reports(folder)
    # one that ended by itself has reported for the rest of its budget, too
    if not is_function(own) and _is_complete(folder, own):
        reports = [(step, value) for step, value in reports if step <= steps_done(folder) / before + STEP_TOLERANCE]
    if after != before or len(reports) < len(read_reports(folder)):
        times = read_times(folder)
        lines = [
            json.dumps({"step": step * before / after, "value": value, "seconds": times.get(step)})
            for step, value in reports
        ]
        atomic_write(folder / REPORTS_FILE, "".join(f"{line}\n" for line in lines))
    atomic_write(folder / CONFIG_FILE, _to_yaml(marked(config)))
    remember(config)


def _is_complete(folder: Path, config: JsonDict) -> bool:
    """Whether the run came to its end, with all of its evaluations."""
    missing = missing_points(dict(read_reports(folder)), config["evaluation"]["num_points"])
    return bool(_result(folder).get("outcome") == Outcome.COMPLETE and not missing)


def _result(folder: Path) -> JsonDict:
    """The recorded result of the run; empty where there is none."""
    try:
        content = json.loads((folder / RESULT_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def steps_done(folder: Path) -> int:
    """Environment steps at the newest checkpoint; 0 without one."""
    path = folder / CHECKPOINT_FILE
    return int(read_checkpoint(path)[1]["trainer"]["clock"]["num_env_steps"]) if path.is_file() else 0


def _to_yaml(config: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(config), sort_keys=False)
