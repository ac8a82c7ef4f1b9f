"""Conclusions of an ablation: the gain of each change, and the changes that are not needed."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from tuner.config.typed_command import TypedCommand, root_of
from tuner.features.ablation.facts import Ablation, Change
from tuner.results.csv_text import csv_text
from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import counted, join_words
from tuner.results.records import StudySummary
from tuner.results.statistics import difference_interval, iqm


class Effect(StrEnum):
    """The effect of a step on the score, beyond the noise of seeds."""

    HELPED = "helped"
    HURT = "hurt"
    NONE = "no difference"
    NEEDED = "needed by others"
    UNCLEAR = "not clear"


_IDLE = (Effect.NONE, Effect.UNCLEAR, Effect.HURT)
"""Effects without which the winner is no worse, as far as the scores show."""

MARGIN: Final = 0.2
"""No difference means: with its whole interval no more than this share of the gain."""


@dataclass(frozen=True)
class StepEffect:
    """One step of the path, judged.

    Attributes:
        changes: Of the step.
        score: With it and all before it.
        gain: By it, in pairs over seeds, with an interval.
        share: Of the whole gain; None where there is none to share.
        effect: Its effect on the score.
    """

    changes: tuple[Change, ...]
    score: Estimate
    gain: Estimate
    share: float | None
    effect: Effect

    @property
    def name(self) -> str:
        """Its parameters."""
        return join_words(change.path for change in self.changes)


def difference(scores: Sequence[float], before: Sequence[float]) -> Estimate:
    """IQM of some scores minus that of others on the same seeds, with an interval from 5 seeds on."""
    low, high = difference_interval(scores, before, paired=True)
    each = tuple((np.asarray(scores) - np.asarray(before)).tolist())
    return Estimate(float(iqm(scores) - iqm(before)), low, high, len(each), each)


def whole_gain(ablation: Ablation) -> Estimate:
    """The gain of all steps together."""
    return difference(ablation.steps[-1].scores, ablation.default)


def step_effects(ablation: Ablation) -> tuple[StepEffect, ...]:
    """Each step with its gain over the one before."""
    whole = whole_gain(ablation)
    needed = {
        left.steps[0]
        for left in ablation.left_out
        if len(left.steps) == 1 and difference(left.scores, ablation.steps[-1].scores).is_below_zero
    }
    found, before = [], ablation.default
    for index, step in enumerate(ablation.steps):
        gain = difference(step.scores, before)
        share = gain.iqm / whole.iqm if whole.is_above_zero else None
        effect = Effect.NEEDED if index in needed and not gain.is_above_zero else _effect(gain, MARGIN * whole.iqm)
        found.append(StepEffect(step.changes, estimate(step.scores), gain, share, effect))
        before = step.scores
    return tuple(found)


def _effect(gain: Estimate, margin: float) -> Effect:
    if gain.is_above_zero:
        return Effect.HELPED
    if gain.is_below_zero:
        return Effect.HURT
    assert gain.low is not None
    assert gain.high is not None
    return Effect.NONE if max(-gain.low, gain.high) <= margin else Effect.UNCLEAR


def sentences(ablation: Ablation) -> tuple[str, ...]:
    """Summary of an ablation in sentences."""
    effects, whole = step_effects(ablation), whole_gain(ablation)
    end = "The winner, but for what hardly moved," if ablation.skipped else "The winner"
    first = (
        f"From the default configuration, {estimate(ablation.default)}, to {ablation.winner}, {effects[-1].score}, on "
        f"{counted(len(ablation.seeds), 'fresh seed')}: {whole.signed}."
    )
    if not whole.is_above_zero:
        than = "worse than" if whole.is_below_zero else "not clearly better than"
        nothing = f"{end} is {than} the default configuration on these seeds, so there is no gain to share."
        return (first, nothing, *_about_runs(ablation))
    helped = sorted((one for one in effects if one.effect is Effect.HELPED), key=lambda one: -one.gain.iqm)
    parts = [f"{_changes_of(one.changes)} brought {percent(one.share)} ({one.gain.signed})" for one in helped]
    return (
        first,
        f"Of the gain, {'; '.join(parts)}." if parts else "No single step is clearly above 0; their sum is.",
        *_about_the_rest(ablation, effects),
        *_about_runs(ablation),
    )


def _about_the_rest(ablation: Ablation, effects: Sequence[StepEffect]) -> list[str]:
    """The steps that did not help by themselves: which may stay out, and which may not."""
    told = []
    for one in effects:
        if one.effect is Effect.NEEDED:
            told.append(
                f"{_changes_of(one.changes)} had no clear effect when it was changed ({one.gain.signed}), but "
                "the winner is worse without it: keep it."
            )
        elif one.effect is Effect.HURT:
            back = f"leave {_them_at_their_defaults(len(one.changes))}"
            told.append(f"{_changes_of(one.changes)} made it worse ({one.gain.signed}): {back}.")
    idle = [one for one in effects if one.effect in (Effect.NONE, Effect.UNCLEAR)]
    return [*told, *([_about_idle(ablation, effects, idle)] if idle else [])]


def _about_idle(ablation: Ablation, effects: Sequence[StepEffect], idle: Sequence[StepEffect]) -> str:
    """Whether what has not clearly helped may stay at its default, by the runs of the winner without it."""
    what = join_words(change.path for one in idle for change in one.changes)
    num_idle = sum(len(one.changes) for one in idle)
    steps = [index for index, one in enumerate(effects) if one.effect in _IDLE]
    left, all_left = _left_out(ablation, steps), join_words(effects[index].name for index in steps)
    at_the_end = steps == list(range(len(effects) - len(steps), len(effects)))  # its runs are those of the table
    without = "" if left is None or at_the_end else f" The winner without {all_left}: {left.signed}."
    if left is not None and left.is_below_zero:
        return (
            f"{what} made no clear difference one by one, but the winner without {all_left} is worse "
            f"({left.signed}): keep at least some of them."
        )
    is_checked = left is not None and left.low is not None and left.low >= -MARGIN * whole_gain(ablation).iqm
    if all(one.effect is Effect.NONE for one in idle) and (left is None or is_checked):
        back = f"leave {_them_at_their_defaults(num_idle)}"
        return f"{what} made no difference (within {percent(MARGIN)} of the gain): {back}.{without}"
    if is_checked:
        their = "their defaults" if num_idle > 1 else "its default"
        return f"{what} may stay at {their}: that costs at most {percent(MARGIN)} of the gain.{without}"
    seeds = len(ablation.seeds)
    each = "; ".join(f"{one.name} {one.gain.signed}" for one in idle)
    return f"Not clear on {seeds} seeds: {each}.{without} Type num_seeds={2 * seeds} for a clearer result."


def _them_at_their_defaults(num_changes: int) -> str:
    return "them at their defaults" if num_changes > 1 else "it at its default"


def _left_out(ablation: Ablation, steps: Sequence[int]) -> Estimate | None:
    """The winner without these steps, minus the winner; None if that was not measured."""
    found = (one for one in ablation.left_out if list(one.steps) == list(steps))
    return next((difference(one.scores, ablation.steps[-1].scores) for one in found), None)


def _about_runs(ablation: Ablation) -> list[str]:
    told = []
    if ablation.skipped:
        moved = join_words(_changes_of([change]) for change in ablation.skipped)
        told.append(f"Left at its default throughout, as it moved by less than 1 % of its range: {moved}.")
    if ablation.num_failed:
        verb = "counts" if ablation.num_failed == 1 else "count"
        told.append(f"{ablation.num_failed} of {ablation.num_runs} runs failed and {verb} with the worst score.")
    return told


def ablation_command(summary: StudySummary) -> str:
    """The command that ablates the study's winner, in the storage of the study."""
    typed = TypedCommand.read(summary.study_command).overrides
    storage = [word for word in typed if root_of(word) == "storage"]
    return shlex.join(["tuner", "ablate", summary.name, *storage])


