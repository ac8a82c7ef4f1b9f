"""The page of a benchmark."""

import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tuner.features.benchmark.pooled_statistics import pooled_iqm, profile, profile_band
from tuner.features.benchmark.standings import Standings
from tuner.features.benchmark.tuned_share import TunedShare
from tuner.reporting.elements import copied_command, figure, note, number_cell, reason, section, table, text_cell
from tuner.reporting.figures.curve_figures import Chart, ChartLine, chart_figure
from tuner.reporting.figures.study_figures import LINE_COLORS
from tuner.reporting.figures.style import axis
from tuner.reporting.markup import Html, join, tag
from tuner.reporting.page import document
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL
from tuner.results.learning_curves import Band
from tuner.results.number_format import counted
from tuner.support.text_files import atomic_write
from tuner.trial.messages import JsonDict

PAGE_FILE = "bench.html"
_NUM_THRESHOLDS = 101


def write_bench_page(
    bench: Standings, shares: Sequence[TunedShare] | None, metric: str, command: str, folder: Path
) -> Path:
    """Writes it.

    Args:
        bench: The measured scores.
        shares: Results of studies of the same agents; None: no storage was looked into.
        metric: Name of the score.
        command: That makes it again.
        folder: Of the benchmark.

    Returns:
        Its path.

    Raises:
        UserError: plotly is not installed.
    """
    drawings = {"iqm-figure": _iqm_figure(bench), "profile-figure": chart_figure(_profile_chart(bench))}
    title = f"Benchmark of {counted(len(bench.scores), 'entrant')} in {counted(len(bench.envs), 'environment')}"
    runs = len(bench.scores) * len(bench.envs) * bench.num_seeds
    about = f"{counted(bench.num_seeds, 'seed')} each, {counted(runs, 'run')}; score of a run: {metric}."
    body = [
        tag("header", tag("h1", title), tag("p", about)),
        section("verdict", "Verdict", tag("p", bench.verdict)),
        _pooled(bench),
        _improvements(bench),
        section(
            "profiles",
            "Performance profiles",
            figure(
                "profile-figure",
                f"Share of all {bench.pooled} above each threshold, with its 95 % interval. A line that "
                "is above another one everywhere belongs to the better entrant.",
            ),
        ),
        _environments(bench),
        *([] if shares is None else [_sensitivity(shares)]),
        section(
            "again", "Run it again", note("The same command adds what is missing:"), copied_command("cmd", command)
        ),
    ]
    path = folder / PAGE_FILE
    atomic_write(path, document(title, tag("main", join(body)), drawings))
    return path


def _pooled(bench: Standings) -> Html:
    with_intervals = bench.num_seeds >= MIN_SCORES_FOR_INTERVAL
    rows = [
        tag(
            "tr",
            text_cell(name),
            number_cell(value),
            *([number_cell(end) for end in bench.intervals[name]] if with_intervals else []),
        )
        for name, value in bench.iqms.items()
    ]
    heads = ["entrant", "interquartile mean", *(["from", "to"] if with_intervals else [])]
    words = (
        f"Interquartile mean of the {bench.pooled} of all runs, with its 95 % interval by a bootstrap over the runs "
        "within each environment (Agarwal et al. 2021), made as wide as the number of seeds asks for."
    )
    title = "All environments" if bench.is_rescaled else f"Scores in {bench.envs[0]}"
    few = "" if with_intervals else note(f"Below {MIN_SCORES_FOR_INTERVAL} seeds an interval means nothing.")
    return section("pooled", title, table("iqm-table", heads, rows), few, figure("iqm-figure", words))


def _improvements(bench: Standings) -> Html:
    title = "Probability of improvement"
    if not bench.improvements:
        return section("improvement", title, reason("There is one entrant only."))
    with_intervals = bench.num_seeds >= MIN_SCORES_FOR_INTERVAL
    rows = [
        tag(
            "tr",
            text_cell(one.better),
            text_cell(one.other),
            number_cell(one.probability, f"{one.probability:.1%}"),
            *([number_cell(end, f"{end:.1%}") for end in one.interval] if with_intervals else []),
            number_cell(one.difference),
            *([number_cell(end) for end in one.difference_interval] if with_intervals else []),
        )
        for one in bench.improvements
    ]
    ends = ["from", "to"] if with_intervals else []
    heads = ["a run of", "scores higher than one of", "with probability", *ends, "difference of means", *ends]
    words = (
        "The probability is the mean over the environments; a tie counts half. 50 % means that there is no difference. "
        f"The difference is that of the interquartile means of {bench.pooled}; runs with the same seed are drawn "
        "together for its interval."
    )
    return section("improvement", title, note(words), table("improvement-table", heads, rows))


