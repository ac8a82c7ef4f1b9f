"""`network=layers` and its like from the command line: what reaches the agent, and what is refused before a run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.commands.winner import TrainingConfigs
from tuner.config.composition import RunConfig, compose, config_loader, to_json
from tuner.runs.build import build_run

SHORT = tuple(word for word in SMALL if not word.startswith("network."))
PPO = (*SHORT, *SMALL_AGENTS["ppo"])
MANUAL = Path(__file__).parents[2] / "note_rl" / "agents" / "shared" / "model.cfg"


def config_of(tuner: CommandLine, *words: str) -> dict[str, Any]:
    """The configuration that a run has kept."""
    answer = tuner("train", *words, "hydra.run.dir=run")
    assert answer.status == 0, answer.errors
    kept: dict[str, Any] = yaml.safe_load((tuner.folder / "run" / "config.yaml").read_text())
    return kept


def widths(network: Any) -> list[tuple[int, ...]]:
    return [tuple(one.shape) for one in network.parameters() if one.ndim > 1]


def test_layers_reach_the_agent_and_are_played_again(tuner: CommandLine) -> None:
    (tuner.folder / "mine" / "network").mkdir(parents=True)
    (tuner.folder / "mine" / "network" / "deep.yaml").write_text(
        "defaults: [layers]\nlayers: [{dense: 6}, {norm: layer}, {dropout: 0.1}, {dense: {units: 5}}]\n"
    )
    typed = ("network=deep", "network.layers.3.dense.units=7", "network.shared=true")
    kept = config_of(tuner, *PPO, "--config-dir", "mine", *typed)
    agent: Any = build_run(RunConfig.from_json(kept)).agent
    assert widths(agent.actor) == [(6, 4), (7, 6), (2, 7)]
    assert agent.critic.trunk is agent.actor.trunk
    answer = tuner("play", "run", "num_episodes=1", "gif=null")
    assert answer.status == 0, answer.errors


def test_a_critic_has_a_choice_of_its_own(tuner: CommandLine) -> None:
    words = (*SHORT, *SMALL_AGENTS["ddpg"], "network.hidden_sizes=[6]", "+network@network.critic=layers")
    kept = config_of(tuner, *words, "network.critic.layers=[{dense: 9}]")
    built = build_run(RunConfig.from_json(kept))
    agent: Any = built.agent
    assert widths(agent.actor) == [(6, 3), (1, 6)]
    assert widths(agent.critic) == [(9, 4), (1, 9)]
    assert built.used["network"]["hidden_sizes"] == [6]
    assert built.used["network"]["critic"]["layers"] == [{"dense": 9}]


def test_a_file_of_sections_is_kept_with_the_run(tuner: CommandLine) -> None:
    folder = tuner.folder / "factory" / "hannah"
    folder.mkdir(parents=True)
    sections = MANUAL.read_text().partition("[dense-0]")
    (folder / "model.cfg").write_text(f"[dense-0]{sections[2].replace('512', '6')}")
    kept = config_of(tuner, *PPO, "network=cfg", f"network.file={folder.relative_to(tuner.folder)}/model.cfg")
    (folder / "model.cfg").unlink()
    agent: Any = build_run(RunConfig.from_json(kept)).agent
    assert widths(agent.actor) == [(6, 4), (2, 6)]
    assert agent.critic.trunk is agent.actor.trunk
    first = agent.actor.trunk[0].weight.detach().numpy()
    np.testing.assert_allclose(first.T @ first, 2.0 * np.eye(4), atol=1e-4)  # orthogonal, the gain of the file squared
    np.testing.assert_allclose(np.linalg.norm(agent.actor.head[0].weight.detach().numpy(), axis=1), 0.01, rtol=1e-4)


REFUSED = {
    "network.layers=[{dens: 64}]": "network.layers.0: there is no layer 'dens'; did you mean dense?",
    "network.layers=[]": "network.layers=[] is empty",
    "network.initializer=ortho": "network.initializer=ortho is not possible: it must be one of orthogonal, glorot_",
    "network.layers=[{conv: {filters: 8, size: 3}}]": "network.layers.0 (conv) gets the shape [4]: images",
    "network.layer=[]": "did you mean network.layers?",
    "network.head={units: 3}": "network.head has no units",
    "network=nature_cnn": "network.layers.0 (conv) gets the shape [4]: images",
    "network.hidden_sizes=[8]": "network.layers.0 is dense, and network.hidden_sizes=[8] would come behind",
    "agent=dqn network.shared=true": "network.shared=True is for agents whose value is a network of observations",
    "agent=dqn +network@network.critic=mlp": "network.critic: DQN has no critic with a network of its own",
    "network.shared=true +network@network.critic=mlp": "network.shared=true gives the value the policy's trunk",
    "+network@network.critic=layers network.critic.layers=[flaten]": "network.critic.layers.0: there is no layer",
    "+network@network.critic=mlp +network.critic.widths=[8]": "unknown key network.critic.widths: ",
    "+network.critic=mlp": "network.critic=mlp is not possible: choose a network for it",
    "network=cfg": "network=cfg reads its layers from a file: add network.file=model.cfg",
    "network=cfg network.file=empty.cfg": "empty.cfg: empty model configuration",
    f"network=cfg network.file={MANUAL}": "network.layers.0 (conv) gets the shape [4]: images",
}


@pytest.mark.parametrize("typed", REFUSED)
def test_what_makes_no_network_is_refused_before_a_run(tuner: CommandLine, typed: str) -> None:
    (tuner.folder / "empty.cfg").write_text("")
    words = [typed] if typed.startswith("network.layers") else typed.split(" ") if "{" not in typed else [typed]
    chosen = [] if any(word.startswith("network=") for word in words) else ["network=layers"]
    agent = [] if any(word.startswith("agent=") for word in words) else ["agent=ppo"]
    assert REFUSED[typed] in tuner.refused("train", *agent, *chosen, *words, "hydra.run.dir=run")


def test_a_plan_refuses_it_too(tuner: CommandLine) -> None:
    said = tuner.refused("tune", "plan=true", "agent=ppo", "network=layers", "network.layers=[{conv: {filters: 8}}]")
    assert "network.layers.0 (conv) needs size: write {conv: {filters: 32, size: 8, stride: 4}}" in said


def test_a_place_in_a_list_is_searched(tuner: CommandLine) -> None:
    sizes = ("study.num_trials=3", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_test_seeds=1")
    words = (*SHORT, "network=layers", "+space.network.layers.1.dense={low: 2, high: 64, log: true}")
    answer = tuner("tune", *words, *sizes, "executor=inline", "study.name=widths")
    assert answer.status == 0, answer.errors
    trials = [json.loads(path.read_text()) for path in tuner.folder.glob("studies/widths/screen/*/trial.json")]
    assert len({trial["config"]["network"]["layers"][1]["dense"] for trial in trials}) == 3
    assert {trial["config"]["network"]["layers"][0]["dense"] for trial in trials} == {64}
    found = to_json(compose(config_loader(Path("studies/widths")), "train", ["experiment=winner"]))
    assert found["network"]["layers"][1]["dense"] in {
        trial["config"]["network"]["layers"][1]["dense"] for trial in trials
    }


def test_a_winner_keeps_the_network_of_its_critic(tmp_path: Path) -> None:
    typed = ["agent=ddpg", "+network@network.critic=mlp", "network.critic.hidden_sizes=[9]"]
    wanted = to_json(compose(config_loader(), "train", typed))
    configs = TrainingConfigs(typed)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "winner.yaml").write_text(configs.experiment(wanted, "it"))
    found = to_json(compose(config_loader(tmp_path), "train", ["experiment=winner", *configs.removals(wanted)]))
    assert found["network"] == wanted["network"]
    assert found["network"]["critic"]["hidden_sizes"] == [9]


SIGNS = "env.id=tests.note_rl.dictionaries:NoteRLSigns-v0"


def test_encoders_of_keys_reach_the_agent_and_are_played_again(tuner: CommandLine) -> None:
    (tuner.folder / "mine" / "network").mkdir(parents=True)
    (tuner.folder / "mine" / "network" / "camera.yaml").write_text(
        "defaults: [dict]\nencoders: {image: {layers: [{conv: {filters: 2, size: 3}}, flatten]}, sign: null}\n"
    )
    kept = config_of(tuner, *PPO, SIGNS, "--config-dir", "mine", "network=camera", "network.hidden_sizes=[5]")
    agent: Any = build_run(RunConfig.from_json(kept)).agent
    assert widths(agent.actor) == [(2, 1, 3, 3), (5, 4 * 4 * 2 + 1), (4, 5)]
    answer = tuner("play", "run", "num_episodes=1", "gif=null")
    assert answer.status == 0, answer.errors


ENCODERS = "network.encoders={image: {layers: [flatten]}, sign: null}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("agent=dqn", SIGNS, "network.encoders=[1]"), "network.encoders=[1] must be a group of settings"),
        (("agent=dqn", SIGNS, "network.encoders={image: null}"), "network.encoders has none for sign, which shows"),
        (("agent=dqn", ENCODERS), "network.encoders are for observations that are dictionaries"),
    ],
)
def test_encoders_that_do_not_fit_are_refused(tuner: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in tuner.refused("train", *SHORT, "network=dict", *words)


def test_a_memory_reaches_the_agent_and_is_played_and_exported(tuner: CommandLine) -> None:
    kept = config_of(
        tuner, *PPO, "network=gru", "network.units=3", "network.hidden_sizes=[5]", "network.head_sizes=[6]"
    )
    agent: Any = build_run(RunConfig.from_json(kept)).agent
    assert sorted(widths(agent.actor)) == [(2, 6), (3, 9), (5, 4), (6, 3), (9, 5)]
    answer = tuner("play", "run", "num_episodes=1", "gif=film.gif")
    assert answer.status == 0, answer.errors
    assert answer.output.splitlines()[-1] == "film of one episode: run/film.gif"
    assert (tuner.folder / "run" / "film.gif").read_bytes().startswith(b"GIF89a")
    answer = tuner("export", "run", "format=torch")
    assert answer.output.splitlines()[-1] == (
        "observation float32 [batch, 4], policy float32 [batch, 3], episode_start bool [batch] -> "
        "action int64 [batch], scores float32 [batch, 2], next_policy float32 [batch, 3]"
    )


@pytest.mark.parametrize(
    ("agent", "words", "message"),
    [
        ("dqn", ("network=lstm",), "network=lstm is a network with a memory, and DQN has no place for its state"),
        ("trpo", ("network=gru",), "network=gru is a network with a memory, and TRPO has no place for its state"),
        ("ppo", ("network=lstm", "+network@network.critic=mlp"), "network=lstm gives the value a memory, too"),
        ("ppo", ("network=lstm", "network.cell=rnn"), "network.cell=rnn is not possible: it must be one of lstm, gru"),
        (
            "ppo",
            ("network=gru", "strategy=ddp"),
            "network=gru is a network with a memory, which one process trains: leave strategy=ddp out",
        ),
        ("ppo", ("network=lstm", "backend=keras", "strategy=parameter_server"), "leave strategy=parameter_server out"),
        ("ppo", ("buffer.sequence_length=4",), "buffer.sequence_length=4 is about agents with a memory"),
        ("ppo", ("network=lstm", "adaptive=gns"), "an agent with a memory (network=lstm) learns from whole sequences"),
        ("ppo", ("network=gru", "env=catch", "network.layers=[]"), "of which network=gru would take every pixel"),
    ],
)
def test_a_memory_without_a_place_is_refused(
    tuner: CommandLine, agent: str, words: tuple[str, ...], message: str
) -> None:
    assert message in tuner.refused("train", *SHORT, *SMALL_AGENTS[agent], *words, "hydra.run.dir=run")


@pytest.mark.parametrize(
    ("agent", "words", "message"),
    [
        (
            "ppo",
            ("network.noisy_std=0.5",),
            "network.noisy_std=0.5 gives layers noise, which PPO does not draw: set it",
        ),
        ("sac", ("+network@network.critic=mlp", "network.critic.noisy_std=0.2"), "network.critic.noisy_std=0.2 gives"),
        (
            "a2c",
            ("network=layers", "network.layers=[{dense: {units: 4, noisy_std: 0.1}}]"),
            "noisy_std=0.1 gives layers",
        ),
    ],
)
def test_noise_that_an_agent_does_not_draw_is_refused(
    tuner: CommandLine, agent: str, words: tuple[str, ...], message: str
) -> None:
    refusal = tuner.refused("train", *SHORT, *SMALL_AGENTS[agent], *words)
    assert message in refusal
    assert refusal.endswith("use agent=dqn, double_dqn, dueling_dqn, prioritized_dqn or rainbow\n")


@pytest.mark.parametrize(
    "words", [("agent=dqn", "policy=greedy"), ("agent=rainbow", "policy=greedy", "network.noisy_std=0")]
)
def test_a_greedy_policy_without_noise_is_refused(tuner: CommandLine, words: tuple[str, ...]) -> None:
    assert "policy=greedy never explores with DQN" in tuner.refused("train", *SHORT, *words)
    assert tuner("train", "agent=rainbow", "policy=greedy", "--cfg", "job").status == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("network=mlp",),
            "R2D2 learns from what its network remembers, and this network has no memory: use network=l",
        ),
        (
            ("buffer=replay",),
            "R2D2 reads the states in which it acted, which come with sequences of steps: use buffer=recurrent",
        ),
        (
            ("buffer=rollout",),
            "R2D2 learns from old transitions again and again, and rollouts are forgotten: use buffer=recurrent",
        ),
        (("buffer=prioritized",), "use buffer=recurrent"),
        (("agent.burn_in=20",), "agent.burn_in=20 is not possible: it must be at least 0 and below 1"),
        (("env=pendulum",), "R2D2 chooses one of several actions"),
        (("network.shared=true",), "network.shared=True is for agents whose value is a network of observations alone"),
        (("strategy=ddp",), "network=lstm is a network with a memory, which one process trains"),
        (("adaptive=gns",), "an agent with a memory (network=lstm) learns from whole sequences"),
    ],
)
def test_what_does_not_go_with_recurrent_replay_is_refused(
    tuner: CommandLine, words: tuple[str, ...], message: str
) -> None:
    assert message in tuner.refused("train", "agent=r2d2", "tracker=jsonl", *words, "hydra.run.dir=run")
