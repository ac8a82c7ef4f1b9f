"""From the configuration of `tuner tune` to a study, or a refusal before anything is written."""

import re
from itertools import zip_longest
from typing import Any

import numpy as np
import optuna
import pytest
from omegaconf import OmegaConf

from note_rl.settings import RolloutSettings
from tests.tuner.command_line import SMALL_AGENTS, CommandLine
from tests.tuner.commands.fake_studies import FAKE, SMALL_STUDY, STORAGE, tune
from tuner.commands.preflight import preflight
from tuner.commands.tune import define
from tuner.config.composition import conf_folder, to_json
from tuner.config.paths import set_path
from tuner.study import StudyStore, summarise
from tuner.study.storage.store import DEFINITION

pytestmark = pytest.mark.usefixtures("fake_executor")


def test_the_name_of_a_study_tells_what_it_is_about(tuner: CommandLine) -> None:
    tuner("tune", *FAKE, *SMALL_STUDY[:-1], "agent=ppo", "env.id=tests.tuner.studies:Mine-v0")
    answer = tuner("tune", *FAKE, *SMALL_STUDY[:-1], "agent=ppo")
    assert answer.status == 0
    assert (tuner.folder / "studies" / "ppo-CartPole-v1-torch-quick" / "screen").is_dir()
    assert tuner("tune", *FAKE, *SMALL_STUDY[:-1], "agent=ppo", "seed=2").status == 0
    assert (tuner.folder / "studies" / "ppo-CartPole-v1-torch-quick-seed2" / "screen").is_dir()


def test_a_default_that_is_searched_too() -> None:
    typed = ["agent=dqn", "++agent.gamma=0.975"]
    definition = define(preflight("tune", typed), typed)
    assert definition.config["agent"]["gamma"] == 0.975
    assert "agent.gamma" in definition.space.paths


def test_a_study_from_before_a_parameter_was_searched_goes_on_as_it_was_begun(tuner: CommandLine) -> None:
    assert tuner("tune", *FAKE, *SMALL_STUDY, "agent=ppo", "network=mlp_tanh").status == 0
    now = ("tune", *FAKE, *SMALL_STUDY, "agent=ppo")
    said = tuner.refused(*now)
    assert "network.activation is searched over tanh, relu, and was not searched before.\ngo on without that" in said
    answer = tuner(*now, "study.as_begun=true")
    assert (answer.status, answer.errors) == (0, ""), answer
    said = tuner.refused(*now, "study.as_begun=true", "+space.training.normalise_obs={choices: [false, true]}")
    assert "goes on with the space that it was begun with, and space.training.normalise_obs is typed: leave" in said


def test_a_study_that_was_begun_with_a_constant_rate_goes_on_with_it(tuner: CommandLine) -> None:
    now = ("tune", *FAKE, *SMALL_STUDY, "agent=ppo")
    assert tuner(*now, "schedule=none").status == 0
    assert "schedule.learning_rate._target_ is new" in tuner.refused(*now)
    answer = tuner(*now, "study.as_begun=true")
    assert (answer.status, answer.errors) == (0, ""), answer
    assert "is new" in tuner.refused(*now, "study.as_begun=true", "schedule=linear_lr")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("network._target_", "my_rl.network", "asks for code that tuner does not build by itself"),
        ("optimizer.learning_rate", "${oc.env:HOME}", "refers to something else in optimizer.learning_rate"),
    ],
)
def test_code_that_only_the_storage_names_is_not_run_to_go_on(
    tuner: CommandLine, path: str, value: str, said: str
) -> None:
    now = ("tune", *FAKE, *SMALL_STUDY, "agent=ppo")
    assert tuner(*now, "schedule=none").status == 0
    with StudyStore(STORAGE) as store:
        [name] = store.names()
        study = store.find(name)
        assert study is not None
        definition = study.user_attrs[DEFINITION]
        set_path(definition["config"], path, value)
        study.set_user_attr(DEFINITION, definition)
    assert said in tuner.refused(*now, "study.as_begun=true")


