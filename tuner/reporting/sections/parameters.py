"""The sections about parameters: where they may safely lie, which of them matter, and how they go together."""

from tuner.reporting.downsampling import MOST_LINES, MOST_POINTS, drawn_note
from tuner.reporting.elements import figure, figure_grid, note, number_cell, reason, section, table, text_cell
from tuner.reporting.figures.parameter_effects import sliced_paths
from tuner.reporting.figures.value_axis import AxisScale
from tuner.reporting.markup import Html, tag
from tuner.results.insights.safe_ranges import SafeRange, good_trials, safe_ranges
from tuner.results.number_format import format_value
from tuner.results.records import SCREEN, StudySummary

MIN_TRIALS_FOR_IMPORTANCE = 8


def safe_ranges_section(summary: StudySummary) -> Html:
    """For each parameter the range that holds the good trials, beside all that was tried."""
    title = "Safe ranges"
    found = safe_ranges(summary)
    if not found:
        return section("ranges", title, reason("Too few trials are complete to tell a safe range."))
    rows = [_range_row(summary, one) for one in found]
    heads = [
        "parameter",
        "winner" if not summary.is_sweep else "best",
        "safe",
        "within all tried values",
        "good trials",
    ]
    how = note(
        f"The safe range contains the values of {good_trials(summary)[1]}. The last column counts these among all "
        "trials within the range. If they are few, the range alone does not make a trial good."
    )
    return section("ranges", title, how, table("range-table", heads, rows))


def _range_row(summary: StudySummary, found: SafeRange) -> Html:
    if found.low is None or found.high is None:
        words = ", ".join(map(format_value, found.choices))
    elif found.low == found.high:
        words = format_value(found.low)
    else:
        words = f"{format_value(found.low)} to {format_value(found.high)}"
    return tag(
        "tr",
        text_cell(found.path),
        tag(
            "td", format_value(found.best), title=repr(found.best)
        ),  # numbers and choices below each other: all to the left
        tag("td", words, class_="range"),
        tag("td", _bar(summary, found)),
        number_cell(found.precision, f"{found.num_good} of {found.num_inside}"),
    )


def _bar(summary: StudySummary, found: SafeRange) -> Html:
    """The safe part of what was tried, to scale; of choices, how many of them."""
    tried = [run.params[found.path] for run in summary.stage(SCREEN) if found.path in run.params]
    if found.low is None or found.high is None:
        others = [value for value in dict.fromkeys(tried) if value not in found.choices]
        rejected = ", ".join(map(format_value, others))
        return tag("small", f"not {rejected}" if rejected else "all choices")
    scale = AxisScale.of(tried, summary.scales.get(found.path))
    low, high, best = (scale.place(value) for value in (found.low, found.high, found.best))
    ends = f"{format_value(found.tried_low)} to {format_value(found.tried_high)}"
    inside = tag("i", style=f"left:{low:.1%};width:{max(high - low, 0.01):.1%}")
    mark = tag("b", style=f"left:{best:.1%}")
    return tag("span", tag("span", inside, mark, class_="bar"), tag("small", ends), class_="barred")


def importance_section(summary: StudySummary) -> Html:
    """The parameters that the score depends on, where there are enough trials to say."""
    title = "Which parameters matter"
    missing = importance_missing(summary)
    if missing:
        return section("importance", title, reason(missing))
    share = (
        "Effect of each parameter alone on the rank of a trial, over its whole range. The unit is the share of all "
        "effects (functional ANOVA of a smooth model of the screening trials)."
    )
    if summary.importance_null:
        share += (
            " The mark is what chance alone reaches in one of twenty cases, with scores shuffled among neighbouring "
            f"trials: {_unimportant(summary)}"
        )
    parts = [figure("importance-figure", share)]
    if summary.importance_over_time:
        moments = "The same for the score after parts of the step budget. Open circles are within chance."
        parts.append(figure("importance-time-figure", moments))
    complete = sum(run.complete for run in summary.stage(SCREEN))
    slices = "Score of each complete screening trial against the value of its parameter."
    slices += drawn_note(complete, MOST_POINTS)
    return section("importance", title, *parts, figure_grid(slice_names(summary), slices))


def slice_names(summary: StudySummary) -> list[str]:
    """Ids of the places of `slice_figures`."""
    return [f"slice-figure-{number}" for number, _ in enumerate(sliced_paths(summary), start=1)]


def _unimportant(summary: StudySummary) -> str:
    paths = [path for path, value in summary.importances.items() if value <= summary.importance_null.get(path, 0.0)]
    if not paths:
        return "all parameters are above it."
    listed = ", ".join(paths)
    return f"on these trials {listed} {'does' if len(paths) == 1 else 'do'} not differ significantly from it."


def importance_missing(summary: StudySummary) -> str:
    """Why no importances are shown; empty if they are."""
    complete = sum(run.complete for run in summary.stage(SCREEN))
    if complete < MIN_TRIALS_FOR_IMPORTANCE:
        return (
            f"{complete} of at least {MIN_TRIALS_FOR_IMPORTANCE} trials are complete: too few to tell parameters apart."
        )
    return "" if summary.importances else "The study has not worked out importances (too few or too equal trials)."


def parallel_section(summary: StudySummary, available: bool) -> Html:
    """How the parameters of good trials go together."""
    title = "All parameters at once"
    if not available:
        return section("parallel", title, reason("Too few trials with parameters are complete."))
    words = "Each line is a trial, each vertical axis a parameter. A click in the legend hides or shows a group."
    words += drawn_note(sum(run.outcome is not None for run in summary.stage(SCREEN)), MOST_LINES)
    return section("parallel", title, figure("parallel-figure", words))
