from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from note_rl.agents.pytorch import DQN
from note_rl.errors import SettingsError
from tests.tuner.command_line import SMALL, SMALL_AGENTS
from tuner.commands.preflight import preflight
from tuner.config.composition import BackendConfig, RunConfig, to_json
from tuner.errors import UserError
from tuner.runs import build
from tuner.runs.build import build_environment, build_node, build_run, build_settings, import_framework

BACKENDS = ["torch", "keras"]
OPTIMIZERS = {
    "adam": {"learning_rate": 0.003, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.01},
    "adamw": {"learning_rate": 0.003, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.02},
    "rmsprop": {"learning_rate": 0.003, "rho": 0.9, "epsilon": 1e-5, "momentum": 0.3, "weight_decay": 0.01},
    "sgd": {"learning_rate": 0.003, "momentum": 0.3, "weight_decay": 0.01},
}


def run_config(*overrides: str, agent: str = "dqn") -> RunConfig:
    return RunConfig.from_json(to_json(preflight("train", [*SMALL, *SMALL_AGENTS[agent], *overrides])))


class Forgetful(DQN):
    """Takes gamma and does not hand it on."""

    def __init__(self, gamma: float = 0.5, **others: Any) -> None:
        del gamma
        super().__init__(**others)


class Picky:
    def __init__(self, size: int) -> None:
        if size > 3:
            raise ValueError(f"size={size} is too large")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_values_of_an_optimizer_are_found_in_it(name: str, backend: str) -> None:
    values = OPTIMIZERS[name]
    built = build_run(
        run_config(f"backend={backend}", f"optimizer={name}", *(f"optimizer.{k}={v}" for k, v in values.items()))
    )
    assert built.used["optimizer"] == values


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_weight_decay_is_zero(backend: str) -> None:
    assert build_run(run_config(f"backend={backend}")).used["optimizer"]["weight_decay"] == 0.0


def test_a_value_that_was_dropped_is_noticed() -> None:
    asked = run_config("agent.gamma=0.9")
    forgetful = replace(asked, agent={**asked.agent, "_target_": f"{__name__}.Forgetful"})
    assert build_run(asked).used["agent"]["gamma"] == 0.9
    assert build_run(forgetful).used["agent"]["gamma"] == 0.99


