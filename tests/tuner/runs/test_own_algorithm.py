"""An algorithm of the user's own, written from nothing: one Python file and one YAML."""

import json
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.tuner.command_line import CommandLine

ALGORITHM = """
import torch

from note_rl import RL_pytorch
from note_rl.agents.shared.spaces import discrete_spaces


class ActorCritic(RL_pytorch):
    on_policy = True
    action_kinds = ("discrete",)
    batch_attributes = ("log_prob_old", "advantage", "return_")

    def __init__(self, *, env, network, device, gamma=0.99, value_coef=0.5):
        super().__init__()
        spaces = discrete_spaces(env, "ActorCritic", None, None)
        self.env, self.gamma, self.value_coef = env, gamma, value_coef
        self.actor = network(spaces.obs_shape, spaces.num_actions).to(device)
        self.critic = network(spaces.obs_shape, 1).to(device)
        self.param = [*self.actor.parameters(), *self.critic.parameters()]

    def action(self, s):
        return self.actor(s).softmax(-1)

    def value(self, s):
        return self.critic(s)[:, 0]

    def __call__(self, s, a, next_s, r, d):
        log_prob = self.actor(s).log_softmax(-1).gather(1, a[:, None])[:, 0]
        ratio = (log_prob - self.log_prob_old).exp()
        return -ratio * self.advantage + self.value_coef * (self.value(s) - self.return_).square()
"""
CHOICE = """# @package _global_
defaults:
  - override /buffer: rollout
  - override /policy: softmax
agent:
  _target_: my_algorithm.ActorCritic
  gamma: 0.95
  value_coef: 0.25
"""
CHOSEN = ("--config-dir", "my_conf", "agent=actor_critic", "tracker=jsonl")
BRIEF = ("training.total_steps=400", "evaluation.num_points=2", "evaluation.num_episodes=1", "network.hidden_sizes=[8]")
DECLARATIONS = ("    on_policy = ", "    action_kinds = ", "    batch_attributes = ")
SHORT = ("buffer.num_steps=40", "buffer.batch_size=20", "buffer.num_epochs=3")


@pytest.fixture
def own(tuner: CommandLine) -> Iterator[CommandLine]:
    (tuner.folder / "my_algorithm.py").write_text(ALGORITHM)
    (tuner.folder / "my_conf" / "agent").mkdir(parents=True)
    (tuner.folder / "my_conf" / "agent" / "actor_critic.yaml").write_text(CHOICE)
    yield tuner
    sys.modules.pop("my_algorithm", None)


def test_it_is_composed_and_trained(own: CommandLine) -> None:
    answer = own("train", *CHOSEN, *BRIEF, *SHORT, "agent.gamma=0.9", "hydra.run.dir=mine")
    assert (answer.status, answer.errors) == (0, "")
    used = yaml.safe_load((own.folder / "mine" / "config.yaml").read_text())
    assert used["agent"] == {"_target_": "my_algorithm.ActorCritic", "gamma": 0.9, "value_coef": 0.25}
    result = json.loads((own.folder / "mine" / "result.json").read_text())
    assert (result["outcome"], result["num_env_steps"]) == ("complete", 400)
    assert result["num_gradient_steps"] == 10 * 3 * 2  # rollouts, epochs, minibatches


def test_the_error_of_a_choice_that_is_a_level_too_deep_names_its_first_line(own: CommandLine) -> None:
    (own.folder / "my_conf" / "agent" / "deep.yaml").write_text("agent:\n  _target_: my_algorithm.ActorCritic\n")
    answer = own("train", "--config-dir", "my_conf", "agent=deep")
    assert answer.status == 2
    assert (
        "agent.agent is one level too deep: a file that says agent: must begin with # @package _global_"
        in answer.errors
    )


def test_the_error_of_a_choice_that_overrides_another_without_its_first_line_names_that_line(own: CommandLine) -> None:
    (own.folder / "my_conf" / "agent" / "deep.yaml").write_text(CHOICE.replace("# @package _global_\n", ""))
    answer = own("train", "--config-dir", "my_conf", "agent=deep")
    assert answer.status == 2
    wanted = "agent=deep: its file chooses other groups (override), so its first line must be # @package _global_"
    assert wanted in answer.errors


def test_the_error_of_an_experiment_without_its_first_line_names_that_line(own: CommandLine) -> None:
    (own.folder / "my_conf" / "experiment").mkdir()
    (own.folder / "my_conf" / "experiment" / "first.yaml").write_text("training:\n  total_steps: 100\n")
    answer = own("train", "--config-dir", "my_conf", "experiment=first")
    assert answer.status == 2
    assert "experiment holds choices, no settings: its file must begin with # @package _global_" in answer.errors


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("backend=keras", "ActorCritic is written in PyTorch: use backend=torch"),
        ("env=pendulum", "ActorCritic chooses one of several actions, but Pendulum-v1 has the action space Box"),
        ("buffer=replay", "ActorCritic learns from rollouts of its current policy: use buffer=rollout"),
        (
            "policy=eps_greedy",
            "the loss of ActorCritic reads log_prob_old, which comes with buffer=rollout and",
        ),
        ("agent.value_coeff=1", "did you mean agent.value_coef"),
    ],
)
def test_its_wrong_use_is_refused_before_anything_runs(own: CommandLine, wrong: str, message: str) -> None:
    assert message in own.refused("train", *CHOSEN, wrong)
    assert "my_algorithm" not in sys.modules


def test_a_declaration_that_means_nothing_is_refused(own: CommandLine) -> None:
    (own.folder / "my_algorithm.py").write_text(ALGORITHM.replace('("discrete",)', '("discrete")'))
    said = own.refused("train", *CHOSEN)
    assert (
        "ActorCritic.action_kinds must be a tuple of names among discrete, multi_discrete, multi_binary, continuous, "
        "bounded; got 'discrete'" in said
    )


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ((), "ActorCritic learns from rollouts of its current policy"),
        (("buffer=rollout",), "the loss of ActorCritic reads expert_obs, which comes with buffer.expert"),
    ],
)
def test_what_is_worked_out_in_the_file_is_refused_when_training_begins(
    own: CommandLine, further: tuple[str, ...], message: str
) -> None:
    hidden = ALGORITHM.replace("= True", "= bool(1)").replace('"return_")', '"return_") + ("expert_obs",)')
    (own.folder / "my_algorithm.py").write_text(hidden)
    answer = own("train", *CHOSEN, *BRIEF, "buffer=replay", *further, "hydra.run.dir=mine")
    assert answer.status != 0
    assert message in answer.errors


def test_an_algorithm_that_declares_nothing_is_refused_when_its_loss_is_first_evaluated(own: CommandLine) -> None:
    silent = "\n".join(line for line in ALGORITHM.splitlines() if not line.startswith(DECLARATIONS))
    assert len(silent.splitlines()) == len(ALGORITHM.splitlines()) - len(DECLARATIONS)
    (own.folder / "my_algorithm.py").write_text(silent)
    answer = own("train", *CHOSEN, *BRIEF, "buffer=replay", "buffer.learning_starts=64", "hydra.run.dir=mine")
    assert answer.status != 0
    assert "__call__ reads self.log_prob_old, which comes with buffer=rollout" in answer.errors
    assert own("train", *CHOSEN, *BRIEF, *SHORT, "hydra.run.dir=second").status == 0
