"""Files that the jobs of a sweep have read: a sweep whose files have changed is another sweep."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import optuna

from tuner.errors import UserError
from tuner.results.number_format import counted
from tuner.results.records import RunRecord
from tuner.study.run_registry import Run
from tuner.study.sweep.sweep_study import SweepListener
from tuner.support.plain_text import plain
from tuner.trial.folder import MAX_INPUTS, read_objective

INPUTS = "inputs"
"""Attribute of the study: digests of files that jobs have read, by name; None: one that changed while a job ran."""
_SHOWN = 5
_LONGEST = 100  # characters of a name in a message

Digests: TypeAlias = Mapping[str, str | None]


def inputs_of(study: optuna.Study) -> dict[str, str | None]:
    """Files that jobs have read, by the storage, which may be anybody's."""
    kept = study.user_attrs.get(INPUTS)
    if not isinstance(kept, dict):
        return {}
    return {str(name): digest for name, digest in kept.items() if digest is None or isinstance(digest, str)}


def keep_inputs(study: optuna.Study, read: Digests) -> None:
    """Adds what a job has read. The first digest of a file stays; one that changed while a job ran has none."""
    before = inputs_of(study)
    now = {**read, **before, **{name: None for name, digest in read.items() if digest is None}}
    kept = dict(list(now.items())[:MAX_INPUTS])
    if kept != before:
        study.set_user_attr(INPUTS, kept)


def check_inputs(study: optuna.Study, digest_now: Callable[[str], str | None]) -> None:
    """Refuses to go on with a sweep whose jobs have read other files than those that are there now.

    Args:
        study: Of the sweep.
        digest_now: Of the file of a name; None: there is none.

    Raises:
        UserError: Naming the files.
    """
    changed = []
    for name, before in sorted(inputs_of(study).items()):
        now = digest_now(name)
        if before is not None and now != before:
            shown = plain(name, _LONGEST)
            changed.append(f"{shown} is gone" if now is None else f"{shown} was {plain(before, _LONGEST)} and is {now}")
    if changed:
        more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise UserError(
            f"the jobs of study {study.study_name} read files that have changed: {'; '.join(changed[:_SHOWN])}{more}.\n"
            f"go back to that, or begin another study with study.name={study.study_name}-2"
        )


def what_is_kept(study: optuna.Study) -> str:
    """Of a sweep that goes on: what its results were compared by, and what not; empty if there are none."""
    num_done = sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))
    if not num_done:
        return ""
    inputs = inputs_of(study)
    same = [name for name, digest in inputs.items() if digest is not None]
    changing = [name for name, digest in inputs.items() if digest is None]
    by = f"configuration, code and {counted(len(same), 'file')} that jobs have read ({_listed(same)})"
    return (
        f"The results of {counted(num_done, 'job')} are kept: {by if same else 'configuration and code'} are the same. "
        f"What jobs read otherwise{f', or changed ({_listed(changing)}),' if changing else ''} is not compared: "
        f"study.name={study.study_name}-2 begins anew"
    )


def _listed(names: list[str]) -> str:
    shown = [plain(name, _LONGEST) for name in names[:_SHOWN]]
    return ", ".join([*shown, *(["..."] if len(names) > _SHOWN else [])])


class InputsListener(SweepListener):
    """Keeps what jobs have read with the study of their sweep."""

    def on_end(self, run: Run, record: RunRecord) -> None:
        """Adds what this one has read, if it came to a good end."""
        del record
        read = read_objective(run.folder).get("read")
        if read:
            keep_inputs(run.trial.study, read)
