"""Mistakes: one or two lines that say what is wrong and what to type, status 2, no traceback, nothing written."""

import importlib.util
import os
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from tests.tuner.command_line import SMALL, CommandLine
from tuner.commands.preflight import preflight
from tuner.errors import UserError

TRAIN = {
    "unknown key": (["agent.gama=0.9"], "unknown key agent.gama; did you mean agent.gamma?"),
    "key without its group": (["gamma=0.9"], "unknown key gamma; did you mean agent.gamma?"),
    "key of another group": (["agent.learning_rate=1"], "did you mean optimizer.learning_rate?"),
    "key of another agent": (["agent.clip=0.1"], "unknown key agent.clip; agent has gamma, tau"),
    "unknown group": (["optimiser=adam"], "unknown key optimiser; did you mean optimizer?"),
    "group of another command": (
        ["sampler=tpe"],
        "sampler=tpe is not for this command, which has no group sampler: leave it out",
    ),
    "unknown choice": (["env=cartpol"], "there is no env=cartpol; did you mean env=cartpole?"),
    "unknown experiment": (["experiment=dqn_cartpol"], "did you mean experiment=dqn_cartpole"),
    "choice of none": (["agent=null"], "agent=null is not possible: choose one of "),
    "added top-level key": (["+typo=1"], "unknown key typo; --cfg job shows all there are"),
    "what only a study has": (["+study.num_trials=3"], "train runs no study; tuner tune does"),
    "another optimizer": (
        ["agent=a2c", "optimizer=sgd"],
        "optimizer.weight_decay; to do without, type ~optimizer.epsilon, or leave it out if you have typed it",
    ),
    "added key": (["+agent.gama=1"], "note_rl.agents.pytorch.DQN takes no gama; did you mean agent.gamma?"),
    "added key of a section": (["+training.steps=1"], "unknown key training.steps: training has no steps"),
    "added what is there": (["+agent.gamma=1"], "agent.gamma is there already; drop the +"),
    "removed what is not there": (["~agent.gama"], "did you mean agent.gamma?"),
    "removed from a section": (["~training.nokey"], "there is no training.nokey; training has total_steps"),
    "not a setting": (["agent"], "settings are written KEY=VALUE"),
    "unreadable value": (["agent.gamma=[0.9"], "cannot read 'agent.gamma=[0.9'"),
    "word for a number": (["agent.gamma=high"], "agent.gamma=high must be a number"),
    "nothing for a number": (["agent.gamma="], "agent.gamma='' must be a number"),
    "fraction for a count": (["buffer.batch_size=1.5"], "buffer.batch_size=1.5 must be a whole number"),
    "number for a list": (["network.hidden_sizes=64"], "must be a list of whole numbers such as [64, 64]"),
    "value for a section": (["training=3"], "training=3 must be a group of settings"),
    "seed": (["seed=-1"], "seed=-1 is not possible: it must be at least 0"),
    "no steps": (["training.total_steps=0"], "training.total_steps=0 is not possible: it must be at least 1"),
    "several values without -m": (["agent=dqn,"], "cannot read"),
    "a probability": (
        ["policy.eps=2"],
        "policy.eps=2 is not possible: it must be a probability, between 0 and 1\n",
    ),
    "a size of nothing": (["buffer.batch_size=0"], "buffer.batch_size=0 is not possible: it must be at least 1\n"),
    "a name one letter off": (["agent=dqm"], "there is no agent=dqm; did you mean agent=dqn?"),
    "a discount": (["agent.gamma=1.5"], "agent.gamma=1.5 is not possible: it must lie between 0 and 1"),
    "a learning rate": (
        ["optimizer.learning_rate=-1"],
        "optimizer.learning_rate=-1 is not possible: it must be above 0",
    ),
    "an empty layer": (
        ["network.hidden_sizes=[64,0]"],
        "network.hidden_sizes=[64, 0] is not possible: it must be at least 1",
    ),
    "a word in a list": (["network.hidden_sizes=[a]"], "network.hidden_sizes=['a'] must be a list of whole numbers"),
    "what tuner fills in": (["+agent.env=1"], "agent.env is filled in when the run is built: leave it out"),
    "replay for an on-policy agent": (
        ["agent=ppo", "buffer=replay"],
        "PPO learns from rollouts of its current policy: use buffer=rollout\n",
    ),
    "sequences for an agent of single transitions": (
        ["buffer=sequences"],
        "buffer=sequences has no gradient_steps, which is set for DQN: use buffer=replay, or type ~buffer",
    ),
    "hindsight without goals": (["buffer=hindsight"], "buffer=hindsight needs the reward of any pair of goals: an env"),
    "noise below zero": (
        ["agent=td3", "env=pendulum", "noise.sigma=-1"],
        "noise.sigma=-1 is not possible: it must be at least 0",
    ),
    "rollouts for an agent of replay": (
        ["buffer=rollout", "policy=softmax"],
        "DQN learns from old transitions again and again, and rollouts are forgotten: use buffer=replay\n",
    ),
    "several agents from rollouts": (
        ["agent=ppo", "training.multi_agent=true"],
        "training.multi_agent=true and buffer=rollout cannot be combined",
    ),
    "hindsight with several steps": (
        ["agent=ddpg_her", "buffer.num_steps=3"],
        "tuner train: buffer=hindsight and buffer.num_steps above 1 cannot be combined",
    ),
    "several agents where one is": (
        ["training.multi_agent=true"],
        "training.multi_agent=true lets several agents share an environment, and DQN is one agent: leave it out",
    ),
    "a choice among actions that are numbers": (
        ["agent=td3", "env=pendulum", "policy=eps_greedy"],
        "TD3 gives actions that are numbers, and EpsGreedyQPolicy chooses one of several",
    ),
    "noise by the state, not squashed": (
        ["agent=sac", "env=pendulum", "policy=gsde"],
        "SAC explores by the state with another policy than GSDEPolicy: use policy=squashed_gsde\n",
    ),
    "noise by the state, squashed": (
        ["agent=ppo_continuous", "env=pendulum", "policy=squashed_gsde"],
        "PPO explores by the state with another policy than SquashedGSDEPolicy: use policy=gsde\n",
    ),
    "noise by the state for an agent without": (
        ["agent=crossq", "env=pendulum", "policy=squashed_gsde"],
        "CrossQ has no state-dependent exploration, and SquashedGSDEPolicy is made for it: leave policy= out, or use",
    ),
    "a memory for an agent without a place for it": (
        ["agent=rainbow", "network=lstm"],
        "network=lstm is a network with a memory, and DQN has no place for its state: choose another network, or an",
    ),
    "more critics in a target than there are": (
        ["agent=crossq", "env=pendulum", "agent.num_critics=5", "agent.num_target_critics=6"],
        "agent.num_target_critics=6 is not possible: it must be at most the number of critics, 5\n",
    ),
    "no name": (["=3"], "=3 names no setting: settings are written KEY=VALUE"),
    "a setting of a tracker": (["tracker.wandb.mode=of"], "tracker.wandb.mode=of is unknown: it must be online"),
    "a word of another library": (["log_frequency=50"], "here it is progress.every, in training episodes"),
    "another one in its group": (
        ["optimizer.lr=1e-3"],
        "unknown key optimizer.lr: here it is optimizer.learning_rate\n",
    ),
    "another one alone": (["lr=1e-3"], "unknown key lr: here it is optimizer.learning_rate\n"),
    "another one with a plus": (["+lr=1e-3"], "unknown key lr: here it is optimizer.learning_rate\n"),
    "another one of what is not here": (["agent=dqn", "ent_coef=0"], "unknown key ent_coef; --cfg job shows all"),
    "a group without a choice": (["agent="], "agent= is without a choice: write agent=NAME (there is a2c, "),
    "a game": (["env=Pong"], "there is no env=Pong; did you mean env=atari env.game=pong?"),
    "a game as Gymnasium had it": (["env=MsPacmanNoFrameskip-v4"], "did you mean env=atari env.game=ms_pacman?"),
    "a game as ALE has it": (["env=ALE/Pong-v5"], "there is no env=ALE/Pong-v5; did you mean env=atari env.game=pong?"),
    "an id of Gymnasium": (["env=HalfCheetah-v5"], "did you mean env=halfcheetah or env.id=HalfCheetah-v5?"),
    "an unknown key in a group": (
        ["optimizer={learning_rate:1e-3,beta:1}"],
        "unknown key optimizer.beta; did you mean optimizer.beta1 or optimizer.beta2?",
    ),
    "a list of one environment": (["env=[cartpole]"], "env=[cartpole] is a list: type env=cartpole\n"),
    "lines for no episodes": (["progress=lines", "progress.every=0"], "progress.every=0 is not possible: it must be"),
    "a policy without likelihoods": (["agent=ppo", "policy=boltzmann"], "use policy=softmax"),
    "a contradiction": (
        ["buffer.batch_size=64", "buffer.capacity=32"],
        "train: buffer.batch_size=64 is more than the pool holds (buffer.capacity=32)",
    ),
    "a schedule of nothing": (
        ["+schedule.learning_rat={_target_: note_rl.schedules.Linear, start: 1, end: 0}"],
        "did you mean learning_rate?",
    ),
    "an entry without target": (["+schedule.clip=0.1"], "schedule.clip has no _target_"),
    "a schedule of what is read once": (
        ["agent=dqn", "+schedule.v_max={_target_: note_rl.schedules.Linear, start: 1, end: 0}"],
        "schedule.v_max: agent.v_max cannot change while the agent is trained, as it is read only when the agent is "
        "made: leave the schedule out",
    ),
    "a schedule of a whole number": (
        ["agent=tqc", "env=pendulum", "+schedule.num_quantiles={_target_: note_rl.schedules.Linear, start: 9, end: 5}"],
        "schedule.num_quantiles: agent.num_quantiles cannot change while the agent is trained, as it is a whole number",
    ),
    "a target that does not exist": (
        ["policy._target_=note_rl.policy.EpsGredyQPolicy"],
        "note_rl.policy has no 'EpsGredyQPolicy'; did you mean EpsGreedyQPolicy",
    ),
    "a module that does not exist": (["agent._target_=my_agents.DQN"], "no module named 'my_agents' can be imported"),
    "a reference to nothing": (
        ["schedule=linear_decay"],
        "schedule.clip.start refers to something that is not there: agent.clip; type ~schedule.clip to leave",
    ),
    "layers of no file": (
        ["network=cfg"],
        "network.layers: network=cfg reads its layers from a file: add network.file=",
    ),
    "an unset variable of the environment": (
        ["optimizer.learning_rate=${oc.env:UNSET_HERE}"],
        "optimizer.learning_rate is taken from the environment variable UNSET_HERE, which is not set: "
        "export UNSET_HERE=...",
    ),
    "an experiment of another agent": (
        ["experiment=td3_pendulum", "agent=ppo_continuous"],
        "unknown key buffer.capacity",
    ),
    "unknown environment": (["env.id=CartPol-v1"], "Did you mean: `CartPole`?"),
    "a custom environment without its module": (
        ["env.id=MyEnv-v0"],
        "there is no environment 'MyEnv-v0': Environment `MyEnv` doesn't exist; one of your own is written "
        "module:MyEnv-v0, after the module it is in",
    ),
    "unknown version": (["env.id=CartPole-v7"], "It provides versioned environments: [ `v0`, `v1` ]"),
    "unknown environment module": (["env.id=my_pkg:MyEnv-v0"], "no module named 'my_pkg' on the Python path"),
    "argument of the environment": (
        ["+env.kwargs.size=3"],
        "'CartPole-v1': it got an unexpected keyword argument 'size'\n",
    ),
    "argument without +": (["env.kwargs.size=3"], "env.kwargs has no size yet: to add one, type +env.kwargs.size=3"),
    "a list where settings are": (
        ["agent=prioritized_dqn", "schedule.eps=[]", "agent={a:{b:[{}]}}"],
        "agent={a:{b:[{}]}} is not possible: a list and a group of settings meet in one place",
    ),
    "an argument that a wrapper refuses": (
        ["wrapper=frame_stack", "wrapper.stack.stack_size=-1"],
        "the wrapper FrameStackObservation cannot be put around the environment: The stack_size needs to be greater",
    ),
    "no folder to resume": (["resume=''"], "resume='' is not possible: it must be the folder of a run"),
    "a wrapper without +": (
        ["wrapper.mine=3"],
        "wrapper has no mine yet: to add one, type '+wrapper.mine={_target_: package.module.Name}'",
    ),
    "continuous actions": (["env=pendulum"], "DQN chooses one of several actions, but Pendulum-v1 has"),
    "discrete actions": (["agent=td3"], "TD3 chooses vectors of numbers, but CartPole-v1 has"),
    "a policy for continuous actions": (
        ["agent=ppo", "policy=gaussian"],
        "GaussianPolicy chooses vectors of numbers, but the environment takes Discrete(2); take an agent that chooses "
        "among actions (agent=dqn, ppo, a2c, trpo, acer, sac_discrete), or an environment",
    ),
    "a policy for discrete actions": (
        ["agent=ppo", "env=pendulum"],
        "SoftmaxPolicy chooses one of several actions, but the environment takes Box(-2.0, 2.0, (1,), float32); take "
        "an agent whose actions are numbers (agent=ppo_continuous, a2c_continuous, trpo_continuous, ddpg, td3, sac, "
        "crossq, tqc),",
    ),
    "noise on discrete actions": (["noise=gaussian"], "EpsGreedyQPolicy takes no noise: use noise=none"),
    "a tracker that is not chosen": (
        ["tracker=tensorboard", "tracker.wandb.mode=offline"],
        "unknown key tracker.wandb.mode: tracker wandb is not chosen; choose 'tracker=[tensorboard,wandb]'",
    ),
    "a layer that is not there": (
        ["env=catch", "network=nature_cnn", "network.layers.9.dense=3"],
        "unknown key network.layers.9.dense; network.layers has 4 entries, the first of which is network.layers.0",
    ),
    "widths of an agent": (["+agent.hidden_size=512"], "no effect beside a chosen network: type network.hidden_sizes="),
    "a width in place of widths": (["network.hidden_sizes=3"], "of one, type network.hidden_sizes=[3]"),
    "sequences for an agent that needs them": (
        ["agent=acer", "buffer=replay"],
        "the loss of ACER reads ended, which comes with sequences of steps: use buffer=sequences",
    ),
    "resume of nothing": (["resume=runs/mine"], "runs/mine is not the folder of a run"),
    "a folder that is no folder": (["--config-dir", "groups"], "--config-dir groups: there is no such folder"),
    "a tracker that is partial": (
        ["++tracker.wandb._partial_=true"],
        "tracker.wandb._partial_=true is not possible: tracker.wandb is built at once",
    ),
    "partial settings": (["+checkpoint={_partial_: true}"], "checkpoint._partial_ is not possible: checkpoint holds"),
    "an unknown configuration": (["--config-name", "trian"], "there is no configuration trian.yaml"),
}