def _environments(bench: Standings) -> Html:
    rows = [
        tag(
            "tr",
            text_cell(env),
            text_cell(name),
            number_cell(float(pooled_iqm(np.array([own[env]])))),
            *_ends(own[env]),
        )
        for env in bench.envs
        for name, own in bench.scores.items()
    ]
    heads = ["environment", "entrant", "interquartile mean of scores", "lowest", "highest"]
    found = table("env-table", heads, rows)
    if not bench.is_rescaled:
        return section("environments", "The environment", found)
    scales = [tag("li", tag("strong", env), f": {scale.words}") for env, scale in bench.scales.items()]
    words = (
        "Scores of different environments are put on one scale before they are pooled: normalised = (score - low) / "
        "(high - low). Low and high are the reference of the environment's file; where it has none, the lowest and "
        "the highest mean of the entrants, so that there the scale depends on who takes part."
    )
    return section("environments", "Each environment", note(words), tag("ul", *scales), found)


def _ends(scores: Sequence[float]) -> list[Html]:
    return [number_cell(float(end)) for end in (min(scores), max(scores))]


def _sensitivity(shares: Sequence[TunedShare]) -> Html:
    title = "What tuning would bring"
    if not shares:
        return section(
            "sensitivity",
            title,
            reason(
                "The storage has no finished study with one of these agents, environments, this metric and as many "
                "steps, so nothing is known. tuner tune makes one."
            ),
        )
    rows = [
        tag(
            "tr",
            *(text_cell(text) for text in (one.agent, one.env, one.study)),
            *(number_cell(value) for value in (one.floor, one.default, one.tuned)),
            number_cell(one.share, f"{one.share:.0%}"),
        )
        for one in shares
    ]
    heads = ["agent", "environment", "study", "random policy", "default", "tuned", "left on the table"]
    words = (
        "Share of what tuning brings that the default configuration leaves on the table: (tuned - default) / "
        "(tuned - random policy), by test runs of studies in the storage. Pairs without a study are left out."
    )
    return section("sensitivity", title, note(words), table("sensitivity-table", heads, rows))


def _iqm_figure(bench: Standings) -> JsonDict:
    names = list(bench.iqms)[::-1]
    middle = [bench.iqms[name] for name in names]
    errors: JsonDict = {}
    if bench.num_seeds >= MIN_SCORES_FOR_INTERVAL:
        ends = [bench.intervals[name] for name in names]
        errors = {
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [max(end.high - value, 0.0) for end, value in zip(ends, middle, strict=True)],
                "arrayminus": [max(value - end.low, 0.0) for end, value in zip(ends, middle, strict=True)],
            }
        }
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": middle,
        "y": [html.escape(name) for name in names],
        "marker": {"size": 12, "color": LINE_COLORS[0]},
        "hovertemplate": "%{y}: %{x:.4g}<extra></extra>",
        **errors,
    }
    layout = {
        "height": 140 + 40 * len(names),
        "showlegend": False,
        "xaxis": axis("interquartile mean"),
        "yaxis": {"automargin": True, "type": "category"},
    }
    return {"data": [trace], "layout": layout}


def _profile_chart(bench: Standings) -> Chart:
    scores = np.concatenate([own.ravel() for own in bench.tables.values()])
    low, high = float(scores.min()), float(scores.max())
    room = 0.05 * (high - low) or 0.5
    thresholds = np.linspace(low - room, high + room, _NUM_THRESHOLDS)
    num_runs = bench.num_seeds * len(bench.envs)
    every = np.full(_NUM_THRESHOLDS, num_runs)
    lines = [
        ChartLine(
            name,
            num_runs,
            Band(thresholds, profile(own, thresholds), *profile_band(own, thresholds), every),
        )
        for name, own in ((name, bench.tables[name]) for name in bench.iqms)
    ]
    return Chart(bench.pooled.removesuffix("s"), "share of runs above it", lines)


def scores_csv(bench: Standings) -> list[list[object]]:
    """A row for each run: entrant, environment, number of the seed, score, normalised score."""
    return [
        [name, env, number, float(own[env][number]), float(bench.tables[name][number, place])]
        for name, own in bench.scores.items()
        for place, env in enumerate(bench.envs)
        for number in range(bench.num_seeds)
    ]