def test_a_value_that_was_overwritten_is_noticed() -> None:
    from tuner.runs.effective_config import used_config

    config = run_config()
    built = build_run(config)
    built.optimizer.param_groups[0]["lr"] = 0.5
    used = used_config(config, built.environment, built.agent, built.optimizer)
    assert used["optimizer"]["learning_rate"] == 0.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_network_is_read_from_its_weights(backend: str) -> None:
    used = build_run(run_config(f"backend={backend}", "network.hidden_sizes=[5,7]", "network.activation=tanh")).used
    written = {"hidden_sizes": [5, 7], "activation": "tanh", "initializer": None, "noisy_std": 0.0}
    assert used["network"] == written


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_seed_gives_one_network(backend: str) -> None:
    obs = np.linspace(-1.0, 1.0, 4, dtype=np.float32)[None]
    scores = [build_run(run_config(f"backend={backend}", f"seed={seed}")).agent.learner.act(obs) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


def test_wrappers_apply_in_order() -> None:
    config = run_config("wrapper=frame_stack", "wrapper.stack.stack_size=3")
    environment = build_environment(config)()
    assert environment.observation_space.shape == (12,)
    environment.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_shown_together_are_typed_once(backend: str) -> None:
    built = build_run(run_config(f"backend={backend}", "training.frame_stack=3"))
    assert (built.agent.frame_stack, built.agent.settings.experience.frame_stack) == (3, 3)  # type: ignore[attr-defined]
    assert built.agent.learner.act(np.zeros((1, 12), np.float32)).shape == (1, 2)
    assert built.used["training"]["frame_stack"] == 3


def test_frames_shown_together_may_be_typed_twice_as_before() -> None:
    built = build_run(run_config("+agent.frame_stack=2", "+buffer.frame_stack=2"))
    assert built.agent.settings.experience.frame_stack == 2
    with pytest.raises(UserError, match=r"buffer\.frame_stack=2, but training\.frame_stack=3: leave the former out"):
        run_config("training.frame_stack=3", "+buffer.frame_stack=2")
    with pytest.raises(UserError, match=r"training\.frame_stack=0 is not possible: it must be at least 1"):
        run_config("training.frame_stack=0")


def test_atari_is_shown_in_four_frames_and_kept_out_of_checkpoints() -> None:
    config = run_config("env=atari", "env.game=breakout", "network=cnn", "network.hidden_sizes=[8]")
    built = build_run(config)
    env = built.environment()
    assert env.spec.kwargs["game"] == "breakout"
    assert env.unwrapped.ale.getInt("max_num_frames_per_episode") == 108_000
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.0
    assert [one.func.__name__ for one in built.environment.training_wrappers] == ["LifeLoss", "SignOfReward"]
    assert built.agent.learner.act(np.zeros((2, 84, 84, 4), np.uint8)).shape == (2, 4)
    assert not config.checkpoint.save_replay
    assert built.used["env"]["game"] == "breakout"
    other = build_run(replace(config, env=replace(config.env, game="pong")))
    assert other.used["env"]["game"] is None, "its id is that of breakout"
    assert run_config("env=atari", "wrapper_training=none", "checkpoint=default").checkpoint.save_replay


def test_settings_are_those_of_the_config() -> None:
    settings = build_settings(run_config("training.max_grad_norm=2.5", "seed=7", agent="ppo"))
    assert (settings.num_envs, settings.max_grad_norm, settings.seed) == (2, 2.5, 7)
    assert settings.experience.batch_size == 16


def test_what_the_training_core_refuses_says_where() -> None:
    config = run_config()
    with pytest.raises(SettingsError, match=r"^policy.eps=2.0 is not possible: it must be a probability"):
        build_settings(replace(config, policy={**config.policy, "eps": 2.0}))


def test_what_cannot_be_built_is_a_users_error() -> None:
    with pytest.raises(UserError, match=r"sampler \(.*Picky\) cannot be built: size=4 is too large"):
        build_node("sampler", {"_target_": f"{__name__}.Picky", "size": 4})
    with pytest.raises(UserError, match=r"cannot be built: .*unexpected keyword argument 'width'"):
        build_node("sampler", {"_target_": f"{__name__}.Picky", "width": 4})


@pytest.mark.parametrize("agent", ["dqn", "ppo", "sac"])
def test_parts_of_ours_are_those_that_hydra_makes(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Hydra's own way, which takes a hundred times as long."""
    config = run_config("schedule=linear_lr", agent=agent)
    with monkeypatch.context() as patch:
        patch.setattr("tuner.runs.build.instantiate", None)
        settings = build_settings(config)
    monkeypatch.setattr("tuner.runs.build._of_ours", lambda node: None)
    by_hydra = build_settings(config)
    assert (settings.experience, settings.schedules) == (by_hydra.experience, by_hydra.schedules)
    assert vars(settings.policy) == vars(by_hydra.policy)


def test_a_part_of_ours_gets_values_of_its_own() -> None:
    node = {"_target_": "note_rl.environments.EnvFactory", "id": "CartPole-v1", "kwargs": {"names": [1]}}
    build_node("env", node).kwargs["names"].append(2)
    assert node["kwargs"] == {"names": [1]}


def test_what_is_found_in_our_modules_and_is_not_ours_is_left_to_hydra() -> None:
    for name in ("instantiate", "functools.partial", "no_such_thing"):
        assert build._of_ours({"_target_": f"tuner.runs.build.{name}"}) is None
    assert build._of_ours({"_target_": "tuner.runs.build.build_node", "_args_": [1]}) is None
    assert build._of_ours({"_target_": "tuner.runs.build.build_node", "node": {"_target_": "os.getcwd"}}) is None
    assert build._of_ours({"_target_": "tuner.runs.build.build_node"}) is build_node


def test_a_missing_framework_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*modules: str) -> None:
        raise ModuleNotFoundError(f"No module named {modules[0]!r}", name=modules[0])

    monkeypatch.setattr("tuner.runs.build.quiet_import", fail)
    with pytest.raises(UserError, match=r"pip install 'note-rl\[torch\]'"):
        import_framework(BackendConfig("torch", "pytorch", "torch"))


def test_a_gpu_that_is_not_there_is_a_users_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = run_config()
    with pytest.raises(UserError, match=r"backend\.device=cuda, but torch finds no GPU"):
        build_run(replace(config, backend=replace(config.backend, device="cuda")))
    assert build_run(replace(config, backend=replace(config.backend, device="auto"))).agent.learner.device.type == "cpu"