TUNE = {
    "a group that is searched": (
        ["space={network: {low: 1, high: 2}}"],
        "network is a group of settings, and no group is searched; search one of them: hidden_sizes, activation",
    ),
    "generations without a population": (
        ["study.evolution.generations=4"],
        "unknown key study.evolution.generations: it is of a population; choose study=pbt as well",
    ),
    "a setting that is not searched": (
        ["space.agent.tau.low=0.1"],
        "agent.tau is not searched yet: to add it to the space, type '+space.agent.tau={low: 0.1, high: ...}'",
    ),
    "a misspelt setting of the space": (["space.agent.tua.low=0.1"], "did you mean space.agent.tau.low?"),
    "choices in place of a range": (
        ["space.agent.gamma.choices=[0.9,0.99]"],
        "type '~space.agent.gamma' '+space.agent.gamma={choices: [0.9,0.99]}'",
    ),
    "a missing value among choices": (
        ["+space.agent.tau={choices: [0.1, null]}"],
        "space.agent.tau reaches null, and no run can have that: agent.tau=null must be a number",
    ),
    "a missing value of the buffer": (
        ["~space.buffer.batch_size", "+space.buffer.batch_size={choices: [16, null]}"],
        "space.buffer.batch_size reaches null, and no run can have that: buffer.batch_size=null must be a whole number",
    ),
    "no end of a range": (
        ["+space.agent.tau={low: null, high: 1}"],
        "space.agent.tau.low=null must be a finite number",
    ),
    "an unknown metric": (["study.metric=foo"], "seconds only after another objective: study.metric=[mixed,seconds]"),
    "no race": (
        ["study.num_race=0"],
        "at least 2; study.num_race_seeds=0 for no race, study.num_race=null for as many",
    ),
    "an unknown start": (["warm_start=nope"], "(or a list); there is a2c_acrobot, "),
    "an empty start": (["warm_start=''"], " more\n"),
    "GPUs where there are none": (
        ["executor.gpus=2"],
        "executor.gpus=2 asks for GPUs, and CUDA_VISIBLE_DEVICES= shows none",
    ),
}


