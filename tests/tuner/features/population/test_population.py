"""A population that evolves: who is copied by whom, what is replayed, and that kills change nothing of it."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuner.fake_trackers import FakeTracker
from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, Script, definition, journal, run_study
from tuner.errors import UserError
from tuner.features.population.evolution import Evolution
from tuner.features.population.exploit_explore import Breeding, Standing
from tuner.features.population.facts import STATIC
from tuner.features.population.gains import GainModel, GainSeeker, TrainedPart
from tuner.features.population.knobs import knobs, schedule_of
from tuner.features.population.moved_points import moved
from tuner.results.insights.effort import costs
from tuner.results.records import RunRecord
from tuner.study import StudyStore
from tuner.study.features import check_definition
from tuner.study.space.space import Space
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trial import folder as files
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

GENERATIONS = 4
CONFIG_8: JsonDict = {**CONFIG, "evaluation": {"num_points": 8}, "training": {"total_steps": 800}}
NO_POOL = {"save_replay": False}
POPULATION: JsonDict = {
    "config": CONFIG_8,
    "num_trials": 8,
    "num_race_seeds": 0,
    "num_candidates": 1,
    "num_select_seeds": 1,
    "num_test_seeds": 1,
    "search": Evolution(generations=GENERATIONS),
}


def rate_at(config: JsonDict, fraction: float) -> float:
    """The learning rate that a run has there: its own, or that of its schedule."""
    rate = config["optimizer"]["learning_rate"]
    for at, value in config.get("adaptive", {}).get("schedule", {}).get("learning_rate", []):
        if at < fraction * config["training"]["total_steps"]:
            rate = value
    return float(rate)


def drift(spec: TrialSpec, attempt: int) -> Script:
    """The best rate falls with time: what counts is the sum of what each part of training has brought."""
    total, curve = 0.0, []
    for point in range(1, 9):
        best = 10.0 ** (-1.0 - 3.0 * point / 8)
        total += math.exp(-(math.log10(rate_at(spec.config, point / 8) / best) ** 2))
        curve.append((point / 8, total + 1e-3 * (spec.seed % 7)))
    return Script(curve)


class Leaving(FakeExecutor):
    """Trials leave a checkpoint that says whose it is, and who is asked to copy what is noted."""

    def __init__(self, **options: Any) -> None:
        super().__init__(behave=drift, **options)
        self.tells_again = True
        self.inherited: dict[int, tuple[str, str]] = {}

    def start(self, spec: TrialSpec, folder: Path, function: Any = None) -> None:
        if spec.stage == "evolve":
            for name in (files.CHECKPOINT_FILE, files.INHERITED_FILE):
                if (folder / name).exists() and not (folder / "own").exists():
                    self.inherited[spec.number] = (name, (folder / name).read_text())
        super().start(spec, folder, function)

    def _end(self, spec: TrialSpec, folder: Path, result: TrialResult) -> Any:
        if result.outcome in (Outcome.PAUSED, Outcome.COMPLETE):
            (folder / "own").touch()
            (folder / files.CHECKPOINT_FILE).unlink(missing_ok=True)
            (folder / files.CHECKPOINT_FILE).write_text(f"of {spec.number}")
        return super()._end(spec, folder, result)


def evolved(folder: Path, executor: FakeExecutor | None = None, **changes: Any) -> Any:
    return run_study(folder, executor or Leaving(), **{**POPULATION, **changes})


def tree(summary: Any) -> list[tuple[Any, ...]]:
    return [(run.number, run.descent, dict(run.params), run.seed, run.curve) for run in summary.stage("evolve")]


def breeding(evolution: Evolution, seed: int = 3) -> Breeding:
    space = Space.from_config({"optimizer": {"learning_rate": {"low": 1e-5, "high": 1.0, "log": True}}}, CONFIG_8)
    return Breeding(space, space.parameters, evolution, seed)


def standings(*scores: float | None) -> list[Standing]:
    return [Standing({"optimizer.learning_rate": 10.0 ** -(1 + member)}, score) for member, score in enumerate(scores)]


def test_the_lowest_quarter_copies_the_highest_and_moves_by_a_factor() -> None:
    now = standings(5.0, 1.0, 7.0, 3.0, 8.0, 2.0, 6.0, 4.0)
    found = breeding(Evolution(explore="perturb", resampled=0.0)).next(2, now)
    copied = {one.member: one.parent for one in found if one.parent != one.member}
    assert set(copied) == {1, 5}
    assert set(copied.values()) <= {2, 4}
    for one in found:
        factor = one.drawn["optimizer.learning_rate"] / now[one.parent].drawn["optimizer.learning_rate"]  # type: ignore[operator]
        assert (
            factor == (pytest.approx(0.8) if factor < 1 else pytest.approx(1.25))
            if one.member in copied
            else factor == 1
        )


def test_what_is_decided_follows_from_scores_generation_member_and_seed_alone() -> None:
    now = standings(5.0, 1.0, 7.0, 3.0, 8.0, 2.0, 6.0, 4.0)
    evolution = Evolution()
    assert breeding(evolution).next(2, now) == breeding(evolution).next(2, now)
    assert breeding(evolution).next(2, now) != breeding(evolution).next(3, now)
    assert breeding(evolution).founder(0) == breeding(evolution).founder(0) != breeding(evolution).founder(1)
    assert breeding(evolution, seed=4).founder(0) != breeding(evolution).founder(0)


def test_nobody_is_compared_before_the_second_generation_is_over_but_a_failed_member_is_replaced() -> None:
    found = breeding(Evolution()).next(1, standings(5.0, None, 7.0, 3.0))
    assert {one.member: one.parent for one in found if one.parent != one.member} == {1: 2}


def test_equal_scores_copy_nothing() -> None:
    found = breeding(Evolution()).next(2, standings(*[9.0] * 8))
    assert all(one.parent == one.member for one in found)


def test_patient_members_are_copied_by_hasty_ones_and_never_copy_from_these() -> None:
    evolution = Evolution(generations=8, frequencies=(1, 4))  # even members are hasty, odd ones patient
    scores = (1.0, 9.0, 2.0, 3.0, 5.0, 4.0, 6.0, 8.0)
    hasty = {
        one.member: one.parent for one in breeding(evolution).next(3, standings(*scores)) if one.parent != one.member
    }
    assert set(hasty) == {0}
    for seed in range(20):
        both = breeding(evolution, seed).next(4, standings(20.0, 9.0, 30.0, 3.0, 40.0, 4.0, 1.0, 8.0))
        parents = {one.member: one.parent for one in both if one.parent != one.member}
        assert parents[3] == 1, "the best patient one, though three hasty ones are better"
        assert set(parents) == {3, 6}


def test_ranges_hold_and_whole_numbers_move() -> None:
    tree = {
        "buffer": {
            "batch_size": {"low": 16, "high": 256, "transform": "power_of_two"},
            "train_freq": {"low": 1, "high": 9},
        },
        "agent": {"gamma": {"low": 0.9, "high": 0.9999, "transform": "one_minus"}},
    }
    batch, freq, gamma = (
        next(one for one in Space.from_config(tree, CONFIG_8).parameters if one.path == path)
        for path in ("buffer.batch_size", "buffer.train_freq", "agent.gamma")
    )
    rngs = [np.random.default_rng(seed) for seed in range(20)]
    assert {moved(batch, 6, rng) for rng in rngs} == {5, 7}
    assert {moved(batch, 8, rng) for rng in rngs} == {7, 8}
    assert {moved(freq, 2, rng) for rng in rngs} == {1, 3}
    horizons = {round(float(moved(gamma, 0.01, rng)), 6) for rng in rngs}  # type: ignore[arg-type]
    assert horizons == {0.008, 0.0125}
    ends = sorted({round(float(moved(gamma, 0.1, rng)), 6) for rng in rngs})  # type: ignore[arg-type]
    assert ends == [0.08, 0.1], "not 0.125, which is outside"


def test_a_schedule_holds_what_changed_and_from_where() -> None:
    config, space = CONFIG_8, definition(Path(), config=CONFIG_8).space
    values = [
        {"optimizer.learning_rate": rate, "agent.gamma": 0.9, "buffer.batch_size": 32} for rate in (0.1, 0.1, 0.2)
    ]
    assert schedule_of(values, space, config, 4) == {"learning_rate": [[400.0, 0.2]]}
    assert set(knobs(space, config)) == {"learning_rate", "gamma", "batch_size"}
    assert set(knobs(space, {**config, "schedule": {"learning_rate": {}}})) == {"gamma", "batch_size"}
    memory = {"_target_": "note_rl.settings.recurrent_network"}
    assert set(knobs(space, {**config, "network": memory})) == {"learning_rate", "gamma"}


def test_what_cannot_change_while_an_agent_trains_is_no_knob() -> None:
    """`alpha` in a schedule is the exponent of priorities, and some numbers are read only when the agent is made."""
    agent = {"_target_": "note_rl.agents.pytorch.SAC", "alpha": 0.2, "critic_dropout": 0.1, "tau": 0.01}
    tree = {"agent": {name: {"low": 0.01, "high": 0.5} for name in ("alpha", "critic_dropout", "tau")}}
    config = {**CONFIG_8, "agent": agent}
    assert set(knobs(Space.from_config(tree, config), config)) == {"tau"}
    annealed = {**CONFIG_8, "buffer": {"priority": {"alpha": 0.6, "beta": 0.4}}}  # beta rises to 1 by itself
    tree = {"buffer": {"priority": {name: {"low": 0.1, "high": 0.9} for name in ("alpha", "beta")}}}
    assert set(knobs(Space.from_config(tree, annealed), annealed)) == {"alpha"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    executor = Leaving(parallel=3)
    return evolved(folder, executor), executor


def test_every_generation_goes_on_from_where_it_was_paused(whole: Any) -> None:
    summary, executor = whole
    runs: tuple[RunRecord, ...] = summary.stage("evolve")
    assert len(runs) == 8 * GENERATIONS
    for run in runs:
        assert run.descent is not None
        last = run.descent.generation == GENERATIONS - 1
        assert run.outcome is (Outcome.COMPLETE if last else Outcome.PAUSED)
        assert [step for step, _ in run.curve] == [point / 8 for point in range(1, 2 * run.descent.generation + 3)], (
            "the reports of all generations before are there"
        )
        if run.descent.generation:
            parent = runs[run.descent.parent]  # type: ignore[index]
            assert parent.descent is not None
            assert parent.descent.generation == run.descent.generation - 1
            copied = parent.descent.member != run.descent.member
            name = files.INHERITED_FILE if copied else files.CHECKPOINT_FILE
            assert executor.inherited[run.number] == (name, f"of {parent.number}")
            assert (dict(parent.params) == dict(run.params)) is not copied
    assert any(run.descent and run.descent.parent != run.number - 8 for run in runs if run.number >= 8), "some copied"


def test_trackers_get_the_place_of_a_run_in_the_tree(tmp_path: Path) -> None:
    tracker = FakeTracker()
    listener = TrackingListener(tracker, "study", 900, tmp_path / "study")
    runs = evolved(tmp_path, listener=listener).stage("evolve")
    told = [run.info for run in tracker.runs if run.info.job_type == "evolve"]
    assert [info.config["population"] for info in told] == [asdict(run.descent) for run in runs]
    assert told[8].name == "evolve/8 (member 0, generation 1)"
    assert told[8].tags == ("evolve", "trial 8", "member 0")
    assert told[8].part.whole.name == "member 0"
    assert told[8].part.whole.folder == told[0].part.whole.folder != told[1].part.whole.folder
    assert told[8].part.begins_with == {
        "population/generation": 1,
        "population/parent": runs[8].descent.parent,
        **{f"population/{path}": value for path, value in runs[8].params.items()},
    }
    assert all("population" not in run.info.config for run in tracker.runs if run.info.job_type != "evolve")


def test_states_that_nobody_goes_on_from_are_removed(whole: Any) -> None:
    for run in whole[0].stage("evolve"):
        kept = (Path(run.folder) / files.CHECKPOINT_FILE).exists()
        assert kept == (run.descent.generation == GENERATIONS - 1)


def test_what_never_changed_is_chosen_by_the_longest_that_members_kept_it(tmp_path: Path) -> None:
    """Worked out from the records alone: who descends from whom with the values of the first generation."""
    summary = evolved(tmp_path, seed=3, search=Evolution(generations=8))
    runs = {run.number: run for run in summary.stage("evolve")}
    founders: dict[int, int] = {}  # of runs whose line has never changed
    kept: dict[int, tuple[int, float]] = {}
    for number, run in sorted(runs.items()):
        parent = run.descent.parent
        if parent is None:
            founders[number] = number
        elif parent in founders and dict(run.params) == dict(runs[parent].params):
            founders[number] = founders[parent]
        if number in founders:
            founder, now = founders[number], (run.descent.generation, run.value)
            kept[founder] = max(kept.get(founder, now), now)
    best = max(kept, key=lambda founder: kept[founder])
    assert 0 < kept[best][0] < 7, "none was kept to the end, and some for more than a generation"
    assert best != max((run for run in runs.values() if not run.descent.generation), key=lambda run: run.value).number
    assert STATIC.of(summary) == f"trial {best}"


def test_the_winner_is_a_schedule_that_is_replayed_from_scratch(whole: Any) -> None:
    summary, executor = whole
    tested = {run.label for run in summary.stage("test")}
    assert tested == {summary.winner_label, STATIC.of(summary), "default"}
    replays = [spec for spec in executor.started if spec.stage == "test" and "adaptive" in spec.config]
    assert len(replays) == 1
    replay = replays[0]
    winner = next(run for run in summary.stage("evolve") if run.label == summary.winner_label)
    line = [winner]
    while line[0].descent.parent is not None:
        line.insert(0, summary.stage("evolve")[line[0].descent.parent])
    assert replay.config["optimizer"]["learning_rate"] == line[0].params["optimizer.learning_rate"]
    for generation, run in enumerate(line):
        middle = (generation + 0.5) / GENERATIONS
        assert rate_at(replay.config, middle) == run.params["optimizer.learning_rate"]
    score = {run.label: run.value for run in summary.stage("test")}
    assert score[summary.winner_label] > score["default"]


def test_a_population_counts_as_much_as_whole_runs_of_its_members(whole: Any) -> None:
    evolve = next(cost for cost in costs(whole[0]) if cost.stage == "evolve")
    assert evolve.env_steps == 8 * 800


@pytest.mark.parametrize(
    "die_after", [24, *(pytest.param(moment, marks=pytest.mark.slow) for moment in (0, 12, 2 * 8 * GENERATIONS))]
)
def test_killed_at_any_moment_it_is_the_same_tree(whole: Any, tmp_path: Path, die_after: int) -> None:
    with pytest.raises(ControllerDied):
        evolved(tmp_path, Leaving(parallel=3, die_after=die_after))
    with pytest.raises(ControllerDied):
        evolved(tmp_path, Leaving(parallel=2, die_after=11))
    assert by_place(evolved(tmp_path, Leaving(parallel=1))) == by_place(whole[0])


def by_place(summary: Any) -> dict[tuple[int, int], tuple[Any, ...]]:
    """By member and generation, whatever order the runs were started in: the parent's place, values and curve."""
    runs = summary.stage("evolve")
    places = {run.number: (run.descent.member, run.descent.generation) for run in runs}
    return {places[run.number]: (places.get(run.descent.parent), dict(run.params), run.seed, run.curve) for run in runs}


