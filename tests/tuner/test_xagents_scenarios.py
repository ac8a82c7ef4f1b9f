"""Scenarios of users of xagents, the library of manual 004, that no other test shows; see tests/README.md."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import note_rl.agents.keras
import note_rl.agents.pytorch
from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine, tuner
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, compose, config_loader, to_json
from tuner.config.paths import get_path
from tuner.runs.build import BuiltRun, build_run
from tuner.study.space.space import Space

__all__ = ["tuner"]

AGENTS = ("A2C", "ACER", "DDPG", "DQN", "PPO", "TD3", "TRPO")
FOUND = {"PPO": {"entropy_coef": 0.025}}
"""Numbers found to be better for discrete actions than Python's: on the command line, where conf/ says so."""

# Its options: by agent, what is typed here instead. None of the values is what holds without it.
OF_ALL = {
    "env.num_envs": 3,  # --n-envs
    "optimizer.learning_rate": 0.005,  # --lr
    "optimizer.epsilon": 1e-4,  # --opt-epsilon
    "agent.gamma": 0.9,
    "training.reward_window": 7,  # --reward-buffer-size
    "training.target_reward": -0.5,
    "plateau.factor": 0.5,  # --plateau-reduce-factor
    "plateau.patience": 4,  # --plateau-reduce-patience
    "plateau.early_stop": 5,  # --early-stop-patience
    "plateau.start_steps": 9,  # --divergence-monitoring-steps
    "plateau.interval": 11,  # --log-frequency, as far as it decides anything
}
ADAM = {"optimizer.beta1": 0.8, "optimizer.beta2": 0.99}
ON_POLICY = {
    "buffer.num_steps": 6,
    "agent.entropy_coef": 0.03,
    "agent.value_coef": 0.7,  # --value-loss-coef
    "training.max_grad_norm": 0.9,  # --grad-norm
}
POOL = {
    "buffer.capacity": 900,  # --buffer-max-size
    "buffer.learning_starts": 100,  # --buffer-initial-size
    "buffer.batch_size": 24,  # --buffer-batch-size
}
OF_DDPG = {
    **ADAM,
    **POOL,
    "buffer.gradient_steps": 3,
    "agent.tau": 0.02,
    "noise.sigma": 0.3,  # --step-noise-coef
}
OPTIONS: dict[str, dict[str, Any]] = {
    "a2c": ON_POLICY,
    "acer": {
        **ON_POLICY,
        **{**POOL, "buffer.batch_size": 5},
        "agent.ema_alpha": 0.9,
        "buffer.replay_ratio": 2.5,
        "agent.epsilon": 1e-4,
        "agent.importance_c": 3.0,
        "agent.delta": 0.5,
        "agent.trust_region": False,
    },
    "ddpg env=pendulum": OF_DDPG,
    "double_dqn": {  # --double
        **ADAM,
        **POOL,
        "policy.eps": 0.2,  # --epsilon-end
        "schedule.eps.start": 0.8,  # --epsilon-start
        "schedule.eps.fraction": 0.4,  # --epsilon-decay-steps, as a share of the budget
        "buffer.target_update_interval": 33,  # --target-sync-steps
    },
    "ppo": {
        **ADAM,
        **ON_POLICY,
        "agent.gae_lambda": 0.8,  # --lam
        "agent.clip": 0.3,  # --clip-norm
        "buffer.num_epochs": 3,  # --ppo-epochs
        "buffer.batch_size": 9,  # --mini-batches, by their size
    },
    "td3 env=pendulum": {
        **OF_DDPG,
        "buffer.target_update_interval": 3,  # --policy-delay
        "agent.target_noise": 0.3,  # --policy-noise-coef
        "agent.noise_clip": 0.6,
    },
    "trpo": {
        **ADAM,
        "buffer.num_steps": 6,
        "agent.entropy_coef": 0.03,
        "agent.gae_lambda": 0.8,  # --lam
        "training.max_grad_norm": 0.9,
        "agent.max_kl": 0.02,
        "agent.cg_iterations": 4,
        "agent.cg_tolerance": 1e-6,  # --cg-residual-tolerance
        "agent.cg_damping": 0.2,
        "agent.line_search_steps": 5,  # --actor-iterations
        "agent.critic_iterations": 2,
        "agent.critic_batch_size": 12,  # --mini-batches
        "agent.fvp_every": 3,  # --fvp-n-steps
    },
}