@pytest.mark.parametrize("case", TUNE)
def test_tune(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    arguments, expected = TUNE[case]
    assert expected in tuner.refused("tune", *arguments)


OWN = """
from note_rl import RL_pytorch
from note_rl.agents.pytorch import DQN, PPO

class Cautious(DQN):
    def __init__(self, *, trust, **others):
        super().__init__(**others)

class Bold(PPO):
    def __init__(self, **others):
        super().__init__(**others)

class Other(DQN):
    def __init__(self, network, gamma=0.9, tau=1.0):
        super().__init__(network=network)

class Walker(RL_pytorch):
    on_policy = True

    def __init__(self, env, network, device, gamma=0.9):
        super().__init__()

class Reader(RL_pytorch):
    batch_attributes = ("ended",)

    def __init__(self, env, network, device, gamma=0.9):
        super().__init__()

class Track:
    def __init__(self, host): ...

def train(lr, seed): ...

def decorated(function):
    return lambda **more: function(lr=1.0, **more)

@decorated
def given(lr): ...
"""
OWN_FILES = {
    "agent/cautious": "# @package _global_\ndefaults: [dqn]\nagent: {_target_: mine_refused.Cautious}\n",
    "agent/bold": "# @package _global_\ndefaults: [ppo]\nagent: {_target_: mine_refused.Bold}\n"
    "buffer: {num_epochs: 3}\n",
    "tracker/mine": "track: {_target_: mine_refused.Track}\n",
}
OF_DQN = ("double", "dueling", "stream_size", "values", "num_atoms", "v_min", "v_max", "num_quantiles")
OWN_CASES = {
    "an argument that nobody gives": ("train", ["agent=cautious"], "type +agent.trust=...\n"),
    "the same of a plan": ("tune", ["agent=cautious", "space=dqn", "plan=true"], "type +agent.trust=...\n"),
    "it is to be added": ("train", ["agent=cautious", "agent.trust=1"], "type +agent.trust=1\n"),
    "of a tracker": (
        "train",
        ["tracker=mine"],
        "tracker.track.host is missing, and Track needs it: type +tracker.track.",
    ),
    "of a function": ("tune", ["agent=function", "agent._target_=mine_refused.train"], "type +agent.lr=...\n"),
    "an inherited range": (
        "train",
        ["agent=cautious", "+agent.trust=1", "agent.gamma=7"],
        "agent.gamma=7 is not possible: it must lie between 0 and 1\n",
    ),
    "one of them is misspelt": (
        "train",
        ["agent._target_=mine_refused.Reader", *(f"~agent.{name}" for name in OF_DQN), "~agent.tau", "+agent.gama=1"],
        "takes no gama; did you mean agent.gamma?\n",
    ),
    "replay for one that is on-policy": ("train", ["agent=bold", "buffer=replay"], "use buffer=rollout\n"),
    "no space": (
        "tune",
        ["agent=cautious", "+agent.trust=1"],
        "such as space=dqn, or say here what is searched: space=none '+space.agent.NAME={low: ..., high: ...}'\n",
    ),
    "arguments that it does not take": (
        "train",
        ["agent._target_=mine_refused.Other", *(f"~agent.{name}" for name in OF_DQN)],
        "mine_refused.Other takes no env: an agent is made with env=, network= and device=",
    ),
}


OF_ANOTHER = " ".join(f"~agent.{name}" for name in ("tau", *OF_DQN))
"""Settings of agent=dqn that a class which is no DQN does not take."""


@pytest.mark.parametrize(
    ("name", "buffer", "more"),
    [("Walker", "rollout", " ~buffer.gradient_steps"), ("Reader", "sequences", " ~buffer.gradient_steps")],
)
def test_all_settings_of_another_agent_are_named_at_once(own: CommandLine, name: str, buffer: str, more: str) -> None:
    typed = [f"agent._target_=mine_refused.{name}", f"buffer={buffer}", "policy=softmax"]
    told = own.refused("train", *typed)
    assert f"and type {OF_ANOTHER}{more}\n" in told
    preflight("train", [*typed, *OF_ANOTHER.split(), *more.split()])


@pytest.fixture
def own(tuner: CommandLine) -> CommandLine:
    for name, text in OWN_FILES.items():
        (tuner.folder / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tuner.folder / "own" / f"{name}.yaml").write_text(text)
    (tuner.folder / "mine_refused.py").write_text(OWN)
    return tuner


@pytest.mark.parametrize("case", OWN_CASES)
def test_mistakes_in_custom_parts_are_refused(own: CommandLine, case: str) -> None:
    command, arguments, expected = OWN_CASES[case]
    assert expected in own.refused(command, "--config-dir", "own", *arguments)


def test_a_decorator_may_give_what_a_function_needs(own: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(own.folder))
    preflight("tune", ["agent=function", "agent._target_=mine_refused.given"])


@pytest.mark.parametrize("case", TRAIN)
def test_train(tuner: CommandLine, case: str) -> None:
    arguments, expected = TRAIN[case]
    answer = tuner.refused("train", *arguments)
    assert answer.startswith("tuner train: ")
    assert expected in answer


@pytest.mark.parametrize(
    "case", ["unknown key", "unknown choice", "added key", "unknown environment", "continuous actions"]
)
def test_tune_refuses_the_same(tuner: CommandLine, case: str) -> None:
    arguments, expected = TRAIN[case]
    assert expected in tuner.refused("tune", *arguments)


def test_a_mistake_in_any_value_of_a_sweep(tuner: CommandLine) -> None:
    assert "in the job with agent=dqnn: there is no agent=dqnn" in tuner.refused(
        "train", "-m", "agent=ppo,dqnn", *SMALL
    )
    said = tuner.refused("train", "-m", "agent=ppo,dqn", "agent.clip=0.3", "seed=1,2", *SMALL)
    assert "in the job with agent=dqn seed=1: unknown key agent.clip" in said


def test_several_values_need_multirun(tuner: CommandLine) -> None:
    answer = tuner.refused("train", "seed=1,2", *SMALL)
    assert answer == "tuner train: seed=1,2 lists several values: add -m to run each of them\n"
    assert "or write a list as agent.hidden_size=[8,9]" in tuner.refused("train", "agent.hidden_size=8,9", *SMALL)


def test_of_some_groups_there_is_one_choice_only(tuner: CommandLine) -> None:
    answer = tuner.refused("train", "agent=[dqn,ppo]", *SMALL)
    assert answer == "tuner train: agent=[dqn,ppo]: there can be one agent only; -m agent=dqn,ppo runs each of them\n"


@pytest.mark.parametrize(("backend", "module"), [("keras", "tensorflow"), ("keras", "keras"), ("torch", "torch")])
def test_a_missing_framework_names_its_extra(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, backend: str, module: str
) -> None:
    find_spec = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == module else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    answer = tuner.refused("train", f"backend={backend}")
    assert f"needs {module}, which is not installed: pip install 'note-rl[{backend}]'" in answer


def test_what_the_folder_of_a_run_is_made_of_is_named() -> None:
    with pytest.raises(UserError, match=r"nothing is missing, and hydra\.run\.dir is made of it: leave it in"):
        preflight("tune", ["hydra.run.dir=${nothing}"])


def test_a_folder_that_cannot_be_used(tuner: CommandLine) -> None:
    (tuner.folder / "file").touch()
    in_the_way = f"cannot be used: {tuner.folder}/file is a file; choose another with"
    assert f"{tuner.folder}/file/run {in_the_way} hydra.run.dir=" in tuner.refused(
        "train", "hydra.run.dir=file/run", *SMALL
    )
    assert f"{in_the_way} hydra.sweep.dir=" in tuner.refused("train", "-m", "seed=1,2", "hydra.sweep.dir=file", *SMALL)
    assert f"{in_the_way} study.folder=" in tuner.refused("tune", "study.folder=file", *SMALL)


def test_a_folder_that_holds_a_run(tuner: CommandLine) -> None:
    (tuner.folder / "mine").mkdir()
    (tuner.folder / "mine" / "config.yaml").touch()
    assert "holds a run already; continue it with resume=" in tuner.refused("train", "hydra.run.dir=mine", *SMALL)


def test_a_configuration_file_that_is_no_yaml(tuner: CommandLine) -> None:
    (tuner.folder / "mine" / "optimizer").mkdir(parents=True)
    (tuner.folder / "mine" / "optimizer" / "broken.yaml").write_text("a: [1\nb: }")
    answer = tuner.refused("train", "--config-dir", "mine", "optimizer=broken")
    assert "cannot be read" in answer
    assert "broken.yaml" in answer


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "name the folder of a run: tuner play RUN, such as runs/NAME"),
        (["runs/mine"], "runs/mine is not the folder of a run, nor a study"),
        (["one", "two"], "takes one run, got one and two; settings are written KEY=VALUE"),
        (["runs/mine", "num_episode=3"], "unknown key num_episode; did you mean num_episodes?"),
    ],
)
def test_play(tuner: CommandLine, arguments: list[str], expected: str) -> None:
    assert expected in tuner.refused("play", *arguments)


