"""Seeds, the rung gate, candidates, the winner, the plan."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.features.population.evolution import Evolution
from tuner.results.metric import Final
from tuner.results.protocol import (
    STREAMS,
    Pruning,
    StudySettings,
    comparison_seeds,
    decide_rungs,
    penalty,
    plan_stages,
    sampler_seed,
    seed_stream,
    stage_seeds,
)
from tuner.results.records import RunRecord
from tuner.trial.messages import Outcome


def run(number: int, value: float | None, stage: str = "screen", label: str = "", **changes: object) -> RunRecord:
    fields: dict[str, object] = {"outcome": Outcome.COMPLETE, "seed": 0, "params": {}, **changes}
    return RunRecord(number=number, stage=stage, label=label or f"trial {number}", value=value, **fields)  # type: ignore[arg-type]


def test_comparisons_have_seeds_of_no_study() -> None:
    """Not by luck: those of studies stay below where these begin, whatever the seed of either."""
    found = comparison_seeds(0, 2000)
    assert len(set(found)) == 2000
    assert found[:5] == comparison_seeds(0, 5)
    assert found[:5] != comparison_seeds(1, 5)
    assert min(found) >= 3 * 2**29
    assert max(found) < 2**31
    assert max(max(seed_stream(seed, stream, 2000)) for seed in range(3) for stream in STREAMS) < 3 * 2**29
    with pytest.raises(UserError, match="seed=-1 must not be negative"):
        comparison_seeds(-1, 1)


def test_the_seed_streams_are_disjoint() -> None:
    for study_seed in (0, 1, 2**40):
        streams = [set(seed_stream(study_seed, stream, 500)) for stream in STREAMS]
        assert all(len(stream) == 500 for stream in streams)
        assert len(set().union(*streams)) == 1500
        assert all(0 <= seed < 2**31 for stream in streams for seed in stream)


def test_more_seeds_begin_with_the_same_ones() -> None:
    assert seed_stream(7, "test", 10)[:5] == seed_stream(7, "test", 5)
    assert seed_stream(7, "test", 5) != seed_stream(8, "test", 5)


def test_stages_draw_from_their_own_streams() -> None:
    assert stage_seeds(3, "screen", 1) == seed_stream(3, "tune", 1)
    assert stage_seeds(3, "race", 4) == seed_stream(3, "tune", 5)[1:]
    assert stage_seeds(3, "race", 4)[:2] == stage_seeds(3, "race", 2)
    assert stage_seeds(3, "confirm", 2) == seed_stream(3, "select", 2)
    assert stage_seeds(3, "test", 5) == seed_stream(3, "test", 5)


def test_a_negative_study_seed_is_refused() -> None:
    with pytest.raises(UserError, match="seed=-1 must not be negative"):
        seed_stream(-1, "tune", 1)


def test_a_continued_study_has_another_sampler_seed() -> None:
    seeds = {sampler_seed(0, num_trials) for num_trials in range(50)}
    assert len(seeds) == 50
    assert sampler_seed(0, 3) == sampler_seed(0, 3)
    assert not seeds & {sampler_seed(1, num_trials) for num_trials in range(50)}


def curves(rungs: list[float], finals: list[float]) -> list[RunRecord]:
    """Runs of three evaluations: at 1/3 the rung's value, in the end the final one."""
    return [
        run(number, final, curve=((1 / 3, rung), (2 / 3, 0.0), (1.0, final)))
        for number, (rung, final) in enumerate(zip(rungs, finals, strict=True))
    ]


GATE = Pruning(rungs=(1 / 3,), min_trials=4, min_rank_agreement=0.6, min_rank_bound=-1.0)


@pytest.mark.parametrize(
    ("rungs", "agreement", "enabled"),
    [
        ([1.0, 2.0, 3.0, 4.0], 1.0, True),
        ([1.0, 2.0, 4.0, 3.0], 0.8, True),
        ([2.0, 1.0, 4.0, 3.0], 0.6, True),
        ([2.0, 3.0, 1.0, 4.0], 0.4, False),
        ([4.0, 3.0, 2.0, 1.0], -1.0, False),
    ],
)
def test_a_rung_is_used_where_ranks_agree(rungs: list[float], agreement: float, enabled: bool) -> None:
    decisions = decide_rungs(GATE, 3, Final(), curves(rungs, [10.0, 20.0, 30.0, 40.0]))
    assert decisions is not None
    (decision,) = decisions
    assert decision.agreement == pytest.approx(agreement)
    assert decision.enabled is enabled
    assert (decision.point, decision.fraction) == (1, 1 / 3)


