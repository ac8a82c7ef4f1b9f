"""Input that nobody would type and files that nobody would write: words, never a traceback, and nothing destroyed.

The long version with the same generators is `python -m tests.benchmarks.fuzz_input 10000 500`.
"""

import contextlib
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf

from tests.fuzzing.answers import check_and_use, names_the_key
from tests.fuzzing.composing import hydra_alone
from tests.fuzzing.damage import DAMAGES, READERS, Case, some_cases, try_case
from tests.fuzzing.lines import STARTS, keys_of, some_lines
from tests.fuzzing.world import LINES, make_world
from tests.tuner.command_line import CommandLine
from tuner.commands import COMMANDS
from tuner.commands.study_from_config import define
from tuner.config.composition import compose, conf_folder, config_loader
from tuner.results.protocol import StudySettings
from tuner.runs.config_checks import resolve

SEED = 20_26
SEED_OF_LINES = 20_41
NUM_EXPERIMENTS = len(list((conf_folder() / "experiment").glob("*.yaml")))
_CHEAP = ("trained/config", "trained/checkpoint", "trained/history", "studies.db", "studies/small")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A trained run and a study."""
    folder, before = tmp_path_factory.mktemp("world"), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(StringIO()):
            make_world(folder, ("train", "tune"))
        yield folder
    finally:
        os.chdir(before)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_lines_are_accepted_and_usable_or_refused_in_words(
    world: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.chdir(world)
    kinds: Counter[str] = Counter()
    failures = []
    for line in list(some_lines(SEED_OF_LINES, 24))[12 * part : 12 * part + 12]:
        answer = check_and_use(line)
        kinds[answer.kind] += 1
        if not (answer.good and names_the_key(answer, line)):
            failures.append(f"{line}\n{answer.text}")
    assert not failures, "\n\n".join(failures)
    assert kinds["accepted"] > 0  # or the lines would be nothing but nonsense
    assert kinds["refused"] > 4


def test_damaged_files_are_reported_and_left_alone(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = tuple(path for path in READERS if path.startswith(_CHEAP))
    failures = []
    for case in some_cases(SEED, 4, paths):
        outcome = try_case(case, world, tmp_path)
        if outcome.complaints:
            failures.append(f"{case}: {', '.join(outcome.complaints)}\n{outcome.said}")
    assert not failures, "\n\n".join(failures)


def test_composing_quickly_composes_the_same() -> None:
    starts = [(command, start) for command, starts in STARTS.items() for start in starts[:1]]
    lines = [(command, [*start, "hydra.job.name=x"]) for command, start in starts]
    with hydra_alone():
        slowly = [compose(config_loader(), command, overrides) for command, overrides in lines]
    for (command, overrides), expected in zip(lines, slowly, strict=True):
        for _ in range(2):
            found = compose(config_loader(), command, overrides)
            assert OmegaConf.to_yaml(found) == OmegaConf.to_yaml(expected)  # == resolves, ${now:...} too


def test_composing_quickly_sees_every_change(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    own = tmp_path / "env" / "mine.yaml"

    def found(*overrides: str) -> object:
        env = compose(config_loader(tmp_path), "train", ["env=mine", *overrides]).env
        return env.id, env.get("num_envs")

    own.write_text("id: A\n")
    assert [found() for _ in range(2)] == [("A", None)] * 2
    own.write_text("id: B\n")
    assert found() == ("B", None)
    own.write_text("id: B\nnum_envs: 1\n")
    assert found("env.num_envs=3", "env={num_envs:4}") == ("B", 4)
    assert found("env={num_envs:4}", "env.num_envs=3") == ("B", 3)
    own.unlink()
    with pytest.raises(MissingConfigException):
        found()


def test_every_group_and_section_is_among_the_keys() -> None:
    keys = keys_of("tune", ())
    assert {"study", "sampler", "pruner", "executor", "storage", "space", "evaluation", "backend", "env"} <= set(keys)
    assert {"study.pruning.rungs", "sampler.n_startup_trials", "executor.limits.wall_s", "plan"} <= set(keys)


def test_a_study_may_be_called_by_a_number(tuner: CommandLine) -> None:
    overrides = ("study.name=2024", "agent=synthetic", "executor=inline")
    checked = COMMANDS["tune"].checked(overrides)
    assert resolve(checked.config)["study"]["name"] == "2024"
    assert define(checked.config, overrides).name == "2024"


def test_what_is_taken_away_of_a_study_is_as_it_is_by_default(tuner: CommandLine) -> None:
    taken = ("~study.size", "~study.pruning", "~study.num_trials", "~study.over_seeds", "~warm_start", "~plan")
    overrides = (*taken, "agent=synthetic", "executor=inline")
    config = COMMANDS["tune"].checked(overrides).config
    assert config.plan is False
    definition = define(config, overrides)
    settings, default = definition.settings, StudySettings()
    for name in ("num_trials", "over_seeds", "pruning"):
        assert getattr(settings, name) == getattr(default, name)
    changed = [f"default with agent.activation={name}" for name in ("tanh", "sigmoid")]
    assert list(definition.warm_start) == ["default", *changed]


MISTAKES = {
    "~sampler": ("tune", "there is no sampler, and tune needs one: choose sampler=brute_force, cmaes"),
    "~space": ("tune", "there is no space, and tune needs one: choose space=a2c"),
    "~study": ("tune", "there is no study, and tune needs one: choose study=full, pbt, quick"),
    "~storage": (
        "dashboard",
        "there is no storage, and dashboard needs one: choose storage=journal, memory, postgres, sqlite",
    ),
    "~backend": ("train", "there is no backend, and train needs one: choose backend=keras, torch"),
    "~training": ("train", "there is no training, and train needs one: leave ~training out"),
    "~evaluation.num_points": ("train", "evaluation.num_points is missing, and evaluation needs it"),
    "~num_episodes": ("play", "num_episodes is missing: type num_episodes=..."),
    "~study.name": ("tune", "~study.name removes nothing: study.name is null already; leave ~study.name out"),
    "study.folder=null": ("tune", "study.folder=null must be a word"),
    "study.name=a/b": ("tune", "study.name=a/b is not possible: it must be a plain name"),
    "study.pruning=yes": ("tune", "study.pruning=yes must be a group of settings"),
    "study.pruning.rungs=0.5": ("tune", "study.pruning.rungs=0.5 must be a list of numbers such as [0.9, 0.99]"),
    "study.over_seeds=[]": ("tune", "study.over_seeds=[] must be a word"),
    "study.metric=[]": ("tune", "study.metric= is unknown"),
    "study.num_trials=1e400": ("tune", "study.num_trials=inf must be a whole number"),
    "study.budget=soon": ("tune", "study.budget=soon is no duration: write 45s, 90min, 2h, 1h30m"),
    "study.budget=-1": ("tune", "study.budget=-1 is not possible: it must be above 0, or null"),
    "study.max_env_steps=1.5": ("tune", "study.max_env_steps=1.5 must be a whole number or null"),
    "study.max_env_steps=5e4": ("tune", "study.max_env_steps=50000 is too little: 23 runs of 30,000 steps"),
    "study.steps_per_second=nan": ("tune", "study.steps_per_second=nan must be a number or null"),
    "checkpoint=[[[]]]": ("train", "checkpoint=[[[]]] is not possible: choose one of default, small"),
    "experiment=[1,2]": ("train", f"experiment=[1,2] is not possible: choose one of {NUM_EXPERIMENTS} that"),
    "env=3": ("train", "env=3 is not possible: choose one of acrobot"),
    "training=[1]": ("train", "training=[1] is not possible: training is a group of settings; set one of them: total_"),
    "network.hidden_sizes={a:1}": ("train", "network.hidden_sizes is a list, network.hidden_sizes=[...]"),
    "network.activation=rleu": ("train", "must be relu or tanh or elu or silu; did you mean relu?"),
    "agent.gamma=nan": ("train", "agent.gamma=nan must be a number"),
    "optimizer.learning_rate=1e400": ("train", "optimizer.learning_rate=inf is not possible: it must be a finite"),
    "backend.package=x": ("train", "backend.package=x must be pytorch or keras"),
    "+space.training.max_grad_norm={choices:[nan,1.0]}": (
        "tune",
        "space.training.max_grad_norm.choices=[nan, 1.0]: nan is no value",
    ),
    "sampler.n_startup_trials=x": ("tune", "sampler.n_startup_trials=x must be a whole number"),
    "executor.parallel=0": ("tune", "executor.parallel must be at least 1, not 0"),
    "executor.isolation=x": ("tune", "executor.isolation=x must be forkserver or spawn"),
    "executor.limits.wall_s=-1": ("tune", "limits.wall_s must be greater than 0, not -1; leave it out (null)"),
    "tracker.wandb.mode=x": ("train", "tracker.wandb"),
    "storage.url=postgresql://host:port/db": ("tune", "is not a URL; write sqlite:///studies.db"),
    "storage.url=mango://host/db": ("report", "no kind of database is called mango"),
    "finder=null": ("find", "finder=null is not possible: choose one of agent, lr, optimizer"),
    "finder.num_steps=1": ("find", "finder.num_steps=1 is not possible: it must be at least 5"),
    "finder.kind=x": ("find", "finder.kind=x must be lr or optimizer or agent"),
    "num_seeds=1": ("compare", "num_seeds=1 is not possible: it must be at least 2"),
    "port=0": ("dashboard", "port=0 is not possible: it must be from 1 to 65535"),
    "max_frames=0": ("play", "max_frames=0 is not possible: it must be at least 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_one_word(tuner: CommandLine, mistake: str) -> None:
    command, expected = MISTAKES[mistake]
    needed = {"play": ["run=nothing"], "compare": ["adaptive=ess", "buffer=prioritized"]}.get(command, [])
    assert expected in tuner.refused(command, *needed, mistake)


def test_a_grid_of_more_points_than_memory_holds(tuner: CommandLine) -> None:
    answer = tuner.refused("tune", "sampler=grid", "sampler.num_points=1000")
    assert "sampler.num_points=1000 makes a grid of 2.35e+16 points over 7 parameters" in answer


def _case(path: str, damage: str, *arguments: str, seed: int = SEED) -> Case:
    return Case(path, damage, arguments, seed)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (_case("trained/config.yaml", "empty", "play", "trained"), "config.yaml is damaged: it holds no settings"),
        (_case("trained/config.yaml", "no text", "play", "trained"), "config.yaml is damaged: 'utf-8' codec"),
        (_case("trained/config.yaml", "a folder", "train", "resume=trained"), "cannot be read: Is a directory"),
        (_case("trained/config.yaml", "a bomb", "play", "trained"), "holds 100,000 values and more"),
        (
            _case("trained/config.yaml", "code in YAML", "play", "trained"),
            "could not determine a constructor",
        ),
        (_case("studies.db", "something else", "report"), "is not a sound SQLite database"),
        (_case("studies.db", "a table dropped", "report"), "is damaged, or was changed by hand (it has no table"),
        (
            _case("studies.db", "a column altered", *LINES["tune"], seed=2028),
            "is damaged, or was changed by hand (its table",
        ),
        (_case("studies.db", "empty", "report"), "there is no study in sqlite:///studies.db yet"),
    ],
    ids=str,
)
def test_what_is_said_of_damage(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = try_case(case, world, tmp_path)
    assert (outcome.status, outcome.complaints) == (2, ())
    assert expected in " ".join(outcome.said.split())


def test_an_attribute_of_another_kind_is_named(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(DAMAGES, "a seed that is a word", ((), _spoil_run))
    case = _case("studies.db", "a seed that is a word", "report")
    outcome = try_case(case, world, tmp_path)
    assert (outcome.status, outcome.complaints) == (2, ())
    assert "trial 1: run.seed must be a whole number, not a text" in outcome.said


def _spoil_run(path: Path, rng: object) -> None:
    """Trial 1 of the screening was run with a seed that is a word."""
    del rng
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE trial_user_attributes SET value_json = json_set(value_json, '$.seed', 'x') "
            "WHERE key = 'run' AND trial_id = 2"
        )
        connection.commit()


def test_reports_behind_a_damaged_line_are_kept(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, copied = tmp_path / "work", tmp_path / "world"
    work.mkdir()
    monkeypatch.chdir(work)
    shutil.copytree(world, copied)
    metrics = copied / "trained" / "metrics.jsonl"  # without what is written once a second, however long that took
    lines = [line for line in metrics.read_text().splitlines(True) if "eval/" in line]
    metrics.write_text("".join([*lines[:2], '{"step": 200, "train/episode_return": 9.1}\n', *lines[2:]]))
    case = Case("trained/metrics.jsonl", "a line spoilt", ("train", "resume=trained", "training.total_steps=480"), 3)
    before = metrics.read_text().splitlines()
    assert try_case(case, copied, work).complaints == ()
    after = (work / "trained" / "metrics.jsonl").read_bytes().decode(errors="replace").splitlines()
    assert sum(line in after for line in before) == len(before) - 1
    assert len(after) > len(before)
