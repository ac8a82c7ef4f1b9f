"""A study that was kept, found again: `tuner.load`."""

from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from note_rl.support.near_names import nearest
from tuner.commands.features import policy_loader
from tuner.commands.study_result import StudyResult
from tuner.errors import UserError
from tuner.results.features import all_stages, chosen
from tuner.results.records import RunRecord, StudySummary
from tuner.runs.functions import function_name, is_function
from tuner.runs.player import Player
from tuner.runs.run_folders import CONFIG_FILE, has_run, read_config, read_run
from tuner.runs.trained_agents import BEST, LAST, TrainedPolicy, folder_of, load_run
from tuner.study import StudyStore, Winner, find_winner, home_to_read, summarise
from tuner.study.storage.open_storage import IN_MEMORY, file_of
from tuner.support.names import one_of
from tuner.trial.messages import JsonDict

DEFAULT_STORAGE: Final = "sqlite:///studies.db"
_STORAGE_FILES: Final = {"studies.db": "sqlite", "studies.journal": "journal"}
"""The names of storages in conf/storage by file name, to find a storage from a study's folder."""


def load(study: str | Path | StudyResult | None, storage: str | None, trust: tuple[str, ...] = ()) -> StudyResult:
    """See `tuner.load`."""
    if isinstance(study, StudyResult):
        return replace(study, trust=(*study.trust, *trust))
    folder = Path(study) if isinstance(study, Path) or (study is not None and "/" in study) else None
    if isinstance(study, str) and folder is not None and not folder.exists():
        _refuse_another_programs(study, storage or DEFAULT_STORAGE)
    url = storage or (DEFAULT_STORAGE if folder is None else _storage_of(folder))
    if url in IN_MEMORY:
        raise UserError("storage=memory keeps nothing: give the result of tuner.tune itself")
    if url.startswith(("sqlite:", "journal:")) and not file_of(url).exists():
        raise UserError(f"there is no {file_of(url)} here: name the storage of the study, storage='sqlite:///...'")
    with StudyStore(url) as store:
        names = store.names()
        if not names and study not in store.others():
            raise store.none_yet()
        name = names[0] if study is None else str(study) if folder is None else folder.resolve().name
        home = folder or home_to_read(store, name)
        summary = summarise(store, name, home)
        return StudyResult(summary, home, _winners(store, summary), trust)


def _refuse_another_programs(name: str, url: str) -> None:
    """Says what to type where a study of another program is named, whose name may have slashes."""
    if url in IN_MEMORY or not file_of(url).is_file():
        return
    with StudyStore(url) as store:
        if name in store.others():
            store.require(name)


def study_at(place: str) -> Path | None:
    """The folder of the study that a word on the command line names, by its folder or name; None: it names none."""
    folders = (Path(place), *([] if "/" in place else [Path("studies") / place]))
    return next((folder for folder in folders if any((folder / stage).is_dir() for stage in all_stages())), None)


def no_run_or_study(word: str) -> UserError:
    """The error for a word on the command line that names neither; says which near ones there are.

    Args:
        word: A folder, or the name of a study in studies/.
    """
    beside = {str(path.parent) for path in Path(word).parent.glob(f"*/{CONFIG_FILE}")}
    usual = [str(path.parent) for path in Path("runs").glob(f"*/{CONFIG_FILE}")]
    studies = [path.name for path in Path("studies").glob("*") if study_at(str(path)) is not None]
    called = {Path(one).name: one for one in (*studies, *usual, *beside)}
    meant = nearest(word, beside) or [called[name] for name in nearest(Path(word).name, called)]
    return UserError(f"{word} is not the folder of a run, nor a study{one_of(meant)}")


def place_of(word: str, trust: tuple[str, ...], environment: str | None = None) -> Path:
    """The folder or checkpoint that a word on the command line names: of a study, its winner's run of highest score.

    Args:
        word: As typed.
        trust: Modules that a study may name.
        environment: Which one, where the runs of a study have parts; None: the first.

    Raises:
        UserError: There is no such run, or no such environment.
    """
    place = Path(word)
    study = None if has_run(place) or place.is_file() else study_at(word)
    if study is None and environment is not None:
        raise UserError(f"environment={environment} chooses among those of a study, and {word} is none: leave it out")
    if study is None and not has_run(folder_of(place)):
        raise no_run_or_study(word)
    return place if study is None else load(study, None, trust).best_run(environment=environment)


def player_of(word: str, weights: str, trust: tuple[str, ...]) -> Player:
    """See `tuner.load_agent`."""
    place = place_of(word, trust)
    learned = policy_of(place, weights, trust)
    if learned is not None:
        return cast(Player, learned)  # it has the form of one
    if weights not in (LAST, BEST):
        raise UserError(f"weights={weights!r} must be {LAST} or {BEST}")
    return Player(load_run(place, trust, weights))


def policy_of(place: Path, weights: str, trust: tuple[str, ...]) -> TrainedPolicy | None:
    """The policy that a run of a function has learned; None: the run is one of an agent.

    Raises:
        UserError: Nothing is known of what the function has learned, or the run has saved nothing; or see `read_run`.
    """
    config = read_run(folder_of(place), trust)
    if not is_function(config):
        return None
    load_policy = policy_loader(config)
    if load_policy is None:
        raise _no_policy(place)
    if weights != LAST:
        raise UserError(f"weights={weights}: a run of {function_name(config)} keeps its last weights only")
    return load_policy(config, folder_of(place))


def _no_policy(place: Path) -> UserError:
    return UserError(f"{folder_of(place)} is a run of a function, which has no policy")


def with_policy(place: Path, trust: tuple[str, ...]) -> JsonDict:
    """The configuration of the run that a folder or checkpoint is of.

    Raises:
        UserError: It is one of a function; or see `read_run`.
    """
    config = read_run(folder_of(place), trust)
    if is_function(config):
        raise _no_policy(place)
    return config


def leads_to(folder: Path, url: str) -> bool:
    """Whether the storage of a study is found by its folder alone."""
    try:
        found = _storage_of(folder)
    except UserError:
        return False
    return url.startswith(("sqlite:", "journal:")) and file_of(url).resolve() == file_of(found).resolve()


def _storage_of(folder: Path) -> str:
    """The storage that lies where the command was given which made the folder of a study."""
    if has_run(folder):
        raise UserError(f"{folder} is a run, and no study: its agent is tuner.load_agent({str(folder)!r})")
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the name of a study, its folder, or a result of tuner.tune")
    for place in (Path(), *folder.resolve().parents[:2]):
        for file, kind in _STORAGE_FILES.items():
            if (place / file).is_file():
                return f"{kind}:///{place / file}"
    raise UserError(f"neither beside {folder} nor here is a studies.db: name the storage, storage='sqlite:///...'")


def _winners(store: StudyStore, summary: StudySummary) -> tuple[Winner, ...]:
    labels = chosen(summary).labels
    if summary.is_sweep:
        runs = {run.label: run for run in summary.runs if run.label in labels}
        return tuple(Winner(label, dict(runs[label].params), _config_in(runs[label])) for label in labels)
    found = (find_winner(store, summary.name, label) for label in labels)
    return tuple(winner for winner in found if winner is not None)


def _config_in(job: RunRecord) -> JsonDict:
    """Of a job of `tuner train -m`, the config it ran with; jobs of other applications have none of ours."""
    return read_config(Path(job.folder)) if (Path(job.folder) / CONFIG_FILE).is_file() else {}
