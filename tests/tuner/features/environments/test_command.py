"""`tuner tune 'env=[...]'`: from the command line to what is written for each environment."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import tuner as tuner_package
from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner.commands.preflight import preflight
from tuner.commands.study_from_config import define
from tuner.config.composition import to_json
from tuner.errors import UserError
from tuner.features.environments.facts import ENVIRONMENTS
from tuner.features.environments.typed import as_typed, spelled_out
from tuner.trial.messages import JsonDict

FUNCTION = (
    *("--config-dir", "mine", "agent=function", "agent._target_=tests.tuner.entries.distance", "+agent.x=0.9"),
    *("space=none", "+space.agent.x={choices: [0.0, 0.4, 0.9]}", "executor=inline", "tracker=jsonl"),
    *("sampler=brute_force", "study.num_trials=3", "study.num_race_seeds=0", "study.num_candidates=2"),
    *("study.num_test_seeds=5", "study.name=both", "storage=journal"),
)
"""Distances from two places: the best x of three for both is the best of neither."""


@pytest.fixture
def mine(tuner: CommandLine) -> CommandLine:
    """Two environments of the user's own: 10 (1 - x), scored from 0 to 10, and 1 - |x - 0.8|, from 0.1 to 0.9."""
    folder = tuner.folder / "mine" / "env"
    folder.mkdir(parents=True)
    for name, (best, height, reference) in {
        "left": (0.0, 10.0, "{random: 0, good: 10}"),
        "right": (0.8, 1.0, "{random: 0.1, good: 0.9}"),
    }.items():
        (folder / f"{name}.yaml").write_text(
            f"# @package _global_\nagent: {{best: {best}, height: {height}}}\nenv: {{reference: {reference}}}\n"
        )
    return tuner


def test_a_study_without_a_name_goes_on_as_itself_and_not_as_one_of_its_environments(mine: CommandLine) -> None:
    unnamed = tuple(word for word in FUNCTION if not word.startswith("study.name="))
    assert mine("tune", *unnamed, "env=left", "study.decision=model").status == 0
    assert mine("tune", *unnamed, "env=[left,right]", "study.decision=confirmed").status == 0
    again = mine("tune", *unnamed, "env=[left,right]")
    assert (again.status, again.errors) == (0, "")
    assert "nothing was left to run" in again.output
    single = mine("tune", *unnamed, "env=left")
    assert "nothing was left to run" in single.output


def test_a_function_is_tuned_for_all(mine: CommandLine) -> None:
    """Scores left 1, 0.6, 0.1; right 0.125, 0.625, 1: means 0.5625, 0.6125, 0.55. Alone, 0 and 0.9 would win."""
    answer = mine("tune", *FUNCTION, "env=[left,right]")
    assert answer.status == 0, answer
    result = tuner_package.load("studies/both")
    scores = {run.params["agent.x"]: run.value for run in result.summary.stage("screen")}
    assert scores == {0.0: pytest.approx(0.5625), 0.4: pytest.approx(0.6125), 0.9: pytest.approx(0.55)}
    assert {part.environment: part.value for part in result.summary.runs[0].parts}.keys() == {"left", "right"}
    assert result.best_params == {"agent.x": 0.4}
    rows = [line.split() for line in answer.output.splitlines() if line.strip().startswith(("left ", "right "))]
    told = [[row[index] for index in (0, 1, 2, 3, 6, 9)] for row in rows]  # intervals stand between
    assert told == [["left", "0", "10", "1", "6", "+5"], ["right", "0.1", "0.9", "0.9", "0.6", "-0.3"]]
    assert "score 0: a random policy, score 1: a good one" in answer.output
    scale = "Score 0 is the return of a random policy, score 1 that of a good one: left 0 to 10, right 0.1 to 0.9."
    lines = answer.output.splitlines()
    assert result.verdict.sentence in lines[lines.index(scale) - 1], "what numbers are stands right behind the verdict"
    assert "random policy" not in result.verdict.sentence
    again = mine("tune", *FUNCTION, "study.environments=[left,right]")
    assert again.status == 0, again
    assert "nothing was left to run" in again.output


def test_a_function_has_no_random_policy(mine: CommandLine) -> None:
    (mine.folder / "mine" / "env" / "right.yaml").write_text(
        "# @package _global_\nagent: {best: 0.8, height: 1.0}\nenv: {reference: {good: 1}}\n"
    )
    said = mine.refused("tune", *FUNCTION, "env=[left,right]")
    assert "env=right: a function has no random policy to be measured; write the return of one into its file" in said


