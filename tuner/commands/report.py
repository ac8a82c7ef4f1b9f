"""`tuner report`: the page of a study, from what its storage knows; the study may still be running."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from tuner.errors import UserError
from tuner.features import parts
from tuner.reporting import FinalTable, write_page
from tuner.reporting.features import InReporting
from tuner.results.number_format import override_words
from tuner.results.records import RunRecord, StudySummary
from tuner.results.verdict import verdict
from tuner.runs.build import build_trackers, check_trackers
from tuner.runs.config_checks import resolve
from tuner.runs.refill import EndedRun, ended_run, refill
from tuner.study import StudyStore, fill_dashboard, home_of, summarise
from tuner.study.storage.open_storage import IN_MEMORY, check_url, file_of, has_studies
from tuner.study.watching.trial_tracking import ended_trial
from tuner.support.console import PlainConsole
from tuner.support.passwords import shown
from tuner.trackers.wandb.run_mode import RUN_ID_FILE
from tuner.trackers.wandb.wandb_report import publish_report, write_report
from tuner.trial.folder import read_trial
from tuner.trial.messages import TrialSpec


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses an address that nothing can be behind, and trackers that cannot be."""
    del folder, overrides, config_dir
    resolved = resolve(config)
    check_url(resolved["storage"]["url"])
    check_trackers(resolved.get("tracker"))
    given = {"publish": str(resolved["publish"]).lower(), "refill": "RUN"}
    for key, value in given.items():
        if resolved.get(key) and "wandb" not in (resolved.get("tracker") or {}):
            raise UserError(f"{key}={value} is for the W&B project of tracker=wandb; do not choose another tracker")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Writes the page and says where it is and what is in it."""
    del folder, overrides
    console = PlainConsole()
    if config.refill is not None:
        return _refill(config, console)
    summary, home, others = find(str(config.storage.url), config.study.name, Path(config.study.folder))
    if others:
        console.print(f"{summary.name} is the latest study; there is also {', '.join(others)}")
    console.print(FinalTable(summary))
    console.print(escape(verdict(summary).sentence))
    for part in parts(InReporting):
        for shown_next in part.printed(summary):
            console.print(escape(shown_next) if isinstance(shown_next, str) else shown_next)
    page = write_page(summary, home)
    console.print(f"the report is [bold]{escape(shlex.quote(str(page)))}[/bold]", soft_wrap=True)
    if config.publish:
        _publish(config, summary, home, console)
    return 0


def _publish(config: DictConfig, summary: StudySummary, home: Path, console: PlainConsole) -> None:
    """A report over the runs that W&B has, there or in a file."""
    project, entity = str(config.tracker.wandb.project), config.tracker.wandb.get("entity")
    if config.publish == "file":
        path = write_report(summary, project, entity, home)
        console.print(f"for W&B: [bold]{escape(shlex.quote(str(path)))}[/bold]", soft_wrap=True)
    else:
        address = publish_report(summary, project, entity)
        console.print(f"at W&B, as a draft: [bold]{escape(address)}[/bold]", soft_wrap=True)


def _refill(config: DictConfig, console: PlainConsole) -> int:
    """Gives W&B a run of its own with all that metrics.jsonl has; the incomplete one stays as it is."""
    section = resolve(config)["tracker"]
    folder = Path(str(config.refill)).absolute()
    run, in_study = ended_run(folder), read_trial(folder).spec
    known = None if in_study is None else _known_to_storage(config, run, in_study)
    tracker = build_trackers({"wandb": section["wandb"]})["wandb"]
    try:
        num_rows = refill(known or run, tracker, RUN_ID_FILE)
    finally:
        tracker.close()
    console.print(
        f"{num_rows} rows of {escape(str(folder))} are a new run at W&B, which replaces the incomplete one",
        soft_wrap=True,
    )
    if in_study is not None and known is None:
        told = f"its score is missing: {shown(str(config.storage.url))} does not have it"
        console.print(escape(f"{told}; name the storage of {in_study.study} with storage.url=..."), soft_wrap=True)
    return 0


def _known_to_storage(config: DictConfig, run: EndedRun, spec: TrialSpec) -> EndedRun | None:
    """The run as its study knows it; None if the study is in another storage."""
    url, folder = str(config.storage.url), run.info.folder
    if url in IN_MEMORY or (url.startswith(("sqlite:", "journal:")) and not file_of(url).exists()):
        return None
    with StudyStore(url) as store:
        if store.find(spec.study) is None:
            return None
        summary = summarise(store, spec.study, home_of(store, spec.study, Path(config.study.folder) / spec.study))
    for record in (one for whole in summary.runs for one in (whole, *whole.parts)):
        is_it = (record.stage, record.number, Path(record.folder).name) == (spec.stage, spec.number, folder.name)
        if is_it and record.seed == spec.seed:
            found = ended_trial(record, summary.name, run.info.config, folder)
            return _named_by_overrides(found, record) if summary.is_sweep else found
    return None


def _named_by_overrides(job: EndedRun, record: RunRecord) -> EndedRun:
    """A job of a sweep of `tuner train`, as its trackers know it."""
    words = override_words(record.params)
    return replace(job, info=replace(job.info, name=" ".join(words), tags=words, job_type="train"))


def require_studies(url: str) -> None:
    """Refuses a storage that nothing is in, and leaves it as it is.

    Raises:
        UserError: There is none, or it is empty.
    """
    if url.startswith(("sqlite:", "journal:")) and not file_of(url).exists():
        raise UserError(
            f"there is no {file_of(url)} here: run `tuner tune` first, or name another with storage.url=..."
        )
    if not has_studies(url):
        raise UserError(f"there is no study in {shown(url)} yet: run `tuner tune` first")


def find(url: str, name: str | None, folder: Path) -> tuple[StudySummary, Path, list[str]]:
    """A study of a storage.

    Args:
        url: Of the storage.
        name: Of the study; None: the one that was active last.
        folder: Where the folders of studies are.

    Returns:
        The study, its own folder, and the names of the others if it was chosen among several.

    Raises:
        UserError: There is no such storage or study.
    """
    if url in IN_MEMORY:
        raise UserError("storage.url=memory keeps nothing to report of; name the storage that the study was run with")
    require_studies(url)
    with StudyStore(url) as store:
        names = store.names()
        if not names and name not in store.others():
            raise store.none_yet()
        chosen = str(name or names[0])
        others = [] if name else names[1:]
        home = home_of(store, chosen, folder / chosen)
        summary = summarise(store, chosen, home, thorough=True)
        fill_dashboard(store, summary, home)
        return summary, home, others
