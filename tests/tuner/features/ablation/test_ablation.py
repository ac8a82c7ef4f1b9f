"""From the default configuration to the winner: where the truth is known by hand, and with kills in between."""

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.entries import quality
from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, Script, definition, journal, run_study
from tuner.errors import UserError
from tuner.features.ablation.blocks import Between, Block, Changed, between
from tuner.features.ablation.effects import Effect, ablation_csv, sentences, step_effects, whole_gain
from tuner.features.ablation.facts import ABLATE, ABLATION, Ablation, Change
from tuner.features.ablation.path import AblationPath
from tuner.features.ablation.runner import AblationRunner, AblationTask
from tuner.features.ablation.seeds import ablation_seeds
from tuner.features.ablation.settings import AblationSettings
from tuner.results.features import all_stages
from tuner.results.protocol import stage_seeds
from tuner.results.records import StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.study import StudyDefinition, StudyStore, Winner, find_winner, summarise
from tuner.study.storage.trial_records import read_records
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

SETTINGS = AblationSettings(num_seeds=8, num_race_seeds=4)


def lettered(num_blocks: int, skipped: Sequence[Change] = ()) -> Between:
    """Parameters a, b, c ... that each change from 0 to 1."""
    names = "abcdefgh"[:num_blocks]
    blocks = (Block({f"agent.{name}": 1}, (Change(f"agent.{name}", 0, 1),)) for name in names)
    return Between("trial 3", tuple(blocks), {}, tuple(skipped))


class Measured:
    """Scores by a formula, with noise that each run has for itself; remembers what was run."""

    def __init__(self, score: Callable[[set[str]], float], noise: float = 1.0) -> None:
        self.runs: set[tuple[str, int]] = set()
        self.announced: list[int] = []
        self._score = score
        self._noise = noise

    def __call__(self, configurations: Sequence[Changed], seeds: Sequence[int], to_come: int) -> Any:
        found = {one: {seed: self._run("".join(sorted("abcdefgh"[i] for i in one)), seed) for seed in seeds}
                 for one in configurations}  # fmt: skip
        self.announced.append(len(self.runs) + to_come)
        return found

    def _run(self, names: str, seed: int) -> float:
        self.runs.add((names, seed))
        return self._score(set(names)) + self._noise * random.Random(f"{names} {seed}").gauss(0.0, 1.0)


def walked(score: Callable[[set[str]], float], num_blocks: int, settings: AblationSettings = SETTINGS) -> Ablation:
    return AblationPath(lettered(num_blocks), settings, 0, Measured(score)).walk()


def steps_of(ablation: Ablation) -> list[str]:
    return ["".join(change.path[-1] for change in step.changes) for step in ablation.steps]


def test_contributions_that_add_up_are_found_in_the_order_of_their_size() -> None:
    worth = {"a": 30.0, "b": 0.0, "c": 60.0}
    found = walked(lambda names: 10.0 + sum(worth[name] for name in names), 3, AblationSettings(8, 4, until=None))
    assert steps_of(found) == ["c", "a", "b"]
    gained = step_effects(found)
    assert [one.gain.iqm for one in gained] == pytest.approx([60.0, 30.0, 0.0], abs=1.5)
    for one, truth in zip(gained, (60.0, 30.0, 0.0), strict=True):
        assert one.gain.low is not None
        assert one.gain.high is not None
        assert one.gain.low < truth < one.gain.high
    assert [one.share for one in gained] == pytest.approx([2 / 3, 1 / 3, 0.0], abs=0.03)
    assert sum(one.share or 0.0 for one in gained) == pytest.approx(1.0)
    assert [one.effect for one in gained] == [Effect.HELPED, Effect.HELPED, Effect.NONE]
    said = " ".join(sentences(found))
    assert re.search(r"Of the gain, agent\.c 0 -> 1 brought 6[4-8] % \(.*\); agent\.a 0 -> 1 brought 3[2-6] %", said)
    assert "agent.b made no difference (within 20 % of the gain): leave it at its default." in said
    assert "The winner without" not in said, "whose runs are those before the last step"
    assert found.left_out[0].scores == found.steps[1].scores, "the winner without b is on the path already"