TWO = "env=[cartpole,acrobot]"
NORMALISED = "norm={_target_: gymnasium.wrappers.NormalizeReward, _partial_: true}"
CLIPPED = "clip={_target_: gymnasium.wrappers.ClipReward, _partial_: true, min_reward: 0.0, max_reward: 0.1}"
PLAN = ("plan=true", "study.steps_per_second=100")
STUDY = (TWO, *SMALL, *SMALL_AGENTS["dqn"], *SMALL_STUDY, "study.num_trials=1", "study.name=both")


@pytest.mark.slow  # of functions: the one above; without training: the one below
def test_agents_are_tuned_for_two_environments(tuner: CommandLine) -> None:
    short = ("training.total_steps=120", "evaluation.num_episodes=1", "evaluation.num_points=2")
    answer = tuner("tune", *STUDY, *short)
    assert answer.status == 0, answer
    result = tuner_package.load("studies/both")
    assert {name: (one.random, one.good) for name, one in ENVIRONMENTS.of(result.summary).items()} == {
        "cartpole": (22.0, 500.0),
        "acrobot": (-500.0, -75.0),
    }
    for run in result.summary.runs:
        assert [part.environment for part in run.parts] == ["cartpole", "acrobot"]
        for part, kind in zip(run.parts, ("CartPole-v1", "Acrobot-v1"), strict=True):
            config = json.loads((Path(part.folder) / "trial.json").read_text())["config"]
            assert config["env"]["id"] == kind
            assert "reference" not in config["env"]
            assert all(config[path.split(".")[0]][path.split(".")[1]] == value for path, value in run.params.items())
    assert result.agent().predict([0.0] * 4)[0] in (0, 1)
    assert result.agent(environment="acrobot").predict([0.0] * 6)[0] in (0, 1, 2)
    with pytest.raises(UserError, match=r"has no environment acrobt; did you mean acrobot\?"):
        result.agent(environment="acrobt")
    for environment, run in ((None, "cartpole"), ("acrobot", "acrobot")):
        chosen = [] if environment is None else [f"environment={environment}"]
        answer = tuner("play", "both", "num_episodes=1", "gif=null", *chosen)
        assert answer.status == 0, answer
        assert result.best_run(environment=environment).name == run
    assert "did you mean acrobot?" in tuner.refused("play", "both", "environment=acrobt")
    one_run = str(result.best_run())
    assert "leave it out" in tuner.refused("play", one_run, "environment=acrobot")
    said = tuner.refused("ablate", "both")
    assert "is of several environments" in said
    trains = tuple(result.overrides)
    assert "env=cartpole" in trains
    composed = {name: to_json(preflight("train", [*trains, f"env={name}"])) for name in ("cartpole", "acrobot")}
    for name, file in (("cartpole", "winner"), ("acrobot", "winner-acrobot")):
        written = to_json(preflight("train", [f"experiment={file}"], "studies/both"))
        assert judged(written) == judged(composed[name])
        assert written["optimizer"]["learning_rate"] == result.best_params["optimizer.learning_rate"]
    page = (tuner.folder / "studies" / "both" / "report.html").read_text()
    assert 'id="environment-table"' in page
    assert "<td>acrobot</td>" in page


def test_a_study_of_two_environments_has_a_file_for_each_and_a_table(tuner: CommandLine) -> None:
    """Runs that train nothing: what is composed, written and refused of such a study."""
    folder = tuner.folder / "mine" / "executor"
    folder.mkdir(parents=True)
    (folder / "fake.yaml").write_text("_target_: tests.tuner.studies.FakeExecutor\nparallel: 2\n")
    fake = (*STUDY, "executor=fake", "study.num_test_seeds=2")
    answer = tuner("tune", "--config-dir", "mine", *fake)
    assert answer.status == 0, answer
    result = tuner_package.load("studies/both")
    assert {name: (one.random, one.good) for name, one in ENVIRONMENTS.of(result.summary).items()} == {
        "cartpole": (22.0, 500.0),
        "acrobot": (-500.0, -75.0),
    }
    assert {tuple(part.environment for part in run.parts) for run in result.summary.runs} == {("cartpole", "acrobot")}
    trains = tuple(result.overrides)
    assert "env=cartpole" in trains
    for name, file, kind in (("cartpole", "winner", "CartPole-v1"), ("acrobot", "winner-acrobot", "Acrobot-v1")):
        written = to_json(preflight("train", [f"experiment={file}"], "studies/both"))
        assert judged(written) == judged(to_json(preflight("train", [*trains, f"env={name}"])))
        assert written["env"]["id"] == kind
        assert "reference" not in written["env"]
        assert written["optimizer"]["learning_rate"] == result.best_params["optimizer.learning_rate"]
    page = (tuner.folder / "studies" / "both" / "report.html").read_text()
    assert 'id="environment-table"' in page
    assert "<td>acrobot</td>" in page
    with pytest.raises(UserError, match=r"has no environment acrobt; did you mean acrobot\?"):
        result.agent(environment="acrobt")
    assert "did you mean acrobot?" in tuner.refused("play", "both", "environment=acrobt")
    assert "is of several environments" in tuner.refused("ablate", "both", "storage=journal")