def test_play_of_nothing_names_the_run_that_was_begun_last(tuner: CommandLine) -> None:
    for number, name in enumerate(("b", "a")):
        (tuner.folder / "runs" / name).mkdir(parents=True)
        (tuner.folder / "runs" / name / "config.yaml").touch()
        os.utime(tuner.folder / "runs" / name / "config.yaml", (number, number))
    assert tuner.refused("play").endswith("tuner play RUN, such as runs/a\n")


def test_play_of_what_was_never_saved(tuner: CommandLine) -> None:
    (tuner.folder / "mine").mkdir()
    (tuner.folder / "mine" / "config.yaml").write_text(tuner("train", "--cfg", "job", "--resolve").output)
    assert "mine has no checkpoint yet" in tuner.refused("play", "mine")
    (tuner.folder / "mine" / "checkpoint.safetensors").write_bytes(b"nonsense")
    assert "checkpoint.safetensors is damaged" in tuner.refused("play", "mine")


def test_dashboard(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no nothing.db here: run `tuner tune` first" in tuner.refused("dashboard", "sqlite:///nothing.db")
    (tuner.folder / "damaged.db").write_bytes(b"nonsense" * 1000)
    assert "damaged.db" in tuner.refused("dashboard", "sqlite:///damaged.db")
    find_spec: Any = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "optuna_dashboard" else find_spec(name)
    )
    assert "pip install 'note-rl[report]'" in tuner.refused("dashboard")
