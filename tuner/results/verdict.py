"""The honest verdict on a study: the sentence at the top of the final table and of the page.

The winner and the default configuration are compared on test seeds that nothing before has touched. A tuning score is
never shown as a result, because the best of many noisy scores is too high; how much too high is printed as selection
optimism.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.features import parts
from tuner.results.features import InResults, is_excluded, warnings_of_features
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL, Estimate, Finding, Verdict, estimate
from tuner.results.insights import targets
from tuner.results.insights.differences import difference_of, scores_of
from tuner.results.insights.failures import failed_tests, kinds_of
from tuner.results.insights.winner_ties import Noise, seed_noise
from tuner.results.missing_runs import unfinished_tests
from tuner.results.number_format import counted, describe_params, format_number, join_words
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.results.records import (
    CONFIRM,
    EARLIER_STUDY,
    ONE_CHANGED,
    PRIORS,
    RACE,
    SCREEN,
    TEST,
    RunRecord,
    StudySummary,
)
from tuner.results.statistics import probability_of_improvement
from tuner.results.sweep_verdict import sweep_verdict

_PARTS = {
    "final": "{} at the end of training",
    "auc": "Mean {} over training (area under the curve)",
}
"""Names among the scores of a run, and what they are called here."""


def verdict(summary: StudySummary) -> Verdict:
    """Judges a study, finished or not."""
    found = _judged(summary)
    preface = (sentence for part in parts(InResults) for sentence in part.preface(summary))
    return replace(found, details=(*preface, *found.details))


def _judged(summary: StudySummary) -> Verdict:
    label = summary.winner_label
    if label is None and not any(run.complete for run in summary.stage(summary.first_stage)):
        return _without_result(summary)
    if (found := next(filter(None, (part.verdict(summary) for part in parts(InResults))), None)) is not None:
        return found
    if summary.is_sweep:
        return sweep_verdict(summary)
    unfinished = "" if label is None else unfinished_tests(summary, [label])
    scores = scores_of(summary, TEST, label)
    if label is None or unfinished or not scores:
        return _without_test(summary, unfinished)
    if failing := _finished_none(summary, label):
        return _winner_without_result(summary, label, failing)
    found = _tested(summary, label, scores)
    more = [*_better_baselines(summary, scores), *targets.warnings(summary, label), *warnings_of_features(summary)]
    return replace(found, sentence=" ".join([found.sentence, *more]))


def _tested(summary: StudySummary, label: str, scores: dict[int, float]) -> Verdict:
    """The winner has been tested: compare it with the default configuration where that is possible."""
    winner, tuning, noise = estimate([*scores.values()]), _tuning_scores(summary, label), seed_noise(summary, label)
    base = Verdict(
        finding=Finding.NO_COMPARISON,
        sentence="",
        details=(
            *targets.details(summary, label),
            *_parts_details(summary, label),
            *(sentence for part in parts(InResults) for sentence in part.sentences(summary)),
            *_baseline_details(summary, scores),
            *_optimism_details(tuning, winner),
            *_start_details(summary, label),
            *failed_tests(summary),
        ),
        winner=winner,
        optimism=tuning.iqm - winner.iqm if tuning else None,
        tuning=tuning,
        within_noise=len(noise.tied) if noise else None,
    )
    subject = _subject(summary, label)
    result = f"test IQM {winner} on {counted(winner.n, 'test seed')}"
    if label == summary.default_label:
        others = len({run.label for run in summary.stage(SCREEN)} - {label})
        found = f"The search found nothing better among {counted(others, 'other configuration')}"
        sentence = f"The winner is the default configuration: {result}. {found}."
        return replace(base, finding=Finding.DEFAULT_AS_GOOD, sentence=sentence, default=winner)
    if failing := _finished_none(summary, summary.default_label):
        return replace(base, sentence=f"{subject}: {result}. {failing}")
    default_scores = scores_of(summary, TEST, summary.default_label)
    if not default_scores:
        sentence = (
            f"{subject}: {result}. The default configuration has no test score, so it is not known whether the winner "
            "is better."
        )
        return replace(base, sentence=sentence)
    default, difference = estimate([*default_scores.values()]), difference_of(scores, default_scores)
    compared = f"{subject}: {result}, against {default} for the default configuration"
    if is_excluded(summary, summary.default_label):
        return replace(base, sentence=f"{compared}, which cannot be chosen.", default=default)
    improvement = probability_of_improvement(*_with_lost_runs(summary, {label: winner, summary.default_label: default}))
    finding, conclusion = _conclusion(difference, improvement)
    if finding is Finding.BETTER and improvement <= _EVEN:  # as many of its runs failed
        finding, conclusion = Finding.UNCERTAIN, _not_better(difference, improvement)
    compared_labels = (label, summary.default_label)
    cautions = (*_left_out(summary, compared_labels), *_all_equal(summary, compared_labels))
    sentences = [f"{compared}.", *cautions, conclusion]
    sentences += _lower_end(summary, label) if finding is Finding.BETTER else []
    about_noise = [_noise_details(noise)] if noise else []
    return replace(
        base,
        finding=finding,
        sentence=" ".join([*sentences, *(said for said, _ in about_noise)]),
        details=(*base.details, *(meaning for _, meaning in about_noise)),
        default=default,
        difference=difference,
        improvement=improvement,
    )


def _with_lost_runs(summary: StudySummary, found: Mapping[str, Estimate]) -> list[list[float]]:
    """Test scores of each, with a value below all of them for each run that has none: such a run beats no other."""
    lowest = min(min(one.points) for one in found.values()) - 1.0
    return [[*one.points, *[lowest] * len(_lost(summary, label))] for label, one in found.items()]


def _lost(summary: StudySummary, label: str) -> list[RunRecord]:
    return [run for run in summary.stage(TEST, label) if run.score is None]


def _left_out(summary: StudySummary, labels: Sequence[str]) -> Iterator[str]:
    """That test runs of a configuration have no score, so that its figures are those of the others."""
    for label in labels:
        lost, runs = _lost(summary, label), summary.stage(TEST, label)
        if lost:
            whose = "the default configuration" if label == summary.default_label else label
            rest = "these figures are of the others"
            yield f"{len(lost)} of {counted(len(runs), 'test run')} of {whose} failed without a score: {rest}."


def _all_equal(summary: StudySummary, labels: Sequence[str]) -> Iterator[str]:
    """That the test runs of each configuration are one run, where a program or a function has its own seeds."""
    curves = [[tuple(run.curve) for run in summary.stage(TEST, label)] for label in labels]
    if not summary.backend and all(len(of_one) > 1 and _is_one_run(set(of_one)) for of_one in curves):
        yield (
            "The test runs of each configuration are equal to the last digit. If the program draws random numbers, the "
            "seed does not reach it, and these are one run each: pass on {seed} (agent.command) or the argument seed "
            "(of a function)."
        )


def _is_one_run(curves: set[tuple[tuple[float, float], ...]]) -> bool:
    """Whether equal curves are no chance, as single scores at a bound are: those are mostly whole numbers."""
    return len(curves) == 1 and all(len(curve) > 1 or (curve and curve[0][1] % 1.0) for curve in curves)


def _winner_without_result(summary: StudySummary, label: str, failing: str) -> Verdict:
    """All test runs of the winner failed: the penalty that the sampler got is no result of theirs."""
    details = (*_start_details(summary, label), *failed_tests(summary))
    cannot_be_chosen = is_excluded(summary, summary.default_label)
    default_scores = {} if cannot_be_chosen else scores_of(summary, TEST, summary.default_label)
    default_failing = _finished_none(summary, summary.default_label)
    known = _known_instead(summary, {} if default_failing else default_scores)
    if label == summary.default_label or default_failing or not default_scores:
        sentence = failing if label == summary.default_label else f"{failing} {default_failing}".strip()
        sentences = filter(None, (sentence, known, *warnings_of_features(summary)))
        return Verdict(Finding.NO_COMPARISON, " ".join(sentences), details)
    default = estimate([*default_scores.values()])
    kept = f"Keep the default configuration: test IQM {default} on {counted(default.n, 'test seed')}."
    sentence = f"{failing} {known or kept}"
    return Verdict(Finding.DEFAULT_AS_GOOD, sentence, details, default=default)


def _known_instead(summary: StudySummary, default_scores: dict[int, float]) -> str:
    """The best known settings, where the default configuration has lower test scores than they have or none."""
    known = {label: scores_of(summary, TEST, label) for label in _known(summary)}
    found = {
        label: estimate([*scores.values()])
        for label, scores in known.items()
        if not _finished_none(summary, label) and scores
    }
    best = max(found, key=lambda label: found[label].iqm, default=None)
    if best is None or (default_scores and estimate([*default_scores.values()]).iqm >= found[best].iqm):
        return ""
    return f"Train with {best.replace(' ', '=')} instead: test IQM {found[best]}."


def _known(summary: StudySummary) -> list[str]:
    """The known settings that may be advised."""
    return [label for label in summary.baselines if not is_excluded(summary, label)]


def _finished_none(summary: StudySummary, label: str) -> str:
    """That all test runs of a configuration failed, as a sentence; empty if one came to its end, or none has begun."""
    runs = summary.stage(TEST, label)
    if not runs or any(run.complete for run in runs):
        return ""
    what = f"finished none of its {len(runs)} test runs" if len(runs) > 1 else "did not finish its only test run"
    return f"{_subject(summary, label)} {what} ({kinds_of(runs)})."


def _subject(summary: StudySummary, label: str) -> str:
    """A configuration as a sentence begins with it."""
    if label == summary.default_label:
        return "The default configuration"
    params = describe_params(summary.params_of(label), summary.weights)
    return f"{label[:1].upper()}{label[1:]}{f' ({params})' if params else ''}"


_EVEN = 0.5


def _not_better(difference: Estimate, improvement: float) -> str:
    """Of a winner whose test runs failed too often."""
    return (
        f"Where both came to an end the winner is better (difference {difference.signed}), but a failed run beats no "
        f"other: a run of the winner beats a run of the default with P = {improvement:.2f} only."
    )


def _conclusion(difference: Estimate, improvement: float) -> tuple[Finding, str]:
    """The conclusion that the difference between winner and default allows."""
    amount = difference.signed
    if difference.low is None or difference.high is None:
        seeds = counted(difference.n, "test seed")
        if difference.iqm <= 0:
            return Finding.DEFAULT_AS_GOOD, (
                f"The default is as good or better (difference {amount} on {seeds}): keep it."
            )
        return Finding.TOO_FEW_SEEDS, (
            f"The winner scored higher (difference {amount} on {seeds}), but this may be chance: an interval needs at "
            f"least {MIN_SCORES_FOR_INTERVAL} test seeds."
        )
    if difference.high < 0:
        return Finding.DEFAULT_AS_GOOD, f"The default is better (difference {amount}): keep it."
    if difference.iqm <= 0:
        return Finding.DEFAULT_AS_GOOD, f"The default is as good (difference {amount}): keep it."
    if difference.low <= 0:
        return Finding.UNCERTAIN, (
            f"The winner is not statistically better: the difference is {amount}, and its interval contains 0. "
            f"{_seeds_to_decide(difference)}"
        )
    return Finding.BETTER, (
        f"The winner is better: difference {amount}. A run of the winner beats a run of the default with "
        f"P = {improvement:.2f}."
    )


_MOST_SEEDS = 100
"""Beyond them a difference is too small to be worth the runs."""

_POWER = 2.0
"""(1.96 + 0.84) squared over 1.96 squared: with this many times the seeds an interval excludes 0 in 4 of 5 cases."""


def _seeds_to_decide(difference: Estimate) -> str:
    """How many test seeds would give an interval above 0: its lower half shrinks with the root of their number."""
    assert difference.low is not None
    too_wide = (difference.iqm - difference.low) / difference.iqm
    if _POWER * difference.n * too_wide * min(too_wide, _MOST_SEEDS) > _MOST_SEEDS:
        return f"A difference as small as this would need more than {_MOST_SEEDS} test seeds: keep the default."
    seeds = math.ceil(_POWER * difference.n * too_wide**2)
    return (
        f"If the true difference is as large, {seeds} test seeds show it in 4 of 5 cases: "
        f"study.num_test_seeds={seeds} with the same command."
    )


def _without_result(summary: StudySummary) -> Verdict:
    """No screening trial has finished."""
    screening = summary.stage(summary.first_stage)
    failed = [run for run in screening if run.failed]
    if not failed or len(failed) < len(screening):
        states = Counter("running" if run.outcome is None else run.outcome.replace("_", " ") for run in screening)
        counted = join_words(f"{number} {state}" for state, number in states.most_common())
        return Verdict(Finding.NOTHING_FINISHED, f"No trial has finished yet ({counted or 'none started'}).")
    reason, number = Counter(run.reason or "no reason given" for run in failed).most_common(1)[0]
    every = f"All {len(failed)} trials failed" if len(failed) > 1 else "The only trial failed"
    sentence = f"{every} ({kinds_of(failed)}), so there is no result. Most frequent reason ({number} x): {reason}"
    return Verdict(Finding.ALL_FAILED, sentence)


def _without_test(summary: StudySummary, unfinished: str) -> Verdict:
    """There are scores, but none that may be shown as a result."""
    best = max(
        (run for run in summary.stage(summary.first_stage) if run.complete and run.feasible),
        key=lambda run: run.score or 0.0,
        default=None,
    )
    label = summary.winner_label or (best.label if best else summary.default_label)
    tuning = _tuning_scores(summary, label)
    params = describe_params(summary.params_of(label), summary.weights)
    score = f", score in the search {tuning} on {counted(tuning.n, 'seed')}" if tuning else ""
    without_score = "The test runs have no score" if summary.stage(TEST) else "There is no finished test stage yet"
    state = unfinished or without_score
    if summary.starts.get(label) == DEFAULT_BASELINE:
        best_so_far = f"Best so far: {label}, the default configuration{score}. {state}."
    else:
        best_so_far = (
            f"Best so far: {label}{f' ({params})' if params else ''}{score}. {state}, so it is not known whether it is "
            "better than the default configuration."
        )
    sentence = f"{best_so_far} The score in the search is usually too high, because it is the best of many."
    return Verdict(Finding.NOT_TESTED, sentence, failed_tests(summary), tuning=tuning)


def _tuning_scores(summary: StudySummary, label: str) -> Estimate | None:
    """The scores that a configuration was chosen by: those of the last stage before the test, unless more decided."""
    if (found := next(filter(None, (part.tuning(summary, label) for part in parts(InResults))), None)) is not None:
        return found
    stages = (scores_of(summary, stage, label) for stage in (CONFIRM, RACE, summary.first_stage))
    return next((estimate([*scores.values()]) for scores in stages if scores), None)


def _noise_details(noise: Noise) -> tuple[str, str]:
    """How many others do not differ significantly from the winner, and what that means."""
    count = len(noise.tied)
    verb = "is" if count == 1 else "are"
    sentence = (
        f"{count} of {counted(noise.num_others, 'other finished screening trial')} {verb} within seed noise of the "
        "winner."
    )
    detail = (
        f"Within seed noise means a screening score of {format_number(noise.limit)} or more: the mean of the "
        f"{noise.num_runs} runs of the winner after screening ({format_number(noise.mean)}) minus "
        f"{noise.factor:.1f} times their standard deviation ({format_number(noise.deviation)})."
    )
    return sentence, detail


def _parts_details(summary: StudySummary, label: str) -> tuple[str, ...]:
    """The same test runs by measures that need no explanation: how good in the end, and over the whole of training."""
    sentences = []
    for name, words in _PARTS.items():
        winner, default = _part_of(summary, label, name), _part_of(summary, summary.default_label, name)
        if winner:
            known = default and label != summary.default_label
            against = f", default {estimate([*default.values()])}" if known else ""
            told = words.format("score" if summary.part_names else "return")
            sentences.append(f"{told[0].upper()}{told[1:]}: {estimate([*winner.values()])}{against}.")
    return tuple(sentences)


def _part_of(summary: StudySummary, label: str, name: str) -> dict[int, float]:
    """Seed -> a part of the score, of the test runs that have one."""
    runs = summary.stage(TEST, label)
    return {run.seed: run.scores[name] for run in runs if run.score is not None and name in run.scores}


def _lower_end(summary: StudySummary, label: str) -> list[str]:
    """That a winner with a higher score is not the better agent in the end: a score may reward fast learning."""
    winner, default = _part_of(summary, label, "final"), _part_of(summary, summary.default_label, "final")
    if not winner or not default or (end := difference_of(winner, default)).iqm >= 0.0:
        return []
    chance = "" if end.is_below_zero else ", which may be chance"
    told = "score" if summary.part_names else "return"
    return [f"But its {told} at the end of training is lower (difference {end.signed}{chance})."]


def _start_details(summary: StudySummary, label: str) -> tuple[str, ...]:
    """Sentences on the configurations that the search was started with: the winner is one, or the best of them."""
    if label not in summary.starts:
        return _best_start(summary, label)
    if label == summary.default_label:
        return ()
    known = _known_as(summary.starts[label])
    return (f"The winner was not found by the search: it is {known}, tried first.",)


def _known_as(name: str) -> str:
    if name == DEFAULT_BASELINE:
        return "the default configuration"
    if name.startswith(ONE_CHANGED):
        return f"the {name.replace('default', 'default configuration', 1)}"
    if name == PRIORS:
        return "the configuration of all prior values of the search space"
    study, _, place = name.removeprefix(EARLIER_STUDY).rpartition("/")
    if name.startswith(EARLIER_STUDY):
        return f"number {place} of the best configurations of study {study}"
    return f"the configuration of experiment {name}"


def _best_start(summary: StudySummary, label: str) -> tuple[str, ...]:
    """How far the search has come from there, by scores on the seed of screening."""
    scores = {run.label: run.score for run in summary.runs if run.stage == SCREEN and run.complete}
    known = {one for one, name in summary.starts.items() if name != DEFAULT_BASELINE}  # which is compared anyway
    started = [(score, one) for one, score in scores.items() if one in known and score is not None]
    own = scores.get(label)
    if not started or own is None:
        return ()
    best, name = max(started)
    which = "other configurations" if len(known) < len(summary.starts) else "configurations"
    return (
        f"The best of the {which} that were tried first is {name}: its screening score is "
        f"{format_number(best)}, that of the winner {format_number(own)}.",
    )


def _baseline_details(summary: StudySummary, scores: dict[int, float]) -> tuple[str, ...]:
    """The winner beside each further known configuration."""
    sentences = []
    for label in summary.baselines:
        known = scores_of(summary, TEST, label)
        if failing := _finished_none(summary, label):
            sentences.append(failing)
        elif known:
            difference = difference_of(scores, known)
            better = "better" if difference.iqm > 0.0 else "worse" if difference.iqm < 0.0 else "as good"
            certain = "" if difference.is_above_zero or difference.is_below_zero else ", which may be chance"
            score = f"{label}, with the same budget: test IQM {estimate([*known.values()])}"
            sentences.append(f"{score}. The winner is {better} (difference {difference.signed}{certain}).")
    return tuple(sentences)


def _better_baselines(summary: StudySummary, scores: dict[int, float]) -> list[str]:
    """That the winner ends behind known settings, and what to train in its place: the best of them first."""
    found = {
        label: difference_of(scores, known)
        for label in _known(summary)
        if (known := scores_of(summary, TEST, label)) and not _finished_none(summary, label)
    }
    behind = sorted((label for label in found if found[label].iqm < 0.0), key=lambda label: found[label].iqm)
    return [_behind(label, found[label]) for label in behind]


def _behind(label: str, difference: Estimate) -> str:
    typed = label.replace(" ", "=")
    if difference.is_below_zero:
        return f"The winner is worse than {label} (difference {difference.signed}): train with {typed} instead."
    return (
        f"The winner scored lower than {label} (difference {difference.signed}), which may be chance; to train "
        f"with these settings: {typed}."
    )


def _optimism_details(tuning: Estimate | None, winner: Estimate) -> tuple[str, ...]:
    if tuning is None:
        return ()
    amount = winner.signed_like(tuning.iqm - winner.iqm)
    source = f"{tuning.mean} on {counted(tuning.n, 'seed')}" if tuning.points else "estimated"
    return (f"Selection optimism {amount}: score in the search ({source}) minus score in the test.",)