def test_what_is_left_once_the_gain_is_reached_changes_together() -> None:
    found = walked(lambda names: 100.0 * ("e" in names), 5)
    assert steps_of(found) == ["e", "abcd"]
    assert [one.effect for one in step_effects(found)] == [Effect.HELPED, Effect.NONE]
    said = " ".join(sentences(found))
    assert "agent.a, agent.b, agent.c and agent.d made no difference (within 20 % of the gain): leave them at" in said


def test_two_that_only_help_together_are_not_taken_for_idle() -> None:
    found = walked(lambda names: 20.0 * ("c" in names) + 50.0 * ({"a", "b"} <= names), 3)
    assert steps_of(found)[0] == "c"
    gained = step_effects(found)
    assert [one.effect for one in gained] == [Effect.HELPED, Effect.NEEDED, Effect.HELPED]
    assert gained[2].gain.iqm == pytest.approx(50.0, abs=2.0)
    first = steps_of(found)[1]
    said = " ".join(sentences(found))
    assert f"{first} 0 -> 1 had no clear effect when it was changed" in said
    assert "leave it at its default" not in said


def test_idle_settings_are_distinguished_from_needed_ones() -> None:
    """a and b only help together; d and e do nothing; which of a and b comes first is chance."""
    score = lambda names: 20.0 * ("c" in names) + 50.0 * ({"a", "b"} <= names)  # noqa: E731
    found = walked(score, 5, AblationSettings(8, 4, until=None))
    by_name = dict(zip(steps_of(found), step_effects(found), strict=True))
    assert {by_name["a"].effect, by_name["b"].effect} == {Effect.HELPED, Effect.NEEDED}
    idle = {steps_of(found)[index] for index in found.left_out[-1].steps}
    assert idle == {"d", "e"}, "measured together, without what is needed"
    said = " ".join(sentences(found))
    assert "made no difference (within 20 % of the gain): leave them at their defaults" in said


def test_a_change_for_the_worse_is_named() -> None:
    found = walked(lambda names: 50.0 * ("a" in names) - 20.0 * ("b" in names), 2)
    assert [one.effect for one in step_effects(found)] == [Effect.HELPED, Effect.HURT]
    said = " ".join(sentences(found))
    assert "agent.b 0 -> 1 made it worse (-2" in said
    assert ": leave it at its default." in said


def test_changes_for_the_worse_that_came_together_are_left_at_their_defaults() -> None:
    found = walked(lambda names: 50.0 * ("a" in names) - 10.0 * len(names & {"b", "c"}), 3)
    assert [one.effect for one in step_effects(found)] == [Effect.HELPED, Effect.HURT]
    assert re.search(
        r"agent\.b 0 -> 1 and agent\.c 0 -> 1 made it worse \(.*\): leave them at their defaults\.",
        " ".join(sentences(found)),
    )


def test_what_seeds_cannot_tell_is_not_called_no_difference() -> None:
    """b is worth a third of the gain, and noise hides it."""
    measured = Measured(lambda names: 60.0 * ("a" in names) + 30.0 * ("b" in names), noise=40.0)
    found = AblationPath(lettered(2), SETTINGS, 0, measured).walk()
    assert [one.effect for one in step_effects(found)].count(Effect.UNCLEAR) == 1
    said = " ".join(sentences(found))
    assert "no difference" not in said
    assert "Not clear on 8 seeds: " in said
    assert "Type num_seeds=16 for a clearer result" in said


def test_without_a_gain_there_is_nothing_to_share_and_nothing_more_is_run() -> None:
    measured = Measured(lambda names: 5.0)
    found = AblationPath(lettered(4), SETTINGS, 0, measured).walk()
    assert steps_of(found) == ["abcd"]
    assert step_effects(found)[0].share is None
    assert "not clearly better than the default configuration" in " ".join(sentences(found))
    assert {names for names, _ in measured.runs} == {"", "abcd"}
    assert len(measured.runs) == 2 * SETTINGS.num_seeds


def test_races_cost_less_than_the_most_and_choose_on_seeds_that_measure_nothing() -> None:
    measured = Measured(lambda names: sum(10.0 * 2.0 ** "abcd".index(name) for name in names))
    found = AblationPath(lettered(4), SETTINGS, 0, measured).walk()
    race = set(ablation_seeds(0, SETTINGS.num_race_seeds, race=True))
    assert not race & set(found.seeds)
    alone = {seed for names, seed in measured.runs if names == "a"}
    assert alone == set(ablation_seeds(0, 3, race=True)), "clearly worse after three seeds, and out"
    assert SETTINGS.fewest_runs(4) <= len(measured.runs) < SETTINGS.most_runs(4)