def step_names(ablation: Ablation) -> tuple[str, ...]:
    """The parameters of each step."""
    return tuple(join_words(change.path for change in step.changes) for step in ablation.steps)


def change_texts(ablation: Ablation) -> tuple[tuple[str, ...], ...]:
    """For each step its changes, `agent.gamma 0.99 -> 0.98`."""
    return tuple(tuple(change.words for change in step.changes) for step in ablation.steps)


def _changes_of(changes: Sequence[Change]) -> str:
    return join_words(change.words for change in changes)


def percent(share: float | None) -> str:
    """A share of the gain, `84 %`; nothing where there is none."""
    return "" if share is None else f"{100 * share:.0f} %"


def ablation_csv(ablation: Ablation) -> str:
    """The path as CSV text: a line for each parameter of each step, the default configuration first."""
    whole = ("score", "score_low", "score_high", "gain", "gain_low", "gain_high", "share", "effect")
    start = estimate(ablation.default)
    rows: list[tuple[object, ...]] = [
        ("step", "parameter", "before", "after", *whole, *(f"seed_{seed}" for seed in ablation.seeds)),
        (0, "", "", "", start.iqm, start.low, start.high, None, None, None, None, "", *ablation.default),
    ]
    for number, (step, one) in enumerate(zip(ablation.steps, step_effects(ablation), strict=True), start=1):
        numbers = (one.score.iqm, one.score.low, one.score.high, one.gain.iqm, one.gain.low, one.gain.high, one.share)
        about = (*numbers, one.effect.value, *step.scores)
        rows += [(number, change.path, change.before, change.after, *about) for change in step.changes]
    return csv_text(rows)