def built(agent: str, options: dict[str, Any]) -> tuple[dict[str, Any], BuiltRun]:
    """The configuration with these options, and what it builds."""
    typed = [f"{key}={str(value).lower()}" for key, value in options.items()]
    config = to_json(preflight("train", [f"agent={agent.split()[0]}", "plateau=episodes", *agent.split()[1:], *typed]))
    return config, build_run(RunConfig.from_json(config))


@pytest.mark.parametrize("agent", OPTIONS)
def test_every_option_is_found_in_what_the_run_uses_and_can_be_searched(agent: str) -> None:
    options = {**OF_ALL, **OPTIONS[agent]}
    default = to_json(compose(config_loader(), "train", [f"agent={agent.split()[0]}", "plateau=episodes"]))
    assert [key for key, value in options.items() if get_path(default, key) == value] == []
    config, run = built(agent, options)
    settings: Any = run.agent.settings
    owners = {
        **{"agent": run.agent, "buffer": settings.experience, "policy": settings.policy, "plateau": settings.plateau},
        **{"noise": getattr(settings.policy, "noise", None), "env": settings, "training": settings},
        "schedule.eps": settings.schedules.get("eps"),
    }
    names = {"training.target_reward": "criterion", "training.reward_window": "trial_count"}
    for key, value in options.items():
        owner, name = key.rsplit(".", 1)
        if owner == "optimizer":
            assert run.used["optimizer"][name] == value, key
        else:
            assert getattr(owners[owner], names.get(key, name)) == value, key
    for key in options.keys() - {"agent.trust_region", "training.target_reward", "training.reward_window"}:
        parts = key.split(".")
        tree: Any = {"choices": [options[key], get_path(default, key)]}
        for part in reversed(parts):
            tree = {part: tree}
        assert Space.from_config(tree, config).paths == (key,)


@pytest.mark.parametrize("name", AGENTS)
def test_agents_begin_with_the_same_numbers_in_both_frameworks_and_on_the_command_line(name: str) -> None:
    of_torch, of_keras = (
        {key: one.default for key, one in inspect.signature(getattr(module, name)).parameters.items()}
        for module in (note_rl.agents.pytorch, note_rl.agents.keras)
    )
    assert {**of_torch, "device": None} == {**of_keras, "device": None}
    typed = to_json(compose(config_loader(), "train", [f"agent={name.lower()}"]))["agent"]
    differs = {key: value for key, value in typed.items() if key != "_target_" and of_torch[key] != value}
    assert differs == FOUND.get(name, {})


def test_every_scenario_names_tests_that_there_are() -> None:
    root = Path(__file__).parents[1]
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| (.+) \|$", (root / "README.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 42))
    for number, shown in rows:
        names = re.findall(r"`([^`]+)`", shown)
        assert names, number
        file = ""
        for name in names:
            path, _, test = name.partition("::")
            file = {"x": "tuner/test_xagents_scenarios.py", "": file}.get(path, path)
            if file.endswith(".py"):
                assert f"def {test}" in (root / file).read_text(), name


# Runs

HEADS = re.compile(
    r"\d+ s +(?P<steps>[\d,]+) steps +(?P<episodes>\d+) episodes +[\d,]+/s  mean (?P<mean>\S+)  best (?P<best>\S+)"
)