def test_an_agreement_that_may_be_luck_is_not_relied_on() -> None:
    finals = [10.0, 20.0, 30.0, 40.0]
    (decision,) = (
        decide_rungs(replace(GATE, min_rank_bound=0.3), 3, Final(), curves([2.0, 1.0, 4.0, 3.0], finals)) or ()
    )
    assert decision.agreement == pytest.approx(0.6)
    assert decision.bound < 0.3
    assert not decision.enabled
    (sure,) = decide_rungs(replace(GATE, min_rank_bound=0.3), 3, Final(), curves([1.0, 2.0, 3.0, 4.0], finals)) or ()
    assert (sure.bound, sure.enabled) == (1.0, True)


def test_a_rung_at_which_all_score_the_same_is_not_used() -> None:
    decisions = decide_rungs(GATE, 3, Final(), curves([9.0] * 4, [10.0, 20.0, 30.0, 40.0]))
    assert decisions is not None
    assert math.isnan(decisions[0].agreement)
    assert not decisions[0].enabled


def test_nothing_is_decided_on_too_few_complete_runs() -> None:
    runs = curves([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0])
    pruned = run(4, 5.0, outcome=Outcome.PRUNED, curve=((1 / 3, 5.0),))
    diverged = run(5, -7.0, outcome=Outcome.DIVERGED, curve=((1 / 3, 9.0),))
    assert decide_rungs(GATE, 3, Final(), [*runs[:3], pruned, diverged]) is None
    assert decide_rungs(GATE, 3, Final(), [*runs, pruned, diverged]) is not None


def test_rungs_stand_for_the_nearest_evaluation_and_never_for_the_last() -> None:
    assert Pruning(rungs=(0.11, 0.33)).points(9) == (1, 3)
    assert Pruning(rungs=(0.11, 0.33)).points(20) == (2, 7)
    assert Pruning(rungs=(0.11, 0.33)).points(2) == (1,)
    assert Pruning(rungs=(0.9,)).points(3) == ()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rungs": (0.0,)}, r"study.pruning.rungs=\(0.0,\) is not possible: it must be above 0 and below 1"),
        ({"rungs": (1.0,)}, "it must be above 0 and below 1"),
        ({"min_trials": 2}, "must be at least 3: ranks of fewer"),
        ({"min_rank_agreement": 1.5}, "must lie between -1 and 1"),
        ({"min_rank_bound": -2}, "study.pruning.min_rank_bound=-2 is not possible: it must lie between -1 and 1"),
    ],
)
def test_pruning_that_makes_no_sense_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        Pruning(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_trials": 0},
        {"num_candidates": 0},
        {"num_test_seeds": 1.5},
        {"retries": -1},
        {"steps_per_second": 0.0},
        {"max_env_steps": 0},
        {"num_race_seeds": -1},
        {"num_race": 1},
        {"over_seeds": "median"},
    ],
)
def test_sizes_that_make_no_study_are_refused(changes: dict[str, object]) -> None:
    (key,) = changes
    with pytest.raises(UserError, match=f"study.{key}="):
        StudySettings(**changes)  # type: ignore[arg-type]


def test_the_penalty_is_the_lower_of_random_and_worst() -> None:
    assert penalty(9.0, [20.0, 30.0]) == 9.0
    assert penalty(9.0, [5.0, math.nan, -math.inf]) == 5.0
    assert penalty(None, [20.0, 5.0]) == 5.0
    assert penalty(None, []) is None