def judged(config: JsonDict) -> JsonDict:
    return {key: value for key, value in config.items() if key not in ("seed", "checkpoint", "tracker", "trust")}


def test_a_run_is_composed_for_its_environment() -> None:
    """Whatever its own file says, unless that is typed; the reference is no part of it."""
    typed = spelled_out([TWO, "agent=ppo", "env.num_envs=2"])
    found = define(preflight("tune", typed), typed)
    assert found.name == "ppo-cartpole-acrobot-torch-quick"
    assert found.env_id == "cartpole and acrobot"
    for one in found.environments:
        alone = to_json(
            preflight("train", ["agent=ppo", "env.num_envs=2", f"env={one.name}", "training.total_steps=30000"])
        )
        config = found.within(one.name).run_config({"agent.gamma": 0.5}, seed=3)
        assert config["env"] == alone["env"]
        assert config["agent"] == {**alone["agent"], "gamma": 0.5}
        assert config["seed"] == 3
    assert shlex.split(str(found.facts["command"])) == ["tuner", "tune", TWO, "agent=ppo", "env.num_envs=2"]


def test_the_plan_counts_all_environments(tuner: CommandLine) -> None:
    answer = tuner("tune", TWO, "training.total_steps=1000", *PLAN)
    assert answer.status == 0, answer
    rows = {words[0]: " ".join(words[1:]) for line in answer.output.splitlines() if (words := line.split())}
    assert rows["screen"] == "20 x 2 runs 40,000 env steps"
    assert rows["test"] == "2 x 5 x 2 runs 20,000 env steps"
    assert rows["acrobot"] == "1,000 env steps score 0: -500 (random policy), 1: -75"
    assert rows["pruning"] == "no run is pruned"
    assert "at most 80,000 environment steps: about 6 min 40 s with 2 at a time" in answer.output
    assert not (tuner.folder / "studies").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tune", "env=[cartpole]"], "env=[cartpole] names one environment only: type env=cartpole, or list another"),
        (["tune", "env=[]"], "env=[] names no environment: list two or more, such as env=[cartpole,acrobot]"),
        (["tune", "env=[cartpole,cartpole]"], "names one environment only: type env=cartpole, or list another"),
        (["tune", "env=[cartpole,acrobot,cartpole]"], "names cartpole twice: leave one of them out"),
        (["tune", "env=[cartpole,null]"], "env=[cartpole,null]: null is no name of an environment; leave it out"),
        (
            ["tune", "env=[cartpole,acrobot],[cartpole,pendulum]"],
            "one list for a study of all, env=[cartpole,acrobot,pe",
        ),
        (["tune", "env=[cartpole,acrobott]"], "there is no env=acrobott; did you mean env=acrobot?"),
        (["tune", "env=[cartpole,pendulum]"], "in env=pendulum: DQN chooses one of several actions, but Pendulum-v1"),
        (["tune", TWO, "study.environments=[cartpole,catch]"], "name different environments: leave one of them out"),
        (["tune", "study.environments=[cartpole,acrobot]", "env=catch"], "env=catch names one environment, and"),
        (["tune", TWO, "env.id=CartPole-v1"], "would hold for every environment of the study: leave it out"),
        (["tune", TWO, "env.reference.good=300"], "env.reference.good=300 would hold for every"),
        (["tune", TWO, "env.max_episode_steps=200"], "env.max_episode_steps=200 would hold for every"),
        (["tune", TWO, "+env.kwargs.sutton_barto_reward=true"], "env.kwargs.sutton_barto_reward=true would hold for"),
        (
            ["tune", TWO, f"+wrapper.{CLIPPED}"],
            "wrapper.clip changes rewards, and the returns that scores are compared",
        ),
        (["tune", TWO, f"+wrapper.{NORMALISED}"], "wrapper.norm changes rewards, and the returns"),
        (["tune", TWO, "study=pbt"], "study=pbt compares members by returns of one environment"),
        (["tune", TWO, "study.metric=[mixed,seconds]"], "of several environments there is one score"),
        (["tune", TWO, "study.metric=steps_to_100"], "study.metric=steps_to_100 names a return of one environment"),
        (["tune", TWO, "study.metric=seconds_to_100"], "study.metric=seconds_to_100 names a return of one environment"),
        (["tune", "study.environments=cartpole"], "study.environments=cartpole must be a list"),
        (["tune", TWO, "pruner=asha"], "pruner=asha compares curves of one environment"),
        (
            ["tune", TWO, "study.baselines=[default,experiment]"],
            "study.baselines=[default,experiment] names configurations for one environment each",
        ),
        (["train", f"+{TWO}"], "tuner train takes one"),
        (["train", TWO], "tuner train takes one: tuner tune finds a configuration for all of them"),
        (["train", "-m", TWO, "seed=1,2"], "tuner train takes one"),
        (["find", "lr", TWO], "tuner find takes one"),
        (["compare", TWO, "adaptive=ess"], "tuner compare takes one"),
    ],
)
def test_what_makes_no_sense_is_refused(tuner: CommandLine, arguments: Sequence[str], said: str) -> None:
    assert said in tuner.refused(*arguments)