@pytest.mark.parametrize("num_blocks", [1, 2, 4])
def test_there_are_never_more_runs_than_announced(num_blocks: int) -> None:
    noisy = Measured(lambda names: 40.0 * (len(names) == num_blocks), noise=4.0)
    AblationPath(lettered(num_blocks), SETTINGS, 0, noisy).walk()
    assert len(noisy.runs) <= SETTINGS.most_runs(num_blocks)
    assert max(noisy.announced) <= SETTINGS.most_runs(num_blocks)


def test_what_cannot_be_run_is_passed_over() -> None:
    """b alone cannot be, as if a batch were larger than its buffer."""
    measured = Measured(lambda names: 10.0 * len(names))
    path = AblationPath(lettered(2), SETTINGS, 0, measured, lambda changed: changed != frozenset({1}))
    assert steps_of(path.walk()) == ["a", "b"]
    assert "b" not in {names for names, _ in measured.runs}
    nothing = AblationPath(lettered(2), SETTINGS, 0, measured, lambda changed: False)
    assert steps_of(nothing.walk()) == ["ab"]


@pytest.mark.parametrize("study_seed", [0, 7])
def test_no_seed_is_one_of_the_study(study_seed: int) -> None:
    own = {*ablation_seeds(study_seed, 400), *ablation_seeds(study_seed, 400, race=True)}
    assert len(own) == 800
    assert max(own) < 2**31
    assert not own & {seed for stage in all_stages() for seed in stage_seeds(study_seed, stage, 400)}
    assert ablation_seeds(study_seed, 5) == ablation_seeds(study_seed, 9)[:5]
    assert min(own) > 3 * (2**29 - 1) + 2, "and cannot be: it lies behind the last of them"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"num_seeds": 4}, "num_seeds=4 is not possible: it must be at least 5: on fewer"),
        ({"num_race_seeds": 2}, "num_race_seeds=2 is not possible: it must be from 3 to 16"),
        ({"num_race_seeds": 17}, "num_race_seeds=17 is not possible: it must be from 3 to 16"),
        ({"until": 0.0}, "until=0.0 is not possible: it must be above 0 and at most 1, or null"),
    ],
)
def test_sizes_that_measure_nothing_are_refused(settings: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        AblationSettings(**settings)


KINDS: JsonDict = {
    "optimizer": {"learning_rate": {"low": 1e-5, "high": 1.0, "log": True}},
    "agent": {
        "gamma": {"low": 0.9, "high": 0.9999, "transform": "one_minus"},
        "kind": {"choices": ["plain", "soft"]},
        "tau": {"low": 0.001, "high": 1.0, "log": True, "when": {"agent.kind": ["soft"]}},
    },
    "buffer": {"batch_size": {"low": 16, "high": 256, "transform": "power_of_two"}},
}
KIND_CONFIG: JsonDict = {**CONFIG, "agent": {"gamma": 0.99, "kind": "plain", "tau": 0.1}}


def found_between(tmp_path: Path, **values: Any) -> Between:
    study = definition(tmp_path, space=KINDS, config=KIND_CONFIG)
    paths = {path.rpartition(".")[2]: path for path in study.space.paths}
    told = {paths[name]: value for name, value in values.items()}
    return between(study, Winner("trial 5", told, study.run_config(told, 0)))


def test_what_means_nothing_alone_moves_together_and_what_hardly_moved_stays(tmp_path: Path) -> None:
    found = found_between(tmp_path, learning_rate=0.1001, gamma=0.999, kind="soft", tau=0.01, batch_size=64)
    assert [[change.path for change in block.changes] for block in found.blocks] == [
        ["agent.gamma"],
        ["agent.kind", "agent.tau"],
    ]
    assert [change.path for change in found.skipped] == ["optimizer.learning_rate"]
    assert found.values(frozenset({1})) == {"buffer.batch_size": 64, "agent.kind": "soft", "agent.tau": 0.01}
    assert found.values(frozenset()) == {}
    assert found.name(found.all) == "agent.gamma, agent.kind, agent.tau of trial 5", (
        "not the winner: what hardly moved is left out"
    )


def test_a_condition_that_has_not_changed_binds_nothing(tmp_path: Path) -> None:
    soft: JsonDict = {**KIND_CONFIG, "agent": {**KIND_CONFIG["agent"], "kind": "soft"}}
    study = definition(tmp_path, space=KINDS, config=soft)
    told = {"agent.kind": "soft", "agent.tau": 0.01, "agent.gamma": 0.999}
    found = between(study, Winner("trial 5", told, study.run_config(told, 0)))
    assert [[change.path for change in block.changes] for block in found.blocks] == [["agent.gamma"], ["agent.tau"]]


def test_a_share_changes_with_what_it_is_a_share_of(tmp_path: Path) -> None:
    """A quarter of a rollout in both: another minibatch, as the rollout is another one."""
    share = {"low": 0.0625, "high": 1, "transform": "power_of_two", "of": "buffer.num_steps"}
    length = {"low": 32, "high": 1024, "transform": "power_of_two"}
    space: JsonDict = {**KINDS, "buffer": {"num_steps": length, "batch_size": share}}
    config: JsonDict = {**KIND_CONFIG, "buffer": {"num_steps": 128, "batch_size": 32}}
    study = definition(tmp_path, space=space, config=config)

    def blocks(num_steps: int, batch_size: int) -> list[list[tuple[str, Any, Any]]]:
        told = {"agent.gamma": 0.999, "buffer.num_steps": num_steps, "buffer.batch_size": batch_size}
        found = between(study, Winner("trial 5", told, study.run_config(told, 0)))
        assert not found.skipped
        assert study.run_config(found.values(found.all), 0)["buffer"] == buffer_of(told)
        return [[(one.path, one.before, one.after) for one in block.changes] for block in found.blocks[1:]]

    def buffer_of(told: JsonDict) -> JsonDict:
        return {path.rpartition(".")[2]: value for path, value in told.items() if path.startswith("buffer.")}

    both = [("buffer.batch_size", 32, 8), ("buffer.num_steps", 128, 32)]
    assert blocks(32, 8) == [both]
    assert blocks(32, 32) == [[("buffer.num_steps", 128, 32)]], "the same number, and another share"
    assert blocks(128, 8) == [[("buffer.batch_size", 32, 8)]]


def test_a_winner_that_is_the_default_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trial 5, is the default configuration, but for optimizer\.learning_rate"):
        found_between(tmp_path, learning_rate=0.1001, gamma=0.99, kind="plain", batch_size=64)


def rate_and_batch(spec: TrialSpec, attempt: int) -> Script:
    """The rate is what counts; a small batch helps a little; gamma does nothing."""
    score = quality(spec.config) + 10.0 * (spec.config["buffer"]["batch_size"] < 64)
    noise = random.Random(f"{spec.config} {spec.seed}").gauss(0.0, 0.5)
    return Script([(point / 9, score + noise) for point in range(1, 10)])


def studied(folder: Path) -> tuple[StudyDefinition, Between]:
    run_study(folder, FakeExecutor(behave=rate_and_batch), num_trials=12)
    study = definition(folder, num_trials=12)
    with StudyStore(journal(folder)) as store:
        winner = find_winner(store, "study")
    assert winner is not None
    return study, between(study, winner)


def ablated(folder: Path, study: StudyDefinition, found: Between, executor: FakeExecutor) -> Ablation:
    with StudyStore(journal(folder)) as store:
        return AblationRunner(AblationTask(study, found, SETTINGS), store, executor).run()


def summary_of(folder: Path) -> StudySummary:
    with StudyStore(journal(folder)) as store:
        return summarise(store, "study", folder / "studies" / "study")


def test_a_study_is_ablated_and_keeps_what_was_found(tmp_path: Path) -> None:
    study, found = studied(tmp_path)
    before = summary_of(tmp_path)
    executor = FakeExecutor(parallel=2, behave=rate_and_batch)
    ablation = ablated(tmp_path, study, found, executor)
    first = step_effects(ablation)[0]
    assert first.changes[0].path == "optimizer.learning_rate"
    assert first.effect is Effect.HELPED
    after = summary_of(tmp_path)
    assert ABLATION.of(after) == ablation
    assert ABLATION.of(summary_from_json(summary_to_json(after))) == ablation
    assert after.runs == before.runs, "the study itself is as it was"
    runs = [(str(spec.config), spec.seed) for spec in executor.started]
    assert len(runs) == len(set(runs)) == ablation.num_runs
    assert not {spec.seed for spec in executor.started} & {run.seed for run in after.runs}
    again = FakeExecutor(behave=rate_and_batch)
    assert ablated(tmp_path, study, found, again) == ablation
    assert again.started == []
    rows = ablation_csv(ablation).splitlines()
    assert rows[0].startswith("step,parameter,before,after,score,score_low,score_high,gain,")
    assert rows[1].startswith("0,,,,")
    assert rows[2].startswith("1,optimizer.learning_rate,0.1,")


def test_kills_at_any_moment_change_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    study, found = studied(whole)
    expected = ablated(whole, study, found, FakeExecutor(parallel=2, behave=rate_and_batch))
    study, found = studied(parts)
    rng, ended = random.Random(1), False
    sessions = 0
    while not ended:
        executor = FakeExecutor(parallel=2, behave=rate_and_batch, die_after=rng.randint(20, 300))
        try:
            assert ablated(parts, study, found, executor) == expected
            ended = True
        except ControllerDied:
            sessions += 1
    assert sessions >= 3
    with StudyStore(journal(parts)) as store:
        stage = store.find("study", ABLATE)
        assert stage is not None
        runs = read_records(stage, ABLATE, parts)
    assert len({(run.label, run.seed) for run in runs}) == len(runs) == expected.num_runs
    assert all(run.outcome is Outcome.COMPLETE for run in runs)


def test_runs_that_fail_count_with_the_worst_score(tmp_path: Path) -> None:
    study, found = studied(tmp_path)
    crashing = study.config["optimizer"]["learning_rate"]

    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = rate_and_batch(spec, attempt)
        fails = spec.config["optimizer"]["learning_rate"] == crashing and spec.seed == ablation_seeds(0, 1)[0]
        return Script(script.curve[:2], TrialResult(Outcome.CRASHED, "broken")) if fails else script

    ablation = ablated(tmp_path, study, found, FakeExecutor(behave=behave))
    assert ablation.num_failed >= 1
    assert ablation.default[0] == min(ablation.default)
    assert f"{ablation.num_failed} of {ablation.num_runs} runs failed" in sentences(ablation)[-1]
    assert whole_gain(ablation).iqm > 0.0


def test_another_winner_later_has_configurations_of_its_own(tmp_path: Path) -> None:
    study, found = studied(tmp_path)
    ablated(tmp_path, study, found, FakeExecutor(behave=rate_and_batch))
    values = {**found.values(found.all), "optimizer.learning_rate": 2e-3}
    other = between(study, Winner("trial 99", values, study.run_config(values, 0)))
    executor = FakeExecutor(behave=rate_and_batch)
    ablation = ablated(tmp_path, study, other, executor)
    assert ablation.winner == "trial 99"
    assert ABLATION.of(summary_of(tmp_path)) == ablation
    rates = {spec.config["optimizer"]["learning_rate"] for spec in executor.started}
    assert rates <= {2e-3, study.config["optimizer"]["learning_rate"]}
    default = {spec.seed for spec in executor.started if spec.config == {**study.config, "seed": spec.seed}}
    assert not default & set(ablation.seeds), "the default configuration has run there before"


DAMAGES: Sequence[tuple[str, Any, str]] = (
    ("default", [1.0], "not one score for each seed"),
    ("default", [float("nan")] * 8, r"ablation\.default\[0\] must be a number"),
    ("steps", [], "not one score for each seed"),
    ("steps", [{"scores": [1.0] * 8}], "changes"),
    ("winner", [3], "winner"),
)


def test_an_ablation_that_is_none_is_not_shown(tmp_path: Path) -> None:
    study, found = studied(tmp_path)
    ablated(tmp_path, study, found, FakeExecutor(behave=rate_and_batch))
    with StudyStore(journal(tmp_path)) as store:
        stage = store.find("study", ABLATE)
    assert stage is not None
    sound = stage.user_attrs["ablation"]
    for key, value, complaint in DAMAGES:
        stage.set_user_attr("ablation", {**sound, key: value})
        with pytest.raises(UserError, match=complaint):
            summary_of(tmp_path)
