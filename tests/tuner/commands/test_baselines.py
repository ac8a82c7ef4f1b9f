"""Experiments that a study is compared with, and that a search starts with."""

from tuner.commands.preflight import preflight
from tuner.commands.tune import define
from tuner.config.composition import to_json


def test_a_search_can_start_with_experiments() -> None:
    wide = ("space.optimizer.learning_rate.high=0.1", "+space.buffer.train_freq={low: 1, high: 512, log: true}")
    definition = define(preflight("tune", ["agent=dqn", *wide, "warm_start=[default,dqn_cartpole]"]))
    default, published = definition.starts().values()
    experiment = to_json(preflight("train", ["experiment=dqn_cartpole"]))
    assert published["optimizer.learning_rate"] == experiment["optimizer"]["learning_rate"]
    assert published["buffer.train_freq"] == experiment["buffer"]["train_freq"] != default["buffer.train_freq"]
    keras = define(preflight("tune", ["agent=dqn", "backend=keras", *wide, "warm_start=dqn_cartpole"]))
    assert keras.warm_start["dqn_cartpole"]["agent"]["_target_"] == "note_rl.agents.keras.DQN"


def test_baselines_are_trained_as_long_and_measured_alike() -> None:
    typed = ["agent=dqn", "env=cartpole", "training.total_steps=900", "evaluation.num_points=3"]
    definition = define(preflight("tune", [*typed, "study.baselines=[default,experiment]"]))
    of_dqn = ("c51", "dqn", "nstep_dqn", "prioritized_dqn", "qrdqn", "rainbow")  # one class with other settings
    assert definition.settings.baselines == tuple(f"{name}_cartpole" for name in of_dqn)
    published, experiment = definition.known["dqn_cartpole"], to_json(preflight("train", ["experiment=dqn_cartpole"]))
    assert published["optimizer"] == experiment["optimizer"] != definition.config["optimizer"]
    assert published["training"] == {**experiment["training"], "total_steps": 900}
    assert published["evaluation"] == definition.config["evaluation"]
    itself = define(preflight("tune", ["experiment=dqn_cartpole", "study.baselines=experiment"]))
    assert "dqn_cartpole" not in itself.settings.baselines  # it is the default of that study


def test_baselines_meet_the_conditions_of_the_study() -> None:
    conditions = ["env.max_episode_steps=100", "training.target_reward=90", "+env.kwargs.sutton_barto_reward=false"]
    typed = ["agent=ppo", "env.num_envs=2", *conditions, "study.baselines=ppo_cartpole"]
    published = define(preflight("tune", typed)).known["ppo_cartpole"]
    assert published["env"]["max_episode_steps"] == 100
    assert published["env"]["kwargs"] == {"sutton_barto_reward": False}
    assert published["env"]["num_envs"] == 8, "which is a setting of the agent's"
    assert published["training"]["target_reward"] == 90
    assert published["training"]["max_grad_norm"] == 0.5


def test_published_settings_of_pendulum_lie_within_what_is_searched() -> None:
    typed = ["agent=ppo_continuous", "env=pendulum"]
    definition = define(preflight("tune", [*typed, "warm_start=[default,ppo_pendulum]"]))
    published = definition.space.values(definition.starts()["ppo_pendulum"], definition.config)
    assert (published["buffer.batch_size"], published["training.normalise_reward"]) == (64, True)
    # those of RL Baselines3 Zoo, which no share of the rollout from 1/16 on allowed: 64 of 4,096
    zoo = ["agent.gamma=0.9", "buffer.num_steps=1024", "buffer.batch_size=64", "env.num_envs=4"]
    rates = ["optimizer.learning_rate=1e-3", "buffer.num_epochs=10"]
    config = to_json(preflight("train", [*typed, *zoo, *rates]))
    assert definition.space.drawn(config)["log2(buffer.batch_size)"] == 6
