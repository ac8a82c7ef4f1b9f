"""Several budgets: which studies they make, which of them pays, what is refused."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

import tuner as api
from note_rl.errors import SettingsError
from tests.tuner.command_line import SMALL, SMALL_STUDY, CommandLine
from tests.tuner.reporting.summaries import run
from tuner.checking.section_types import StudyConfig
from tuner.checking.step_counts import short_count, step_counts
from tuner.commands import tune as one_study
from tuner.errors import UserError
from tuner.features.budgets import budget_command
from tuner.features.budgets.budget_page import budgets_csv, budgets_figure, write_budgets_page
from tuner.features.budgets.budget_points import BudgetPoint, advice, compared_budgets, gain_words, point_of
from tuner.features.budgets.budget_studies import BudgetStudies
from tuner.results.records import RunRecord, StudySummary
from tuner.study import StudyError
from tuner.support.console import PlainConsole

SEEDS = range(5)


def summary(name: str, winner: Sequence[float], default: Sequence[float], seconds: float = 1.0) -> StudySummary:
    """A study whose winner and default have these scores on test seeds."""

    def tested(label: str, scores: Sequence[float]) -> list[RunRecord]:
        return [run(label, "test", score, seed=seed, seconds=seconds) for seed, score in enumerate(scores)]

    return StudySummary(
        name,
        "final score",
        "CartPole-v1",
        "dqn",
        "torch",
        (run("trial 0", "screen", 1.0), *tested("trial 0", winner), *tested("default", default)),
        "trial 0",
        retrain_command=f"tuner train study={name}",
        default_command="tuner train",
    )


def points(*scores: Sequence[float]) -> tuple[BudgetPoint, ...]:
    """Of 10, 20, 30, ... steps, each better than its default."""
    made = [point_of(10 * place, summary(f"s{place}", one, [0.0] * 5)) for place, one in enumerate(scores, start=1)]
    return compared_budgets([one for one in made if one is not None][::-1])


# What is typed


def test_steps_are_read_and_written() -> None:
    assert step_counts("budgets", ["30k", 1e4, "0.1M", 1500]) == (1500, 10_000, 30_000, 100_000)
    assert [short_count(steps) for steps in (1500, 30_000, 2_000_000, 1_500_000)] == ["1500", "30k", "2M", "1500k"]


@pytest.mark.parametrize(
    "value", [["10k"], [], "10k", ["10k", 10_000], ["10k", "x"], ["1.5", "10k"], [0, 5], [True, 5]]
)
def test_other_lists_are_refused(value: object) -> None:
    with pytest.raises(SettingsError):
        step_counts("budgets", value)


# What comes out


def test_what_a_study_advises() -> None:
    better = point_of(10, summary("s", [5.0, 6.0, 7.0, 8.0, 9.0], [0.0] * 5, seconds=3.0))
    assert better is not None
    assert (better.label, better.is_default, better.seconds, better.score.iqm) == ("trial 0", False, 3.0, 7.0)
    assert better.command == "tuner train study=s"
    as_good = point_of(10, summary("s", [5.0] * 5, [5.0] * 5))
    assert as_good is not None
    assert (as_good.label, as_good.is_default, as_good.command) == ("default", True, "tuner train")
    assert point_of(10, StudySummary("s", "final score", "CartPole-v1", "dqn", "torch")) is None


def test_a_longer_budget_is_worth_its_steps_by_a_gain_that_the_seeds_can_show() -> None:
    low, high, as_high = [1.0, 1.1, 0.9, 1.0, 1.0], [5.0, 5.1, 4.9, 5.0, 5.0], [5.1, 4.9, 5.0, 5.2, 4.9]
    found = points(low, high, as_high)
    assert [one.steps for one in found] == [10, 20, 30]
    assert [one.pays for one in found] == [True, True, False]
    assert [one.before for one in found] == [0, 10, 20]
    assert found[1].gain is not None
    assert found[1].gain.iqm == pytest.approx(4.0)
    assert gain_words(found[0]) == ""
    assert gain_words(found[1]).startswith("+4 [")
    assert gain_words(found[1]).endswith("over 10")
    assert advice(found) == "Take 20 steps: runs of 30 steps bring no gain that 5 test seeds can show."


def test_each_is_compared_with_the_best_shorter_one() -> None:
    """Not with the one before it, which may have had bad luck."""
    found = points([5.0, 5.1, 4.9, 5.0, 5.0], [1.0] * 5, [5.1, 4.9, 5.0, 5.2, 4.9])
    assert [one.pays for one in found] == [True, False, False]
    assert [one.before for one in found] == [0, 10, 10]
    assert advice(found).startswith("Take 10 steps: runs of 20 and 30 steps bring no gain")


def test_other_advice() -> None:
    rising = points([1.0] * 5, [2.0, 2.1, 1.9, 2.0, 2.0], [3.0, 3.1, 2.9, 3.0, 3.0])
    assert advice(rising).startswith("Each larger budget brings a higher score")
    dip = points([1.0] * 5, [0.5, 0.4, 0.6, 0.5, 0.5], [3.0, 3.1, 2.9, 3.0, 3.0])
    assert advice(dip).startswith("Take 30 steps, if you can afford them")


def test_with_few_seeds_nothing_is_advised() -> None:
    assert advice(points([1.0], [3.0], [2.0])).startswith("The score is highest with 20 steps, but this may be chance")


def test_the_page_and_the_table_of_numbers(tmp_path: Path) -> None:
    found = points([1.0, 1.1, 0.9, 1.0, 1.0], [5.0, 5.1, 4.9, 5.0, 5.0])
    rows = budgets_csv(found)
    assert [row[:4] for row in rows[1:]] == [[10, "s1", "trial 0", 1.0], [20, "s2", "trial 0", 5.0]]
    assert rows[2][8] == pytest.approx(4.0)
    figure = budgets_figure(found)
    assert [trace["y"] for trace in figure["data"]] == [[1.0, 5.0], [0.0, 0.0]]
    page = write_budgets_page(found, "s", "tuner tune study.budgets=[10,20]", tmp_path).read_text()
    assert 'href="../s2/report.html"' in page
    assert "Each larger budget brings a higher score" in page


# From the command line


def test_a_study_for_each_budget(tuner: CommandLine) -> None:
    words = ("tune", "agent=dqn", *SMALL, *SMALL_STUDY, "study.budgets=[300,0.2k]", "study.name=s")
    words = tuple(word for word in words if not word.startswith("training.total_steps="))
    answer = tuner(*words)
    assert answer.status == 0, answer
    assert answer.output.index("200 steps, study s-200") < answer.output.index("300 steps, study s-300")
    page = tuner.folder / "studies" / "s" / "budgets.html"
    links = re.findall(r'href="([^"#]+)"', page.read_text())
    assert [(page.parent / link).resolve().is_file() for link in links] == [True, True]
    assert (tuner.folder / "studies" / "s" / "budgets.csv").read_text().splitlines()[0].startswith("steps,study,")
    short, longer = (api.load(f"s-{steps}", storage="journal:///studies.journal") for steps in (200, 300))
    assert longer.summary.budget["environment steps per run"] == 300
    first = next(one for one in longer.summary.runs if one.number == 0 and one.stage == "screen")
    assert dict(first.params) == dict(short.winner.values)
    assert longer.summary.starts["trial 0"] == ("default" if short.winner.label == "trial 0" else "study:s-200/1")
    again = tuner(*words)
    assert again.status == 0, again
    assert len(api.load("s-300", storage="journal:///studies.journal").summary.runs) == len(longer.summary.runs)


def test_a_budget_may_be_added(tuner: CommandLine) -> None:
    """Also a smaller one: the study that is there has begun without it."""
    words = ("tune", "agent=dqn", *SMALL, *SMALL_STUDY, "study.name=s")
    words = tuple(word for word in words if not word.startswith("training.total_steps="))
    assert tuner(*words, "study.budgets=[300,400]").status == 0
    answer = tuner(*words, "study.budgets=[200,300,400]")
    assert answer.status == 0, answer
    starts = [api.load(f"s-{steps}", storage="journal:///studies.journal").summary.starts for steps in (300, 400)]
    assert set(starts[0].values()) == {"default"}
    assert set(starts[1].values()) in ({"default", "study:s-300/1"}, {"default", "study:s-300/2"})


def test_the_way_on_with_other_settings_is_one_for_all_budgets(tuner: CommandLine) -> None:
    words = ("tune", "agent=dqn", *SMALL, *SMALL_STUDY, "study.name=both", "study.budgets=[200,300]")
    words = tuple(word for word in words if not word.startswith("training.total_steps="))
    assert tuner(*words, "~space.policy").status == 0
    other = "or begin another study with study.name=both-2"
    assert f"leave that out of the space, {other}\n" in tuner.refused(*words)
    assert f"type the settings that were begun with, {other}\n" in tuner.refused(
        *words, "~space.policy", "policy.eps=0.3"
    )


def test_time_is_shared_out(tuner: CommandLine) -> None:
    words = (word for word in SMALL if not word.startswith("training.total_steps="))
    limits = ("study.budget=30min", "study.max_env_steps=4e6")
    answer = tuner("tune", "agent=dqn", "executor=inline", *words, "study.budgets=[400,200]", *limits, "plan=true")
    assert answer.status == 0, answer
    assert answer.output.count("15 min") == 2, answer.output
    assert answer.output.count("2,000,000 environment steps") == 2, answer.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("study.budgets=[10k]",), "type study.budgets=[10k,...] with more of them, such as [10k,30k,100k], or "),
        (("study.budgets=10k",), "study.budgets=10k is one budget, and study.budgets compares several: type study.bud"),
        (
            ("study.budgets=[5min,10min]",),
            "budgets are numbers of environment steps, such as [10k,30k,100k]. In a time",
        ),
        (("study.budgets=[2h]",), "budgets are numbers of environment steps"),
        (("study.budgets=10000",), "or training.total_steps=10000 for one"),
        (("study.budgets=[1k,2k]", "training.total_steps=5"), "training.total_steps=5 is one budget"),
        (("study.budgets=[1k,2k]", "study.metric=[mixed,seconds]"), "study.metric lists more"),
        (("study.budgets=[1k,2k]", "study.metric=steps_to_475"), "steps_to_475 goes by the length of the budget"),
        (("study.budgets=[1k,2k]", "study.metric=seconds_to_475"), "seconds_to_475 goes by the length of the budget"),
        (("study=pbt", "study.budgets=[1k,2k]"), "has none: leave study=pbt out"),
        (("study.budgets=[1k,2k]", "study.as_begun=true"), "and type the settings that they were begun with"),
        (("study.budgets=[1k,2k]", "agent.gama=1"), "did you mean agent.gamma"),
        (("study.budgets=[1k,2k]", "storage=memory"), "storage=memory keeps none"),
        (("-m", "study.budgets=[1k,2k]", "seed=0,1"), "type a command for each value of seed=0,1"),
    ],
)
def test_refusals(tuner: CommandLine, words: Sequence[str], why: str) -> None:
    assert why in tuner.refused("tune", "agent=dqn", *words)


def test_a_budget_without_a_result_does_not_end_the_command(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = one_study.tune

    def tune(config: DictConfig, *given: Any, **named: Any) -> Any:
        if config.training.total_steps == 300:
            raise StudyError("5 runs in a row have failed")
        return real(config, *given, **named)

    monkeypatch.setattr(one_study, "tune", tune)
    words = ("tune", "agent=dqn", *SMALL, *SMALL_STUDY, "study.name=front", "study.budgets=[200,300,400]")
    answer = tuner(*(word for word in words if not word.startswith("training.total_steps=")))
    assert answer.status == 2, answer
    assert "no result: 5 runs in a row have failed" in answer.output
    assert "300 steps: no result, as said above. The same command tries again" in answer.errors
    assert api.load("front-400", storage="journal:///studies.journal").summary.starts == {"trial 0": "default"}, (
        "no earlier study has a result"
    )
    rows = (tuner.folder / "studies" / "front" / "budgets.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["200", "400"]
    assert "not the folder of a run, nor a study; did you mean front-200 or front-400?" in tuner.refused(
        "push", "front"
    )


def test_a_function_that_does_not_get_the_steps_is_refused(tuner: CommandLine) -> None:
    words = ("agent=function", "agent._target_=tests.tuner.entries.train", "+agent.context=0", "space=none")
    searched = "+space.agent.context={low: 0, high: 3}"
    message = tuner.refused("tune", *words, searched, "study.budgets=[1k,2k]")
    assert "train gets no argument that follows it: all runs would be the same" in message


def test_of_several_environments_it_is_said_in_which_one_the_command_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = BudgetStudies("s", (10, 20), StudyConfig(num_trials=2), tmp_path, (), ())
    found = [replace(one, where="cartpole") for one in points([1.0] * 5, [5.0, 5.1, 4.9, 5.0, 5.0])]
    budget_command._show(found, studies, "tuner tune", PlainConsole())
    assert "train trial 0 with 20 steps, in cartpole:" in capsys.readouterr().out


def test_python_makes_one_study_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"call tuner\.tune for each"):
        api.tune(["agent=dqn", "study.budgets=[1k,2k]"])