def test_shares_of_different_wholes_are_refused(tuner: CommandLine) -> None:
    """A batch as a share of the environments side by side is another one where there are more of these."""
    folder = tuner.folder / "mine" / "env"
    folder.mkdir(parents=True)
    (folder / "four.yaml").write_text("id: Acrobot-v1\nnum_envs: 4\nkwargs: {}\nmax_episode_steps: null\n")
    batch = "+space.buffer.batch_size={low: 8, high: 64, of: env.num_envs}"
    typed = ("tune", "--config-dir", "mine", "env=[cartpole,four]", "space=none", batch, *PLAN)
    said = tuner.refused(*typed)
    assert "space.buffer.batch_size follows env.num_envs, which is 1 in cartpole and 4 in four: type" in said
    assert tuner(*typed, "env.num_envs=2").status == 0


def test_wrappers_of_an_environments_own_file_may_change_rewards(tuner: CommandLine) -> None:
    """Its reference returns are written beside them, so it is another one only where something else is typed."""
    folder = tuner.folder / "mine" / "env"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text(
        "# @package _global_\nenv: {id: Acrobot-v1, num_envs: 1, kwargs: {}, max_episode_steps: null, "
        f"reference: {{random: -50, good: -10}}}}\nwrapper: {{{CLIPPED.replace('=', ': ', 1)}}}\n"
    )
    typed = ["tune", "--config-dir", "mine", "env=[own,cartpole]", *PLAN]
    kept = tuner(*typed, "+wrapper.time={_target_: gymnasium.wrappers.TimeAwareObservation, _partial_: true}")
    assert (kept.status, kept.errors) == (0, "")
    said = "wrapper.clip changes rewards"
    assert said in tuner.refused(*typed, f"wrapper.{CLIPPED.replace('0.1', '0.2')}")


def test_what_is_good_has_to_be_known(tuner: CommandLine) -> None:
    """Gymnasium says it of Acrobot-v1, which is -100, but not of one that ends sooner."""
    folder = tuner.folder / "mine" / "env"
    folder.mkdir(parents=True)
    plain = "id: Acrobot-v1\nnum_envs: 1\nkwargs: {}\nmax_episode_steps: "
    (folder / "own.yaml").write_text(f"{plain}null\n")
    typed = ["--config-dir", "mine", "env=[cartpole,own]"]
    answer = tuner("tune", *typed, *PLAN)
    assert "score 0: measured first (random policy), 1: -100" in answer.output
    (folder / "own.yaml").write_text(f"{plain}100\n")
    assert (
        "env=own: its good return is not known, so its scores cannot be compared with those of other"
        in tuner.refused("tune", *typed)
    )
    for reference in ("{good: high}", "3", "{godo: 3}"):
        (folder / "own.yaml").write_text(f"{plain}100\nreference: {reference}\n")
        assert "env=own: env.reference must be numbers, {random: ..., good: ...}" in tuner.refused("tune", *typed)
    (folder / "own.yaml").write_text(f"{plain}100\nreference: {{random: -50, good: -80}}\n")
    assert "its good return, -80, must be above that of a random policy, -50" in tuner.refused("tune", *typed)


def test_what_is_short_for_what() -> None:
    assert spelled_out([TWO, "seed=1"]) == ["env=cartpole", "study.environments=[cartpole,acrobot]", "seed=1"]
    assert spelled_out(spelled_out([TWO, "seed=1"])) == spelled_out([TWO, "seed=1"])
    assert as_typed(spelled_out([TWO, "seed=1"])) == [TWO, "seed=1"]
    assert spelled_out(["+env=[a,b]"]) == spelled_out(["env=[a,b]"])
    for plain in (["env=catch"], ["env.num_envs=2", "seed=1"], []):
        assert spelled_out(plain) == as_typed(plain) == plain


def test_every_reference_of_ours_is_one() -> None:
    for file in sorted((Path(__file__).parents[3] / "conf" / "env").glob("*.yaml")):
        node = OmegaConf.to_container(OmegaConf.load(file))
        assert isinstance(node, dict)
        reference = node.get("env", node).get("reference")
        if reference is not None:
            assert reference.keys() <= {"random", "good"}
            assert reference["good"] > reference.get("random", float("-inf"))
