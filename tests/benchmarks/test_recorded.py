"""Landscapes that are made, kept and replayed: on one of a known function, and the recorded ones."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from optuna.samplers import RandomSampler

from tests.benchmarks import landscape, protocols
from tests.benchmarks.landscape import FOLDER, PAIRS, SEEDS, Landscape, Row, about, best, definition_of, make, point_of
from tests.benchmarks.protocols_pooled import pooled
from tests.benchmarks.recorded import Recorded, RecordedExecutor, Surrogate, matern, recorded
from tuner.errors import UserError
from tuner.results.metric import Final, Mixed
from tuner.study import StudyDefinition, StudyRunner, StudyStore
from tuner.study.space.space import Space

PAIR = "dqn-cartpole"


@pytest.fixture(scope="module")
def definition() -> StudyDefinition:
    return replace(definition_of(PAIRS[PAIR]), configure=None, probe=None)


def run(definition: StudyDefinition, configuration: int, seed: int) -> Row:
    """Curves that rise to a height, which falls with the distance of the rate from 1e-3 and differs between seeds."""
    point = point_of(definition, configuration)
    rate = point["optimizer.learning_rate"]
    assert isinstance(rate, float)
    height = 100.0 * math.exp(-(math.log10(rate / 1e-3) ** 2)) + 4.0 * (seed - 2.5)
    curve = tuple(float(np.float32(height * part / 9)) for part in range(1, 10))
    return Row(configuration, point, seed, curve, seconds=2.0, cpu_seconds=0.5)


@pytest.fixture(scope="module")
def known(definition: StudyDefinition) -> Landscape:
    return Landscape(about(definition), tuple(run(definition, one, seed) for one in range(40) for seed in SEEDS))


@pytest.fixture(scope="module")
def replayed(known: Landscape, definition: StudyDefinition) -> Recorded:
    return Recorded(known, definition)


def test_a_file_gives_back_what_was_written(known: Landscape, tmp_path: Path) -> None:
    diverged = replace(known.rows[0], curve=(9.5, *[None] * 8))
    kept = Landscape(known.about, (*known.rows[1:], diverged))
    kept.write(tmp_path / "one.parquet")
    assert Landscape.read(tmp_path / "one.parquet") == kept


def test_a_landscape_may_have_choices(definition: StudyDefinition) -> None:
    rate = {"low": 1e-5, "high": 1e-2, "log": True}
    tree = {"optimizer": {"learning_rate": rate}, "training": {"normalise_reward": {"choices": [False, True]}}}
    own = replace(definition, space=Space.from_config(tree, definition.config))
    points = [point_of(own, one) for one in range(1, 17)]
    heights = [90.0 if point["training.normalise_reward"] else 10.0 for point in points]
    rows = [
        Row(one, point, 1, 9 * (height,), 2.0, 0.5)
        for one, (point, height) in enumerate(zip(points, heights, strict=True))
    ]
    replayed = Recorded(Landscape(about(own), tuple(rows)), own)
    for choice, height in ((True, 90.0), (False, 10.0)):
        curve = replayed.curve({"optimizer.learning_rate": 3e-4, "training.normalise_reward": choice}, 2)
        assert curve == pytest.approx(9 * (height,), abs=5.0)


class Killed(BaseException):
    """Nothing here catches it."""


def test_what_is_made_is_made_once_whatever_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[int, int]] = []

    def train(definition: StudyDefinition, configuration: int, seed: int) -> Row:
        if seed:  # 0: to warm up
            began.append((configuration, seed))
            if len(began) in (3, 4, 9):
                raise Killed
        return run(definition, configuration, seed)

    monkeypatch.setattr(landscape, "train", train)
    for _ in range(3):
        with pytest.raises(Killed):
            make(PAIR, tmp_path, num_configurations=3)
    make(PAIR, tmp_path, num_configurations=3)
    found = [(row.configuration, row.seed) for row in Landscape.read(tmp_path / f"{PAIR}.parquet").rows]
    assert found == [(configuration, seed) for seed in SEEDS for configuration in range(3)]
    assert len(began) == 3 * len(SEEDS) + 3  # each of those that were killed once more, and no other
    with pytest.raises(SystemExit, match="other conditions"):
        make(PAIR, tmp_path, 3, ["training.total_steps=900"])


def test_the_best_are_printed_in_their_order(
    definition: StudyDefinition, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [run(definition, one, seed) for one in range(4) for seed in (1, 2)]
    diverged = replace(run(definition, 3, 3), curve=(50.0, *[None] * 8))
    Landscape(about(definition), (*rows, diverged)).write(tmp_path / f"{PAIR}.parquet")
    best([PAIR], tmp_path)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    heights = {one: run(definition, one, 1).curve[-1] + 2.0 for one in range(3)}  # seed 2 has 4 more
    order = sorted(range(3), key=lambda one: -heights[one])
    assert [line[1] for line in printed] == [f"{one or 'default'}:" for one in (*order, 3)]
    assert [line[7] for line in printed[:3]] == [f"{heights[one]:.0f}," for one in order]
    assert [line[11] for line in printed] == ["2", "2", "2", "3"]
    highest, middle, lowest = (heights[one] for one in order)
    worst = (lowest - middle) / (highest - middle)
    assert [line[3] for line in printed] == ["1.00,", "0.00,", f"{worst:.2f},", "-1.00,"]
    assert printed[3][5] == "-inf,"
    rate = next(word for line in printed if line[1] == "default:" for word in line if word.startswith("optimizer."))
    assert rate == f"optimizer.learning_rate={definition.config['optimizer']['learning_rate']:.4g}"
    Landscape({**about(definition), "total_steps": 7}, tuple(rows)).write(tmp_path / f"{PAIR}.parquet")
    with pytest.raises(SystemExit, match="other conditions"):
        best([PAIR], tmp_path)


def test_pairs_are_put_together_by_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curves = {"dqn-cartpole": (0.0, 10.0, 30.0), "dqn-acrobot": (-90.0, -80.0, -100.0)}
    for name, heights in curves.items():
        own = definition_of(PAIRS[name])
        rows = [Row(one, point_of(own, one), 1, (height,) * 9, 1.0, 1.0) for one, height in enumerate(heights)]
        Landscape(about(own), tuple(rows)).write(tmp_path / f"{name}.parquet")
    best([*curves], tmp_path)
    printed = capsys.readouterr().out.splitlines()
    # by hand: shares of (0, 10, 30) are -0.5, 0 and 1; of (-90, -80, -100) 0, 1 and -1
    assert [line.split(",")[0].split(maxsplit=1)[1] for line in printed] == [
        "1: share 0.50",
        "2: share 0.00",
        "default: share -0.25",
    ]
    assert "score 10, end 10, 1 CPU s, 1 seed; score -80, end -80, 1 CPU s, 1 seed: " in printed[0]
    Landscape(about(definition_of(PAIRS["ppo-acrobot"]))).write(tmp_path / "ppo-acrobot.parquet")
    with pytest.raises(SystemExit, match="dqn-cartpole, ppo-acrobot: these pairs have several search spaces"):
        best(["dqn-cartpole", "ppo-acrobot"], tmp_path)


def test_a_pair_of_fewer_runs_has_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landscape, "train", run)
    make("sac-pendulum", tmp_path)
    rows = Landscape.read(tmp_path / "sac-pendulum.parquet").rows
    assert [(row.configuration, row.seed) for row in rows] == [(one, seed) for seed in (1, 2) for one in range(61)]


@pytest.mark.parametrize("words", [["best"], ["best", "dqn"], ["dqn-cartpole", "dqn"]])
def test_a_pair_that_is_unknown_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="a PAIR is one of dqn-cartpole, "):
        landscape.main(words)


def test_a_real_run_is_evaluated_on_the_grid_of_a_trial() -> None:
    short = definition_of([*PAIRS[PAIR], "training.total_steps=90", "evaluation.num_episodes=1"])
    row = landscape.train(short, 0, seed=1)
    assert len(row.curve) == 9
    assert all(value is not None and 1.0 <= value <= 500.0 for value in row.curve)
    assert row.cpu_seconds > 0.0
    assert row.point["optimizer.learning_rate"] == short.config["optimizer"]["learning_rate"]


def test_recorded_runs_are_replayed_exactly(replayed: Recorded, known: Landscape) -> None:
    for row in known.rows[:8]:
        point = replayed._as_used(row.point)
        assert replayed.curve(point, row.seed) == row.curve
        others = {replayed.curve(point, seed) for seed in range(10, 60)}
        assert others == {one.curve for one in known.rows if one.configuration == row.configuration}


def test_between_recorded_runs_there_is_a_mean_and_its_noise(replayed: Recorded, definition: StudyDefinition) -> None:
    assert replayed.explained > 0.9  # the function is smooth
    new = run(definition, 1000, seed=0)
    height = new.curve[-1] + 10.0  # without what seed 0 adds
    possible = replayed.distribution(new.point)
    assert possible.shape == (12, 9)
    assert possible[:, -1].mean() == pytest.approx(height, abs=5.0)
    # seeds add 4 (-1.5, -.5, .5, 1.5): a sample of four whose unbiased variance is 80 / 3
    assert possible[:, -1].std() == pytest.approx(math.sqrt(80.0 / 3.0), rel=0.2)
    drawn = [replayed.curve(new.point, seed) for seed in range(10, 200)]
    assert set(drawn) == set(map(tuple, possible.tolist()))
    assert drawn[0] == replayed.curve(new.point, 10)


def test_errors_without_a_point_are_those_of_a_regression_without_it() -> None:
    rng = np.random.default_rng(0)
    points, curves = rng.random((12, 2)), rng.random((12, 3))
    surrogate = Surrogate(points, curves)
    settings = np.array([*surrogate._scales, surrogate._noise])
    errors = surrogate._left_out(settings)
    scaled, rest = points / settings[:-1], np.arange(12) != 4
    weights = np.linalg.solve(matern(scaled[rest], scaled[rest]) + settings[-1] * np.eye(11), surrogate._centred[rest])
    assert errors[4] == pytest.approx(surrogate._centred[4] - matern(scaled[4:5], scaled[rest])[0] @ weights)


def test_a_study_of_replayed_runs_scores_what_was_recorded(
    replayed: Recorded, definition: StudyDefinition, tmp_path: Path
) -> None:
    with StudyStore("memory") as store, RecordedExecutor(replayed) as executor:
        summary = StudyRunner(replace(definition, folder=tmp_path), store, executor, RandomSampler).run()
    assert summary.winner_label is not None
    default = definition.space.drawn(definition.config)
    for record in summary.stage("test", summary.default_label):
        assert any(record.score == pytest.approx(score) for score in replayed.scores(default, Mixed()))
    screened = summary.stage("screen", summary.winner_label)[0]
    values = definition.space.apply(definition.config, dict(screened.params))
    curve = replayed.curve(definition.space.drawn(values), screened.seed)
    assert screened.score == pytest.approx(Mixed()([((index + 1) / 9, value) for index, value in enumerate(curve)]))


def test_what_no_landscape_holds_is_refused(replayed: Recorded, definition: StudyDefinition, tmp_path: Path) -> None:
    other = definition.space.apply(definition.config, {"network.hidden_sizes": [8]})
    with pytest.raises(UserError, match="other settings were changed too"):
        replayed.point_of({**other, "seed": 1})
    with pytest.raises(UserError, match="no landscape dqn-moon"):
        RecordedExecutor.check("dqn-moon")
    Landscape({**about(definition), "total_steps": 1}).write(tmp_path / f"{PAIR}.parquet")
    with pytest.raises(UserError, match="made under other conditions"):
        recorded(PAIR, tmp_path, definition)


def test_a_plain_search_promises_the_best_of_what_it_saw(replayed: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols.Truth, "NUM_DRAWN", 400)  # of a smooth function
    monkeypatch.setattr(protocols.Truth, "GENERATIONS", 10)
    truth = protocols.Truth(replayed, Final())
    found = protocols.Plain(RandomSampler, metric=Final()).run(truth, budget=10, seed=3)
    assert found.num_screened == 10
    assert found.regret >= 0.0
    assert found.error == found.optimism <= truth.best
    assert protocols.Plain(RandomSampler, 3, Final()).run(truth, budget=10, seed=3).num_screened == 3


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    found = protocols.Found(1.0, 2.0, -3.0, 4)
    protocols.Kept(tmp_path / "kept", landscape=7)(("row", 1), lambda: found)
    assert protocols.Kept(tmp_path / "kept", landscape=7)(("row", 1), lambda: pytest.fail("done twice")) == found
    other = replace(found, regret=9.0)
    assert protocols.Kept(tmp_path / "kept", landscape=8)(("row", 1), lambda: other) == other


def test_landscapes_count_alike_where_rows_are_pooled() -> None:
    """Regrets 10 and 30 become 5 and 15, and 200 becomes 300 twice: a half less and a half more."""
    before = [[protocols.Found(regret, 4.0, 0.0, 1) for regret in row] for row in ((10.0, 30.0), (200.0, 200.0))]
    after = [[protocols.Found(regret, -2.0, 0.0, 1) for regret in row] for row in ((5.0, 15.0), (300.0, 300.0))]
    share, low, high, error = pooled(before, after)
    assert (share, error) == (pytest.approx(0.0), pytest.approx(0.5))
    assert low == pytest.approx((-0.75 + 0.5) / 2)  # the second repetition of the first landscape twice: -15 of 20
    assert high == pytest.approx((-0.25 + 0.5) / 2)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.parquet")), ids=lambda path: path.stem)
def test_recorded_landscapes_are_whole(path: Path) -> None:
    found = Landscape.read(path)
    assert len({(row.configuration, row.seed) for row in found.rows}) == len(found.rows) > 0
    assert all(len(row.curve) == found.about["num_points"] for row in found.rows)
    assert path.stat().st_size < 200_000