def history_of(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = pyarrow.parquet.read_table(folder / "history.parquet").to_pydict()
    return found


@pytest.mark.parametrize("agent", sorted(name.lower() for name in AGENTS))
def test_each_agent_trains_with_any_number_of_environments(tuner: CommandLine, agent: str) -> None:
    answer = tuner("train", *SMALL, *SMALL_AGENTS[agent], "env.num_envs=7", "hydra.run.dir=mine")
    assert (answer.status, answer.errors) == (0, "")
    result = json.loads((tuner.folder / "mine" / "result.json").read_text())
    rollout = {"a2c": 7 * 5, "acer": 7 * 10, "ppo": 7 * 16, "trpo": 7 * 16}.get(agent)
    assert result["num_gradient_steps"] > 0
    if rollout is None:
        assert 240 <= result["num_env_steps"] < 240 + 7
    else:
        assert result["num_env_steps"] == -(-240 // rollout) * rollout, "the first whole rollout at or behind 240"


def test_lines_at_an_interval_of_episodes_show_the_rows_of_the_history(tuner: CommandLine) -> None:
    ppo = ("agent=ppo", "env.num_envs=4", "buffer.num_steps=32", "buffer.num_epochs=1")
    lines = ("progress=lines", "progress.every=5", "progress.decimals=4")
    answer = tuner("train", *SMALL, *ppo, *lines, "training.reward_window=3", "hydra.run.dir=mine")
    assert (answer.status, answer.errors) == (0, "")
    history = history_of(tuner.folder / "mine")
    assert list(history) == ["mean_reward", "best_reward", "episode_reward", "step", "time"]
    returns = history["episode_reward"]
    found = [one for line in answer.output.splitlines() if (one := HEADS.search(line))]
    assert len(found) == len(returns) // 5 > 0
    for number, one in enumerate(found, 1):
        row = 5 * number - 1
        assert int(one["episodes"]) == 5 * number
        assert int(one["steps"].replace(",", "")) == history["step"][row]
        assert one["mean"] == f"{np.mean(returns[row - 2 : row + 1]):.4f}"
        assert one["best"] == f"{max(returns[: row + 1]):.4f}"
    evaluated = re.findall(r"mean return (\S+?)(, the best so far)? *(?:,|\()", answer.output)
    values = [float(value) for value, _ in evaluated]
    assert all(re.fullmatch(r"\d+\.\d{4}", value) for value, _ in evaluated)
    assert [bool(best) for _, best in evaluated[1:]] == [
        value > max(values[:number]) for number, value in enumerate(values[1:], 1)
    ]
    result = json.loads((tuner.folder / "mine" / "result.json").read_text())
    assert result["num_env_steps"] == 256, "whole rollouts of 128: the first multiple behind 240"


def test_the_history_speaks_of_the_end_of_each_episode_not_of_its_phase(tuner: CommandLine) -> None:
    """Of one environment, the steps between two ends are the length of an episode, which is its return."""
    ppo = ("agent=ppo", "env.num_envs=1", "buffer.num_steps=120", "buffer.num_epochs=1")
    assert tuner("train", *SMALL, *ppo, "progress=quiet", "hydra.run.dir=mine").status == 0
    history = history_of(tuner.folder / "mine")
    assert np.diff([0, *history["step"]]).tolist() == history["episode_reward"]
    assert len(set(history["time"])) == len(history["time"]) > 4
    assert history["time"] == sorted(history["time"])


def test_quiet_says_nothing_and_what_is_shown_decides_nothing(tuner: CommandLine) -> None:
    shown = (["progress=quiet"], ["progress=lines", "progress.every=1", "progress.decimals=0"], ["progress=bar"])
    results = []
    for number, progress in enumerate(shown):
        target = ("training.target_reward=9.5", "training.target_by=evaluations")
        answer = tuner("train", *SMALL, *SMALL_AGENTS["dqn"], *progress, *target, f"hydra.run.dir=run{number}")
        assert (answer.status, answer.errors, bool(answer.output)) == (0, "", number > 0)
        result = json.loads((tuner.folder / f"run{number}" / "result.json").read_text())
        results.append({key: value for key, value in result.items() if key != "seconds"})
    assert results[0] == results[1] == results[2]


def test_a_run_ends_when_an_evaluation_reaches_the_target(tuner: CommandLine) -> None:
    run = ("train", *SMALL, *SMALL_AGENTS["dqn"], "evaluation.num_points=6")
    assert tuner(*run, "hydra.run.dir=whole").status == 0
    points = json.loads((tuner.folder / "whole/result.json").read_text())["evaluations"]
    values = [point["mean_return"] for point in points]
    best = values.index(max(values))
    target = ("training.target_by=evaluations", f"training.target_reward={max(values)}")
    answer = tuner(*run, *target, "hydra.run.dir=mine")
    result = json.loads((tuner.folder / "mine/result.json").read_text())
    assert [point["mean_return"] for point in result["evaluations"][: best + 1]] == values[: best + 1]
    if best < len(values) - 1:
        assert result["stop_reason"] == "target_reward"
        assert result["num_env_steps"] == points[best]["num_env_steps"]
        assert f"an evaluation returned {max(values):g} or more" in answer.output
    assert "training.target_by=often" in tuner.refused("train", "training.target_by=often")


def test_the_same_seed_is_the_same_run_and_0_is_a_seed(tuner: CommandLine) -> None:
    runs = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        td3 = (*SMALL_AGENTS["td3"], "env.num_envs=3", "env.max_episode_steps=20", f"seed={seed}")
        assert tuner("train", *SMALL, *td3, f"hydra.run.dir={name}").status == 0
        runs[name] = {key: values for key, values in history_of(tuner.folder / name).items() if key != "time"}
    assert runs["a"] == runs["b"] != runs["c"]
    assert len(set(runs["a"]["episode_reward"][:3])) == 3, "environments start in different states"


def test_td3_explores_and_its_critics_are_two() -> None:
    _, run = built("td3 env=pendulum", {"seed": 0, "policy.num_random_steps": 0, "noise.sigma": 0.1})
    agent: Any = run.agent
    first, second = (
        [weights.detach().numpy() for weights in one.parameters()] for one in (agent.critic_1, agent.critic_2)
    )
    assert not np.array_equal(first[0], second[0])
    policy, rng = agent.settings.policy, np.random.default_rng(0)
    space = run.environment().action_space
    policy.bind(space, 4000)
    deviation = float(np.std(policy.select(np.zeros((4000, 1), np.float32), rng)))
    assert deviation == pytest.approx(0.1 * space.high[0], rel=0.05)


# How agents act where they are evaluated


def test_evaluations_and_play_explore_if_a_policy_for_them_is_given(tuner: CommandLine) -> None:
    """Of an agent that always pushes one way, only what is random lasts longer."""
    run = ("train", *SMALL, *SMALL_AGENTS["dqn"], "buffer.learning_starts=1000", "policy.eps=1.0", "schedule=none")
    means = {}
    for name in ("greedy", "sampled", "eps"):
        choice = (f"evaluation.policy={name}", "evaluation.eps=1.0", "evaluation.num_episodes=20")
        assert tuner(*run, *choice, f"hydra.run.dir={name}").status == 0
        points = json.loads((tuner.folder / name / "result.json").read_text())["evaluations"]
        means[name] = np.mean([point["mean_return"] for point in points])
        if name == "greedy":
            greedy = history_of(tuner.folder / name)
        else:
            of_this = history_of(tuner.folder / name)
            assert of_this["episode_reward"] == greedy["episode_reward"], "training does not notice"
    assert means["greedy"] < 12 < 18 < min(means["sampled"], means["eps"]), "random play lasts 22 steps"
    played = {
        choice: tuner("play", "eps", "gif=null", *choice.split()).output
        for choice in ("", "evaluation.eps=1.0 evaluation.policy=eps", "evaluation.policy=greedy", "deterministic=true")
    }
    as_evaluated, typed, *greedily = played.values()
    assert as_evaluated == typed != greedily[0] == greedily[1] != ""
    both = ("evaluation.policy=eps", "deterministic=true")
    assert "both say how to act" in tuner.refused("play", "eps", *both)
    assert "evaluation.eps=2 is not possible" in tuner.refused("train", "evaluation.eps=2")


# Studies


def test_a_study_records_what_is_searched_and_fixes_what_is_not(tuner: CommandLine) -> None:
    space = ("space=none", "+space.optimizer.learning_rate={low: 1e-4, high: 1e-2, log: true}")
    steps = ("+space.buffer.num_steps={choices: [5, 16, 32]}", "agent.gamma=0.97", "study.name=s")
    study = (*SMALL, *SMALL_AGENTS["a2c"], *space, *steps, *(word for word in SMALL_STUDY if word != "~space.buffer"))
    answer = tuner("tune", *study)
    assert answer.status == 0, answer
    for folder in sorted((tuner.folder / "studies/s/screen").iterdir()):
        config = json.loads((folder / "trial.json").read_text())["config"]
        assert config["agent"]["gamma"] == 0.97
        assert 1e-4 <= config["optimizer"]["learning_rate"] <= 1e-2
        assert config["buffer"]["num_steps"] in (5, 16, 32)
    heads = (tuner.folder / "studies/s/trials.csv").read_text().splitlines()[0].split(",")
    assert {"optimizer.learning_rate", "buffer.num_steps"} <= set(heads)
    assert "agent.gamma" not in heads
    assert re.search(r"tuner train .*agent=a2c .*optimizer\.learning_rate=", answer.output)
    more = tuner("tune", *study, "study.num_trials=3", "plan=true", "study.steps_per_second=100")
    assert re.search(r"^ +screen +3 runs ", more.output, re.MULTILINE), "a total"