def test_a_member_that_fails_is_replaced_by_a_copy_of_a_good_one(tmp_path: Path) -> None:
    class Failing(Leaving):
        def _play(self, spec: TrialSpec, folder: Path, script: Script) -> Any:
            broken = spec.stage == "evolve" and spec.number == 2
            result = TrialResult(Outcome.DIVERGED, "too high a rate", seconds=1.0)
            return super()._play(spec, folder, Script(script.curve[:1], result) if broken else script)

    summary = evolved(tmp_path, Failing())
    runs = summary.stage("evolve")
    assert runs[2].outcome is Outcome.DIVERGED
    heir = next(run for run in runs if run.descent.generation == 1 and run.descent.member == 2)
    assert heir.descent.parent != 2
    assert heir.outcome is Outcome.PAUSED


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_trials": 3}, "at least 4 are needed"),
        ({"search": Evolution(generations=4, frequencies=(1, 3)), "num_trials": 6}, "at least 8 are needed"),
        ({"search": Evolution(generations=5)}, "must be a multiple of study.evolution.generations=5.*: 10 is"),
        ({"space": {"buffer": {"train_freq": {"low": 1, "high": 9}}}}, "nothing of this space can change"),
        ({"config": {**CONFIG_8, "training": {"total_steps": 12}}}, "at least 16 are needed"),
        ({"config": {**CONFIG_8, "adaptive": {"mode": "control"}}}, "adaptive, which must be off"),
        (
            {
                "config": {
                    **CONFIG_8,
                    "buffer": CONFIG_8["buffer"] | {"capacity": 9},
                    "checkpoint": {"save_replay": False},
                }
            },
            r"would begin with an empty replay buffer: type checkpoint\.save_replay=true$",
        ),
        ({"num_race_seeds": 1}, "study.num_race_seeds has no meaning"),
    ],
)
def test_what_makes_no_population_is_refused(tmp_path: Path, changes: JsonDict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_definition(definition(tmp_path, **{**POPULATION, **changes}))


def test_a_rollout_needs_no_replay_buffer_in_its_checkpoints(tmp_path: Path) -> None:
    check_definition(definition(tmp_path, **{**POPULATION, "config": {**CONFIG_8, "checkpoint": NO_POOL}}))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"generations": 2}, "at least 3"), ({"share": 0.6}, "at most 0.5"), ({"frequencies": (1, 1)}, "different"),
     ({"frequencies": (9,)}, "from 1 to 7"), ({"resampled": 1.5}, "between 0 and 1")],
)  # fmt: skip
def test_so_are_sizes_that_make_no_evolution(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Evolution(**options)


def test_a_population_cannot_go_on_with_other_sizes(tmp_path: Path) -> None:
    evolved(tmp_path)
    with pytest.raises(UserError, match="evolution was"):
        evolved(tmp_path, search=replace(POPULATION["search"], share=0.5))
    with StudyStore(journal(tmp_path)) as store:
        attributes = store.require("study").get_trials()[-1].user_attrs
    assert (attributes["member"], attributes["generation"]) == (7, GENERATIONS - 1)


# Values from a model of what was gained


def parts(*told: tuple[int, float, float]) -> list[TrainedPart]:
    return [TrainedPart(generation, {"optimizer.learning_rate": rate}, gain) for generation, rate, gain in told]


def seeker(past: list[TrainedPart], generation: int, seed: int = 0) -> GainSeeker:
    space = Space.from_config({"optimizer": {"learning_rate": {"low": 1e-5, "high": 1.0, "log": True}}}, CONFIG_8)
    return GainSeeker(space.parameters, past, generation, seed)


def test_the_model_of_gains_is_the_textbook_s() -> None:
    """Posterior of a Gaussian process by its definition, with the inverse that nobody computes."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, 4, 9), rng.random((9, 2))])
    gains, new = rng.normal(size=9), np.array([[4.0, 0.3, 0.6], [1.0, 0.9, 0.1]])
    model = GainModel(where, gains)
    kernel = model._kernel

    def covariance(one: Any, other: Any) -> float:
        apart = float(np.square((one[1:] - other[1:]) / kernel.length).sum())
        return math.exp(-apart / 2.0) * (1.0 - kernel.forgetting) ** (abs(one[0] - other[0]) / 2.0)

    own = np.array([[covariance(a, b) for b in where] for a in where]) + kernel.noise * np.eye(9)
    across = np.array([[covariance(a, b) for b in new] for a in where])
    mean, deviation = model.predict(new)
    np.testing.assert_allclose(mean, across.T @ np.linalg.inv(own) @ gains, atol=1e-10)
    variance = 1.0 - np.diag(across.T @ np.linalg.inv(own) @ across)
    np.testing.assert_allclose(deviation, np.sqrt(variance), atol=1e-10)


def test_copies_go_where_the_gain_was_and_not_all_to_the_same_place() -> None:
    past = parts(*((0, 10.0**-power, -((power - 2.0) ** 2)) for power in np.linspace(0.0, 5.0, 11)))
    proposed = [math.log10(seeker(past, 1, seed).propose(0)["optimizer.learning_rate"]) for seed in range(5)]  # type: ignore[arg-type]
    assert all(-2.5 < power < -1.5 for power in proposed)
    one = seeker(past, 1)
    first, second = (one.propose(member)["optimizer.learning_rate"] for member in (0, 1))
    assert first != second
    assert seeker(past, 1).propose(0)["optimizer.learning_rate"] == first


def test_what_was_best_long_ago_counts_for_less() -> None:
    """The best rate moves by half a decade in each generation."""
    past = parts(
        *((g, 10.0**-power, -((power - 1.0 - 0.5 * g) ** 2)) for g in range(7) for power in np.linspace(0.0, 5.0, 6))
    )
    proposed = [-math.log10(seeker(past, 7, seed).propose(0)["optimizer.learning_rate"]) for seed in range(5)]  # type: ignore[arg-type]
    assert all(power > 3.0 for power in proposed), "over all generations, 2.5 was best"


def test_a_part_s_gain_is_its_score_less_that_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, list[TrainedPart]] = {}
    plain = Breeding.next

    def listen(self: Breeding, generation: int, standings: Any, past: Any = ()) -> Any:
        told.setdefault(generation, list(past))
        return plain(self, generation, standings, past)

    monkeypatch.setattr(Breeding, "next", listen)
    summary = evolved(tmp_path, search=Evolution(generations=GENERATIONS))
    runs = {run.number: run for run in summary.stage("evolve")}
    expected = []
    for run in sorted(runs.values(), key=lambda one: (one.descent.generation, one.descent.member)):
        if run.descent.generation < 3:
            before = 0.0 if run.descent.parent is None else runs[run.descent.parent].value
            expected.append((run.descent.generation, dict(run.params)["optimizer.learning_rate"], run.value - before))
    assert [(one.generation, one.drawn["optimizer.learning_rate"], one.gain) for one in told[3]] == expected


@pytest.mark.parametrize("moment", [75, pytest.param(9, marks=pytest.mark.slow)])
def test_killed_at_any_moment_the_model_proposes_the_same(tmp_path: Path, moment: int) -> None:
    evolution = Evolution(generations=GENERATIONS)
    whole = evolved(tmp_path / "whole", search=evolution)
    with pytest.raises(ControllerDied):
        evolved(tmp_path / str(moment), Leaving(die_after=moment), search=evolution)
    again = evolved(tmp_path / str(moment), search=evolution)
    assert [(one[1], one[2]) for one in tree(again)] == [(one[1], one[2]) for one in tree(whole)]
    perturbed = evolved(tmp_path / "perturbed", search=Evolution(generations=GENERATIONS, explore="perturb"))
    assert [one[2] for one in tree(perturbed)] != [one[2] for one in tree(whole)]
