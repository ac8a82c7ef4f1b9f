"""Runs in several environments: one configuration on one seed is trained in each, one environment after the other.

Optuna has one trial for the whole, with the mean of the scores on the scales of the environments; what came of each
environment is an attribute of it. A whole is known to all stages as a run in one environment would be: nothing that
chooses, races or compares knows that there are several.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from tuner.results.insights.effort import used_share
from tuner.results.metric import Rescale
from tuner.results.records import RunRecord
from tuner.study.definition import StudyDefinition
from tuner.study.run_registry import Run, RunEnd, RunRegistry
from tuner.study.storage.trial_records import PARTS_ATTRIBUTE, part_of
from tuner.trial.messages import JsonDict, Outcome

_PLACES = 9
"""Digits by which the same fraction of the budget is known."""


class EnvironmentsRegistry(RunRegistry):
    """The runs of another registry, each of them one run in every environment.

    Of a configuration that crashes to the end in one of them the others are not run: it has no score.

    Args:
        inner: The wholes.
        definition: With its environments.
        rescale: To the scale of each of them.
    """

    def __init__(self, inner: RunRegistry, definition: StudyDefinition, rescale: Rescale) -> None:
        super().__init__(inner.study, inner.stage, definition)
        self._inner = inner
        self._rescale = rescale
        self._alone = {one.name: definition.within(one.name) for one in definition.environments}
        self._ready: deque[Run] = deque()
        for whole in inner.open_runs():  # a controller may have died between the last part and its whole
            self._close_if_over(whole)

    def open_runs(self) -> list[Run]:
        """The part that each open whole is at."""
        return [part for whole in self._inner.open_runs() if (part := self._next_part(whole)) is not None]

    def next_run(self) -> Run | None:
        """The next environment of a configuration that has begun, before another one begins."""
        if self._ready:
            return self._ready.popleft()
        whole = self._inner.next_run()
        return None if whole is None else self._next_part(whole)

    def note_attempt(self, run: Run, outcome: Outcome, reason: str, seconds: float) -> None:
        """Kept with the part."""
        run.note_attempt(outcome, reason, seconds)
        self._keep(run, {"attempts": run.attempts})

    def tell(self, run: Run, ending: RunEnd) -> RunRecord:
        """Closes a part, and with the last one the whole. Can be done twice, as `RunRegistry.tell`."""
        known = self._keep(run, {"outcome": ending.outcome.value, "value": ending.value, **ending.of(run)})
        whole = replace(run, environment="", folder=run.folder.parent, curve={}, times={}, host="", attempts=[])
        if not self._close_if_over(whole):
            following = self._next_part(whole)
            assert following is not None
            self._ready.append(following)
        return part_of(self._plain(whole), run.environment, known, whole.folder)

    def whole(self, run: Run, record: RunRecord) -> RunRecord | None:
        """The configuration on this seed in all environments; None while there are others to come."""
        del record
        found = self._inner._record(self.study.get_trials(deepcopy=False)[run.number])
        return None if found.outcome is None else found

    def records(self) -> tuple[RunRecord, ...]:
        """All wholes entered so far."""
        return self._inner.records()

    def _run(self, trial: object) -> Run:
        raise NotImplementedError("parts are made of wholes")

    def _parts(self, whole: Run) -> dict[str, JsonDict]:
        return dict(whole.trial.user_attrs.get(PARTS_ATTRIBUTE, {}))

    def _keep(self, run: Run, about: JsonDict) -> JsonDict:
        parts = self._parts(run)
        parts[run.environment] = {**parts.get(run.environment, {}), **about}
        run.trial.set_user_attr(PARTS_ATTRIBUTE, parts)
        return parts[run.environment]

    def _next_part(self, whole: Run) -> Run | None:
        """The first environment in which the whole has not come to an end."""
        parts = self._parts(whole)
        name = next((name for name in self._alone if "outcome" not in parts.get(name, {})), None)
        if name is None:
            return None
        config = self._alone[name].run_config(whole.values, whole.seed)
        attempts = list(parts.get(name, {}).get("attempts", []))
        return replace(
            whole,
            config=config,
            folder=whole.folder / name,
            environment=name,
            attempts=attempts,
            curve={},
            times={},
            rungs=set(),
            error="",
            host="",
        )

    def _close_if_over(self, whole: Run) -> bool:
        """Closes a whole all of whose parts have ended, or one of them without a score; whether it did."""
        parts = self._parts(whole)
        ended = [self._record_of(whole, name, known) for name, known in parts.items() if "outcome" in known]
        hopeless = next((part for part in ended if part.score is None), None)
        if hopeless is None and len(ended) < len(self._alone):
            return False
        whole.curve = dict(self._mean_curve(ended)) if hopeless is None else {}
        self._inner.tell(whole, self._end_of(ended, hopeless))
        return True

    def _end_of(self, ended: Sequence[RunRecord], hopeless: RunRecord | None) -> RunEnd:
        seconds = sum(part.seconds for part in ended)
        worst = hopeless or next((part for part in ended if part.failed), None)
        reason = "; ".join(f"in {part.environment}: {part.reason}" for part in ended if part.reason)
        outcome = Outcome.COMPLETE if worst is None or worst.outcome is None else worst.outcome
        steps = self._definition.total_steps
        used = sum(self._alone[part.environment].total_steps * used_share(part) for part in ended)
        scores = [part.score for part in ended if part.score is not None]
        value = fmean(scores) if hopeless is None else None
        return RunEnd(outcome, value, reason, seconds, used=used / steps if steps else 1.0)

    def _mean_curve(self, ended: Sequence[RunRecord]) -> list[tuple[float, float]]:
        """The mean of the curves of scores at the fractions of the budget at which there is a report in each."""
        curves = [
            {round(step, _PLACES): (step, score) for step, score in self._rescale(part.environment, part.curve)}
            for part in ended
        ]
        shared = set.intersection(*(set(curve) for curve in curves))
        return [(curves[0][place][0], fmean(curve[place][1] for curve in curves)) for place in sorted(shared)]

    def _record_of(self, whole: Run, name: str, known: JsonDict) -> RunRecord:
        return part_of(self._plain(whole), name, known, whole.folder)

    def _plain(self, whole: Run) -> RunRecord:
        return RunRecord(whole.number, whole.stage, whole.label, whole.seed, whole.values, None, None)