NOT_SEARCHED = ["~space.buffer.num_steps", "~space.buffer.batch_size"]
REFUSED = {
    "a space key that does not exist": (["+space.agent.gama={low:0.9,high:0.99}"], "agent.gamma?"),
    "an empty range": (["space.policy.eps.high=0.001"], "space.policy.eps is an empty range"),
    "a log range from 0": (["space.optimizer.learning_rate.low=0"], "must stay above 0, but low=0"),
    "a gamma of 1": (["space.agent.gamma.high=1.0"], "must stay below 1, but high=1"),
    "no power of two": (["space.buffer.batch_size.low=20"], "low=20 is not a power of two: use 16"),
    "fixed and searched": (["agent.gamma=0.98"], "agent.gamma is both fixed on the command line and searched"),
    "an unknown leaf key": (["+space.agent.gamma.lgo=true"], "space.agent.gamma has lgo"),
    "a list for a range": (["space.agent.gamma=[0.9,0.99]"], "space.agent.gamma=[0.9,0.99] is not possible"),
    "a space that is not there": (["space=ddqn"], "did you mean space=dqn?"),
    "no space at all": ([f"~space.{key}" for key in ("optimizer", "agent", "buffer", "policy")], "empty"),
    "an end that no run can have": (["space.policy.eps.high=2"], "space.policy.eps reaches 2.0, and no run can have"),
    "a choice that no run can have": (["+space.env.id={choices: [CartPole-v1, Nope-v0]}"], "reaches Nope-v0"),
    "values that do not fit together": (
        ["agent=ppo", "network=lstm", "buffer.num_steps=21", "buffer.batch_size=21", *NOT_SEARCHED],
        "of 8 configurations drawn from the space cannot run: buffer.sequence_length=",
    ),
    "seeds searched": (["+space.seed={low: 1, high: 5}"], "space.seed cannot be searched"),
    "an unknown metric": (["study.metric=mixd"], "did you mean mixed?"),
    "an unknown setting": (["+study.num_trails=3"], "study has no num_trails; did you mean study.num_trials?"),
    "no trials": (["study.num_trials=0"], "study.num_trials=0 is not possible: it must be at least 1"),
    "a rung beyond the end": (["study.pruning.rungs=[0.5,1.5]"], "[0.5, 1.5] is not possible: it must be above 0"),
    "an unknown sampler": (["sampler=foo"], "there is no sampler=foo (there is "),
    "an argument of a custom sampler": (
        ["sampler=random", "sampler._target_=my.Mine", "sampler.flavour=z"],
        "sampler has no flavour yet: to hand it to my.Mine, type +sampler.flavour=z",
    ),
    "a pruner's number out of range": (
        ["pruner=hyperband", "pruner.min_resource=-1"],
        "pruner.min_resource=-1 must be at least 1",
    ),
    "an unknown start": (["warm_start=zoo"], "warm_start=zoo must be auto, off, default, an experiment or study:NAME"),
    "a baseline of another environment": (
        ["agent=dqn", "study.baselines=dqn_acrobot"],
        "study.baselines=dqn_acrobot is an experiment in Acrobot-v1, and the study is of CartPole-v1",
    ),
    "an unknown baseline": (["study.baselines=experimnt"], "(or a list of these); did you mean experiment?"),
    "a baseline that is the default": (
        ["experiment=dqn_cartpole", "study.baselines=dqn_cartpole", "training.total_steps=50000"],
        "study.baselines=dqn_cartpole is the default configuration of this study",
    ),
    "a baseline twice": (
        ["study.baselines=[dqn_cartpole,dqn_cartpole]"],
        "must be default, experiment or names of experiments, each once",
    ),
    "a baseline of several objectives": (
        ["study.metric=[mixed,seconds]", "study.baselines=dqn_cartpole"],
        "study.baselines=dqn_cartpole goes by one score, and study.metric names several objectives; leave it out",
    ),
    "auto in a list": (
        ["warm_start=[auto,dqn_cartpole]"],
        "warm_start=[auto,dqn_cartpole]: auto is not for a list; default, an experiment and study:NAME are",
    ),
    "a start of another agent": (["agent=dqn", "warm_start=ppo_cartpole"], "is an experiment with PPO, and DQN"),
    "a start without a value": (
        [
            *("agent=dqn", "warm_start=dqn_cartpole", "+env.kwargs.sutton_barto_reward=false"),
            "+space.env.kwargs.sutton_barto_reward={choices: [true, false]}",
        ],
        "sutton_barto_reward is searched, and this starting point has no such value",
    ),
    "a default outside": (["warm_start=default", "space.agent.gamma.low=0.995"], "cannot be a starting point"),
    "a name that is no folder": (["study.name=a/b"], "must be a plain name of at most 128 letters, without slashes"),
    "a sampler that is not there": (["sampler=tpee"], "did you mean sampler=tpe?"),
    "an argument a sampler does not take": (["+sampler.n_trials=3"], "sampler.n_trials"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_answered_in_a_line_or_two(tuner: CommandLine, case: str) -> None:
    arguments, expected = REFUSED[case]
    assert expected in tuner.refused("tune", *arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["storage.url=studies.db"], "is a file, and no URL: write sqlite:///studies.db"),
        (["storage.url=sqlite:///damaged.db"], "damaged.db is not a sound SQLite database"),
        (["storage.url=sqlite:///damaged.db/studies.db"], "cannot be written"),
        (["study.folder=damaged.db"], "cannot be used"),
        (["executor=local", "executor.parallel=0"], "executor.parallel must be at least 1, not 0"),
        (["executor=local", "executor.gpus=[-1]"], "executor.gpus=[-1] asks for GPUs, and "),
    ],
)
def test_places_that_cannot_be_used(tuner: CommandLine, arguments: list[str], expected: str) -> None:
    (tuner.folder / "damaged.db").write_bytes(b"nonsense" * 100)
    answer = tuner("tune", *FAKE, *arguments)
    assert answer.status == 2
    assert expected in answer.errors
    assert len(answer.errors.strip().splitlines()) <= 2
    assert (tuner.folder / "damaged.db").read_bytes() == b"nonsense" * 100


