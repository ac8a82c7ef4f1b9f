"""One hint for each way to mistype a line, and the words of other libraries."""

import shlex

import pytest

from tests.tuner.command_line import SMALL, CommandLine
from tuner.checking.unreadable import refusal_of

SAID = {
    "agent = ppo": "cannot read 'agent': there are no spaces around =: type agent=ppo",
    "agent= ppo": "there are no spaces around =: type agent=ppo",
    "agent =ppo": "there are no spaces around =: type agent=ppo",
    "agent:ppo": "a setting and its value are joined by =: type agent=ppo",
    "optimizer.learning_rate=1e\u22123": "type optimizer.learning_rate=1e-3",
    "checkpoint=\u201csmall\u201d": "type 'checkpoint=\"small\"'",
    "seed=\xe9tude": "quotes twice, for the shell and for Hydra: type 'seed=\"\xe9tude\"'",
    "'settings=[a.b=1,a.b=2 c=3]'": 'are put in quotes: type \'settings=["a.b=1","a.b=2 c=3"]\'',
    "seed=a=b": "quotes twice, for the shell and for Hydra: type 'seed=\"a=b\"'",
    "'network={a=0, b=[1,2]}'": "joined by a colon: type 'network={a: 0, b: [1,2]}'",
    "network.hidden_sizes=[64,64": "a bracket is missing, or one too many: type 'network.hidden_sizes=[64,64]'",
    "network.hidden_sizes=[64,64]]": "a bracket is missing, or one too many: type 'network.hidden_sizes=[64,64]'",
    '"seed=\'1"': "a quotation mark is missing: type 'seed=\"1\"'",
    "-m 'seed=interval(a,b)'": "interval is written interval(0.1,0.9), with two numbers",
    "-m 'seed=choice()'": "choice is written choice(a,b)",
    "seed": "cannot read 'seed': settings are written KEY=VALUE, such as seed=3",
    "tune": "tune is a command of its own: tuner tune ...",
    "agent@foo=ppo": "agent@foo=ppo: @foo would put this choice where nothing reads it: type agent=ppo",
    "env=CartPole-v1": "did you mean env=cartpole or env.id=CartPole-v1?",
    "policy=MlpPolicy": "did you mean network=mlp (policy is how an agent explores)?",
    "policy_kwargs=1": "here it is network.hidden_sizes, a list such as [64,64]",
    "policy_kwargs.net_arch=[64]": "here it is network.hidden_sizes, a list such as [64,64]",
    "optimizer.learning_rate=lin_0.001": "here that is typed optimizer.learning_rate=0.001 schedule=linear_lr",
    "agent=ppo agent.clip=lin_0.2": "typed agent.clip=0.2 '+schedule.clip={_target_: note_rl.schedules.Linear",
    "'agent.gamma=\"0.99\"'": "agent.gamma='0.99' is a text, and must be a number: type agent.gamma=0.99, without",
    "-cn report": "--config-name report is no configuration of tuner train",
    "experiment=ppo_cartpole agent=dqn": "experiment=ppo_cartpole holds settings of agent=ppo: leave agent=dqn out",
}


@pytest.mark.parametrize("line", SAID)
def test_each_mistake_has_one_hint(tuner: CommandLine, line: str) -> None:
    said = tuner.refused("train", *shlex.split(line))
    assert SAID[line] in said
    assert said.count("type ") <= 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["env=pendulum", "agent=sac", "space.env.kwargs.g=1"], "type '+env.kwargs.g=...' '+space.env.kwargs.g={low"),
        (
            ["env=pendulum", "agent=sac", "+space.env.kwargs.g={low: 1, high: 9}"],
            "not have: add it, '+env.kwargs.g=...'",
        ),
        (["storage.url=studies.db"], "storage.url=studies.db is a file, and no URL: write sqlite:///studies.db"),
        (["storage.url=my.journal"], "is a file, and no URL: write journal:///my.journal"),
        (["storage.url=sqlite://studies.db"], "has two slashes, and a file three: write sqlite:///studies.db"),
    ],
)
def test_studies(tuner: CommandLine, words: list[str], message: str) -> None:
    assert message in tuner.refused("tune", "plan=true", *words)


def test_no_correction_is_offered_that_cannot_be_read() -> None:
    assert str(refusal_of(["a{=1"], "a{=1")) == "cannot read 'a{=1': settings are written KEY=VALUE"


@pytest.mark.parametrize("words", [("help", "train"), ("--help", "train"), ("train", "help")])
def test_help_is_found_by_each_of_its_names(tuner: CommandLine, words: tuple[str, ...]) -> None:
    answer = tuner(*words)
    assert answer.status == 0
    assert answer.output == tuner("train", "--help").output


def test_an_environment_of_images_brings_its_network(tuner: CommandLine) -> None:
    def network(*words: str) -> str:
        return tuner("train", *words, "--cfg", "job", "-p", "network._target_").output.strip().rpartition(".")[2]

    assert network("agent=ppo", "env=catch") == "CNN"
    assert network("agent=ppo", "env=cartpole") == "MLP"
    assert network("agent=ppo", "env=catch", "network=mlp") == "MLP", "what is typed wins"
    assert network("experiment=dqn_catch", "agent=ppo") == network("experiment=dqn_catch")


def test_a_run_that_ends_before_learning_begins_says_so(tuner: CommandLine) -> None:
    answer = tuner("train", *SMALL)
    assert "before the first gradient step: buffer.learning_starts=1000; raise training.total_steps" in answer.output
    answer = tuner("train", *SMALL, "buffer.learning_starts=100")
    assert "nothing was learned" not in answer.output