@pytest.mark.parametrize(
    ("random_score", "finished", "seen", "expected"),
    [
        (None, [20.0, 5.0, -1.7e308], [], 5.0),  # an overflow is no score
        (9.0, [20.0, 500.0, -1.7e308], [], 9.0),
        (None, [-1.7e308], [], None),
        (None, [], [-1.7e308], None),
        (None, [-1.7e308, 1.7e308], [-3.0], -3.0),
        (None, [100.0, 110.0, 120.0, -1e30], [], 110.0 - 100 * 110.0),  # one on its way to infinity
        (None, [100.0, 110.0, 120.0], [-1e30], 110.0 - 100 * 110.0),  # of a failed run itself
        (None, [-1e30, 100.0], [], 100.0 - 100 * 100.0),
        (0.0, [0.0, 0.0, 0.0], [-5.0], -5.0),
        (-200.0, [-200.0] * 8 + [-110.0], [-350.0], -350.0),
        (-1200.0, [-150.0, -160.0, -900.0, -1600.0], [-1700.0], -1700.0),
        (None, [50.0, 120.0, 250.0, -3000.0], [], -3000.0),
        (None, [0.5, 0.6, 0.7, 0.0], [-1.0], -1.0),
    ],
)
def test_the_penalty_is_the_worst_but_nothing_absurd(
    random_score: float | None, finished: list[float], seen: list[float], expected: float | None
) -> None:
    assert penalty(random_score, finished, seen) == expected


@given(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=20), st.floats(allow_nan=True, allow_infinity=True))
def test_no_single_score_moves_the_penalty_out_of_sight(scores: list[float], odd: float) -> None:
    told = penalty(None, [*scores, odd])
    assert told is not None
    assert -1e4 - 100 * 2e4 <= told <= 1e4


def test_the_plan_counts_runs_and_steps() -> None:
    settings = StudySettings(num_trials=24, num_candidates=3, num_select_seeds=2, num_test_seeds=5)
    plans = {plan.stage: plan for plan in plan_stages(settings, 0, 30_000)}
    assert [plans[stage].num_runs for stage in ("screen", "confirm", "test")] == [24, 6, 10]
    assert [plans[stage].env_steps for stage in ("screen", "confirm", "test")] == [720_000, 180_000, 300_000]
    assert plans["test"].seeds == stage_seeds(0, "test", 5)


@pytest.mark.parametrize(
    ("settings", "num_entrants"),
    [
        ({"num_trials": 24}, 5),
        ({"num_trials": 25}, 5),
        ({"num_trials": 100}, 8),
        ({"num_trials": 100, "num_race": 12}, 12),
        ({"num_trials": 9, "num_candidates": 5}, 5),
        ({"num_trials": 3, "num_race": 4}, 3),
        ({"num_trials": 2}, 2),
    ],
)
def test_the_race_is_of_the_square_root_of_all_trials(settings: dict[str, int], num_entrants: int) -> None:
    assert StudySettings(**settings).num_entrants == num_entrants  # type: ignore[arg-type]


def test_a_race_of_fewer_than_will_be_confirmed_is_refused() -> None:
    with pytest.raises(UserError, match=r"study.num_race=2 must not be below study.num_candidates=3"):
        StudySettings(num_race=2, num_race_seeds=1)
    assert StudySettings(num_race=2, num_race_seeds=0).num_race_seeds == 0


def test_a_race_is_part_of_the_plan() -> None:
    settings = StudySettings(num_trials=100, num_race_seeds=3, num_candidates=5, num_select_seeds=5, num_test_seeds=10)
    plans = plan_stages(settings, 0, 1000)
    assert [(plan.stage, plan.num_runs) for plan in plans] == [
        ("screen", 100),
        ("race", 24),
        ("confirm", 25),
        ("test", 20),
    ]
    seeds = [set(plan.seeds) for plan in plans]
    assert len(set.union(*seeds)) == 1 + 3 + 5 + 10


@pytest.mark.parametrize("sizes", [{"num_trials": 3}, {"num_trials": 9}, {"num_trials": 24, "num_race": 3}])
def test_there_is_no_race_of_no_more_than_are_confirmed(sizes: dict[str, int]) -> None:
    settings = StudySettings(num_race_seeds=2, num_candidates=3, **sizes)  # type: ignore[arg-type]
    assert settings.num_raced == 0
    assert [plan.stage for plan in plan_stages(settings, 0, 1000)] == ["screen", "confirm", "test"]


@pytest.mark.parametrize("bound", [{"budget": 60.0}, {"max_env_steps": 10**6}])
def test_a_population_has_no_budget(bound: dict[str, float]) -> None:
    with pytest.raises(UserError, match="ends a search that may end anywhere"):
        Evolution().check(StudySettings(num_trials=8, **bound))  # type: ignore[arg-type]