def test_going_on_with_another_space_names_the_difference(tuner: CommandLine) -> None:
    tune(tuner)
    answer = tuner("tune", *FAKE, *SMALL_STUDY, "space.optimizer.learning_rate.high=0.1")
    assert answer.status == 2
    changed = "optimizer.learning_rate was searched over 0.0001 .. 0.01 (log), and is now over 0.0001 .. 0.1 (log)"
    assert f"begun with another search space: {changed}" in answer.errors
    assert "study.name=mine-2" in answer.errors


@pytest.mark.parametrize("choice", ["sampler=gp", "sampler=qmc", "sampler=cmaes"])
def test_a_sampler_without_its_packages_says_what_to_install(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    kinds = ("GPSampler", "QMCSampler", "CmaEsSampler")
    monkeypatch.setattr("tuner.study.sampling.sampler_factory._NEEDED", dict.fromkeys(kinds, ("nowhere_to_be_found",)))
    answer = tuner("tune", *FAKE, *SMALL_STUDY, choice)
    assert answer.status == 2
    assert "pip install nowhere_to_be_found" in answer.errors


GROUPS = {
    group: sorted(path.stem for path in (conf_folder() / group).glob("*.yaml") if "???" not in path.read_text())
    for group in ("pruner", "storage", "study")
}  # those that a user has to complete are left out

GROUPS["study"].remove("pbt")  # which takes no pruner; see test_population.py

CHOICES = list(zip_longest(*([f"{group}={name}" for name in names] for group, names in GROUPS.items())))
ALL_GROUPS = max(map(len, (GROUPS["storage"], GROUPS["study"])))
"""The choices before this one name more than a pruner; all pruners are tried in studies of test_pruners.py."""


@pytest.mark.parametrize(
    "choices",
    [
        *CHOICES[:ALL_GROUPS],
        *(pytest.param(choices, marks=pytest.mark.slow) for choices in CHOICES[ALL_GROUPS:]),
    ],
    ids=lambda choices: " ".join(filter(None, choices)),
)
def test_every_choice_of_every_group_runs_a_study(
    tuner: CommandLine, choices: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_URL", "sqlite:///elsewhere.db")
    needs = ["pruner.lower=-10"] if "pruner=threshold" in choices else []
    tune(
        tuner,
        *filter(None, choices),
        *needs,
        "study.num_candidates=1",
        "study.num_select_seeds=1",
        "study.num_test_seeds=1",
    )


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_every_sampler_that_needs_nothing_more_runs_a_study(tuner: CommandLine, sampler: str) -> None:
    tune(tuner, f"sampler={sampler}", "study.num_trials=12", "study.num_candidates=1", "study.num_select_seeds=1")
    with StudyStore(STORAGE) as store:
        runs = summarise(store, "mine", tuner.folder / "studies" / "mine").stage("screen")
    assert len({run.params["optimizer.learning_rate"] for run in runs}) == 12


def test_a_search_can_start_with_the_default_configuration(tuner: CommandLine) -> None:
    tune(tuner, "warm_start=default")
    with StudyStore(STORAGE) as store:
        first = summarise(store, "mine", tuner.folder).stage("screen")[0]
    default = OmegaConf.create(to_json(preflight("tune")))
    assert len(first.params) > 3
    assert first.params == {path: OmegaConf.select(default, path) for path in first.params}


STARTS = {
    "nothing typed": ([], ["default"]),
    "off": (["warm_start=off"], []),
    "a grid": (["sampler=grid"], []),
    "a grid by another path": (
        ["sampler=random", "sampler._target_=optuna.samplers._grid.GridSampler", "+sampler.search_space={}"],
        [],
    ),
    "a grid in another sampler": (
        [
            *("sampler=random", "sampler._target_=optuna.samplers.PartialFixedSampler", "+sampler.fixed_params={}"),
            "+sampler.base_sampler={_target_: optuna.samplers.GridSampler, search_space: {}}",
        ],
        [],
    ),
    "every value": (
        [
            *("sampler=brute_force", "~space.optimizer", "~space.policy", "~space.agent", "~space.buffer"),
            "+space.buffer.batch_size={choices: [32, 128]}",
        ],
        [],
    ),
    "a population": (["study=pbt", "agent=ppo"], []),
    "a default outside": (["space.agent.gamma.low=0.995"], []),
    "a prior": (["+space.agent.gamma.prior=0.98"], ["prior", "default"]),
    "a prior that is the default": (["+space.agent.gamma.prior=0.99", "++agent.gamma=0.99"], ["prior"]),
    "a prior and a default outside": (["+space.agent.gamma.prior=0.998", "space.agent.gamma.low=0.995"], ["prior"]),
    "a prior alone": (["+space.agent.gamma.prior=0.98", "warm_start=off"], ["prior"]),
    "a prior and an experiment": (
        ["+space.agent.gamma.prior=0.98", "warm_start=dqn_cartpole"],
        ["prior", "dqn_cartpole"],
    ),
    "an experiment": (["warm_start=dqn_cartpole"], ["dqn_cartpole"]),
}


@pytest.mark.parametrize("case", STARTS)
def test_a_search_begins_with_the_default_configuration_where_it_can(case: str) -> None:
    typed, starts = STARTS[case]
    overrides = [*([] if "agent=ppo" in typed else ["agent=dqn"]), *typed]
    assert list(define(preflight("tune", overrides), overrides).warm_start) == starts


def test_a_study_begun_without_the_default_goes_on_without_it(tuner: CommandLine) -> None:
    tune(tuner, "agent=dqn", "warm_start=off")
    tune(tuner, "agent=dqn", "study.num_trials=6")
    with StudyStore(STORAGE) as store:
        summary = summarise(store, "mine", tuner.folder / "studies" / "mine")
    assert (len(summary.stage("screen")), summary.starts) == (6, {})
    tune(tuner, "agent=dqn", "study.name=new")
    with StudyStore(STORAGE) as store:
        assert summarise(store, "new", tuner.folder / "studies" / "new").starts == {"trial 0": "default"}


def test_a_study_with_priors_goes_on_as_it_began(tuner: CommandLine) -> None:
    """Begun with the default beside them, or without it, as all were before the default was tried beside priors."""
    for name, starts, more in (
        ("both", {"trial 0": "prior", "trial 1": "default"}, []),
        ("alone", {"trial 0": "prior"}, ["warm_start=off"]),
    ):
        typed = ["agent=dqn", "+space.agent.gamma.prior=0.98", f"study.name={name}"]
        tune(tuner, *typed, *more)
        tune(tuner, *typed, "study.num_trials=6")
        with StudyStore(STORAGE) as store:
            summary = summarise(store, name, tuner.folder / "studies" / name)
        assert (len(summary.stage("screen")), summary.starts) == (6, starts)


@pytest.mark.parametrize("name", sorted(SMALL_AGENTS))
def test_the_default_configuration_of_every_agent_lies_in_its_space(name: str) -> None:
    sizes = [
        argument
        for argument in SMALL_AGENTS[name]
        if argument.startswith(("buffer.", "network.critic.")) and "dataset" not in argument
    ]
    agent = [argument for argument in SMALL_AGENTS[name] if argument not in sizes]
    definition = define(preflight("tune", [*agent, "warm_start=default"]))
    values = definition.space.values(definition.space.drawn(definition.config), definition.config)
    assert values == {path: OmegaConf.select(OmegaConf.create(definition.config), path) for path in values}


@pytest.mark.parametrize("network", ["lstm", "gru"])
@pytest.mark.parametrize("agent", ["ppo", "ppo_continuous", "a2c", "a2c_continuous"])
def test_with_a_memory_its_parts_are_searched_and_all_sequences_are_whole(agent: str, network: str) -> None:
    env = ["env=pendulum"] if agent.endswith("continuous") else []
    definition = define(preflight("tune", [f"agent={agent}", *env, f"network={network}", "env.num_envs=6"]))
    in_minibatches = agent.startswith("ppo")
    assert {"network.cell", "network.units", "network.shared"} <= {*definition.space.paths}
    assert ("buffer.sequence_length" in definition.space.paths) is in_minibatches
    first, *others = definition.warm_start
    assert first == "default"
    assert all(re.fullmatch(r"default with (network|buffer)\..+", name) for name in others)
    rng, lengths = np.random.default_rng(0), set()
    for _ in range(200):
        drawn = definition.space.draw(lambda _, distribution: one_of(distribution, rng))
        values = definition.space.values(drawn, definition.config)
        buffer = RolloutSettings(
            num_steps=values["buffer.num_steps"],
            batch_size=values.get("buffer.batch_size", "rollout"),
            sequence_length=values.get("buffer.sequence_length"),
        )
        lengths.add(buffer.steps_of_sequence(num_envs=6))
    assert min(lengths) >= 4
    assert {8, 16, 32, 64} <= lengths or not in_minibatches


def one_of(distribution: Any, rng: np.random.Generator) -> Any:
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return distribution.choices[rng.integers(len(distribution.choices))]
    low, high = distribution.low, distribution.high
    if isinstance(distribution, optuna.distributions.IntDistribution):
        return int(rng.integers(low, high + 1))
    return float(rng.uniform(low, high))


@pytest.mark.parametrize("typed", [["space=ppo"], ["space=ppo", "network=gru"], ["space=none", "network=lstm"]])
def test_a_space_of_one_s_own_choice_stays_so(typed: list[str]) -> None:
    """It may be named as well as taken from the agent; an empty one has nothing of a memory either."""
    further = ["+space.agent.gamma={low: 0.9, high: 0.99}"] if "space=none" in typed else []
    definition = define(preflight("tune", ["agent=ppo", *typed, *further]))
    assert ("network.cell" in definition.space.paths) is ("network=gru" in typed)
    assert (definition.space.paths == ("agent.gamma",)) is ("space=none" in typed)


def test_a_study_goes_on_with_what_chose_its_winner_at_first(tuner: CommandLine) -> None:
    tune(tuner, "agent=dqn", "study.decision=confirmed")
    tune(tuner, "agent=dqn", "study.num_trials=6")
    with StudyStore(STORAGE) as store:
        confirmed = summarise(store, "mine", tuner.folder / "studies" / "mine").stage("confirm")
    assert {run.label for run in confirmed if run.complete} != set()
    answer = tuner("tune", *FAKE, *SMALL_STUDY, "agent=dqn", "study.decision=model", "study.num_trials=7")
    assert (answer.status, "decision was confirmed and is model" in answer.errors) == (2, True)
