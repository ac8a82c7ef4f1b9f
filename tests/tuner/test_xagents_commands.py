"""Every command that manual 004 prints, typed here by the table of `tuner guide from-xagents`.

BipedalWalker needs Box2D: Pendulum stands for it, whose actions are numbers, too. An agent for those is one of its own
here (a2c_continuous). Playing needs a run: `--video-dir` and `--frame-dir` are in commands/test_play.py, both together.
"""

import shlex

import pytest
from omegaconf import OmegaConf

from tuner.commands.preflight import preflight

TRAIN = """\
a2c --env PongNoFrameskip-v4 --n-env 16 --target-reward 19 --preprocess
a2c --env PongNoFrameskip-v4 --target-reward 19 --n-envs 16 --preprocess --checkpoints a2c-pong.tf
a2c --env BipedalWalker-v3 --target-reward 100 --n-envs 16 --checkpoints a2c-bipedal-walker.tf
acer --env PongNoFrameskip-v4 --target-reward 19 --n-envs 16 --preprocess --checkpoints acer-pong.tf \
--buffer-max-size 5000 --buffer-initial-size 500 --trust-region
ddpg --env BipedalWalker-v3 --target-reward 100 --n-envs 16 --checkpoints ddpg-actor.tf ddpg-critic.tf \
--buffer-max-size 1000000 --buffer-initial-size 25000 --buffer-batch-size 100
dqn --env PongNoFrameskip-v4 --target-reward 19 --n-envs 3 --lr 1e-4 --preprocess --checkpoints dqn-pong.tf \
--buffer-max-size 50000 --buffer-initial-size 10000 --max-frame
ppo --env PongNoFrameskip-v4 --target-reward 19 --n-envs 16 --preprocess --checkpoints ppo-pong.tf
ppo --env BipedalWalker-v3 --target-reward 200 --n-envs 16 --checkpoints ppo-bipedal-walker.tf
td3 --env BipedalWalker-v3 --target-reward 300 --n-envs 16 --checkpoints td3-actor.tf td3-critic1.tf td3-critic2.tf \
--buffer-max-size 1000000 --buffer-initial-size 100 --buffer-batch-size 100
trpo --env PongNoFrameskip-v4 --target-reward 19 --n-envs 16 --checkpoints actor.tf critic.tf --preprocess --lr 1e-3
trpo --env BipedalWalker-v3 --target-reward 200 --n-envs 16 --checkpoints actor.tf critic.tf --lr 1e-3"""
CONTINUOUS = {"a2c": "a2c_continuous", "ppo": "ppo_continuous", "trpo": "trpo_continuous"}
ENVIRONMENTS = {"PongNoFrameskip-v4": ["env=atari", "env.game=pong"], "BipedalWalker-v3": ["env=pendulum"]}
OPTIONS = {
    "n-env": "env.num_envs",
    "n-envs": "env.num_envs",
    "target-reward": "training.target_reward",
    "lr": "optimizer.learning_rate",
    "buffer-max-size": "buffer.capacity",
    "buffer-initial-size": "buffer.learning_starts",
    "buffer-batch-size": "buffer.batch_size",
    "checkpoints": "hydra.run.dir",
}
FLAGS = {
    "preprocess": [],  # env=atari does
    "max-frame": [],  # env=atari takes the maximum of two frames
    "trust-region": ["agent.trust_region=true"],
}
RANGES = {
    "lr": ("optimizer.learning_rate", "{low: %s, high: %s, log: true}"),
    "opt-epsilon": ("optimizer.epsilon", "{low: %s, high: %s, log: true}"),
    "gamma": ("agent.gamma", "{low: %s, high: %s}"),
    "entropy-coef": ("agent.entropy_coef", "{low: %s, high: %s}"),
    "lam": ("agent.gae_lambda", "{low: %s, high: %s}"),
    "n-envs": ("env.num_envs", "{choices: [%s, %s]}"),
    "n-steps": ("buffer.num_steps", "{choices: [%s, %s, %s, %s]}"),
}
OF_STUDIES = {
    "study": "study.name",
    "storage": "storage.url",
    "trial-steps": "training.total_steps",
    "n-trials": "study.num_trials",
    "warmup-trials": "study.pruning.min_trials",
}


def parsed(line: str) -> tuple[str, dict[str, list[str]]]:
    """The agent, and the values of each option."""
    agent, *words = shlex.split(line)
    options: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            options[word[2:]] = []
        else:
            options[list(options)[-1]].append(word)
    return agent, options


def of_environment(agent: str, name: str) -> list[str]:
    if name.startswith("Bipedal"):
        return [f"agent={CONTINUOUS.get(agent, agent)}", *ENVIRONMENTS[name]]
    return [f"agent={agent}", *ENVIRONMENTS[name], "network=cnn"]


@pytest.mark.parametrize("line", TRAIN.splitlines())
def test_train(line: str) -> None:
    agent, options = parsed(line)
    expected = {OPTIONS[name]: values[0] for name, values in options.items() if name in OPTIONS}
    flags = [word for name in options if name not in (*OPTIONS, "env") for word in FLAGS[name]]
    typed = [*of_environment(agent, options["env"][0]), *(f"{key}={value}" for key, value in expected.items()), *flags]
    config = preflight("train", typed)
    for key, value in expected.items():
        if key != "hydra.run.dir":
            assert float(OmegaConf.select(config, key)) == float(value)
    assert OmegaConf.select(config, "agent.trust_region") in (None, "trust-region" in options)


def test_tune() -> None:
    agent, options = parsed(
        "ppo --env PongNoFrameskip-v4 --study ppo-carnival --storage sqlite:///ppo-carnival.db --trial-steps 500000 "
        "--n-trials 100 --warmup-trials 3 --preprocess --n-envs 16 32 --lr 1e-5 1e-2 --opt-epsilon 1e-7 1e-4 "
        "--gamma 0.9 0.999 --entropy-coef 0.01 0.2 --n-steps 16 32 64 128 --lam 0.7 0.99"
    )
    searched = {RANGES[name][0]: RANGES[name][1] % tuple(values) for name, values in options.items() if name in RANGES}
    told = {OF_STUDIES[name]: values[0] for name, values in options.items() if name in OF_STUDIES}
    assert {*options} <= {"env", "preprocess", *RANGES, *OF_STUDIES}
    typed = [*of_environment(agent, options["env"][0]), "space=none", "buffer.batch_size=128"]
    typed += [f"{key}={value}" for key, value in told.items()]
    config = preflight("tune", [*typed, *(f"+space.{key}={value}" for key, value in searched.items())])
    for key, value in told.items():
        assert str(OmegaConf.select(config, key)) == value
    assert OmegaConf.select(config, "space.buffer.num_steps.choices") == [16, 32, 64, 128]
    for key in searched:
        assert OmegaConf.select(config, f"space.{key}") is not None
