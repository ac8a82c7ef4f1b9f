"""Search spaces: what is read, refused, drawn and applied."""

import copy
import json
import math

import optuna
import pytest

from tests.tuner.studies import CONFIG, SPACE
from tuner.errors import UserError
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict


def space_of(path: str, leaf: object, config: JsonDict | None = None) -> Space:
    tree: JsonDict = {}
    node = tree
    *parents, last = path.split(".")
    for key in parents:
        node = node.setdefault(key, {})
    node[last] = leaf
    return Space.from_config(tree, config or CONFIG)


def refusal(path: str, leaf: object, config: JsonDict | None = None) -> str:
    with pytest.raises(UserError) as raised:
        space_of(path, leaf, config)
    message = str(raised.value)
    assert path in message
    assert len(message.splitlines()) <= 2
    return message


def test_names_say_what_is_really_sampled() -> None:
    space = Space.from_config(SPACE, CONFIG)
    assert set(space.distributions()) == {"1-agent.gamma", "log2(buffer.batch_size)", "optimizer.learning_rate"}


def test_distributions_of_each_kind() -> None:
    distributions = Space.from_config(SPACE, CONFIG).distributions()
    assert distributions["optimizer.learning_rate"] == optuna.distributions.FloatDistribution(1e-5, 1.0, log=True)
    assert distributions["1-agent.gamma"] == optuna.distributions.FloatDistribution(1e-4, 0.1, log=True)
    assert distributions["log2(buffer.batch_size)"] == optuna.distributions.IntDistribution(4, 8)
    choices = space_of("agent.kind", {"choices": ["plain", "double"]}).distributions()["agent.kind"]
    assert choices == optuna.distributions.CategoricalDistribution(("plain", "double"))


@pytest.mark.parametrize(
    ("path", "leaf", "drawn", "value"),
    [
        ("agent.gamma", {"low": 0.9, "high": 0.9999, "transform": "one_minus"}, 0.001, 0.999),
        ("buffer.batch_size", {"low": 16, "high": 256, "transform": "power_of_two"}, 7, 128),
        ("buffer.batch_size", {"low": 16, "high": 256}, 77, 77),
        ("optimizer.learning_rate", {"low": 0.0, "high": 1.0, "step": 0.25}, 0.75, 0.75),
        ("agent.kind", {"choices": ["plain", "double"]}, "double", "double"),
        ("agent.kind", {"choices": [[64, 64], [256, 256]]}, "[256, 256]", [256, 256]),
        ("agent.kind", {"choices": [None, True, 2]}, True, True),
        ("buffer.gradient_steps", {"low": 0.125, "high": 1.0, "log": True, "of": "buffer.train_freq"}, 0.5, 2),
        ("buffer.gradient_steps", {"low": 0.01, "high": 1.0, "of": "buffer.train_freq"}, 0.01, 1),
        (
            "buffer.gradient_steps",
            {"low": 0.5, "high": 1, "transform": "power_of_two", "of": "buffer.train_freq"},
            -1,
            2,
        ),
    ],
)
def test_values_in_their_own_units(path: str, leaf: JsonDict, drawn: object, value: object) -> None:
    space = space_of(path, leaf)
    (name,) = space.distributions()
    found = space.values({name: drawn}, CONFIG)[path]  # type: ignore[dict-item]
    assert found == value
    assert type(found) is type(value)


def test_a_share_follows_the_value_it_is_a_share_of() -> None:
    tree = {
        "buffer": {
            "gradient_steps": {"low": 0.125, "high": 1.0, "of": "buffer.train_freq"},
            "train_freq": {"low": 4, "high": 256, "transform": "power_of_two"},
        }
    }
    space = Space.from_config(tree, CONFIG)
    drawn = {"buffer.gradient_steps/buffer.train_freq": 0.25, "log2(buffer.train_freq)": 6}
    assert space.values(drawn, CONFIG) == {"buffer.gradient_steps": 16, "buffer.train_freq": 64}


def test_a_share_of_a_product() -> None:
    config = {**CONFIG, "buffer": {"batch_size": 64, "num_steps": 128}, "env": {"num_envs": 8}}
    leaf = {"low": 0.0625, "high": 1, "transform": "power_of_two", "of": ["buffer.num_steps", "env.num_envs"]}
    space = space_of("buffer.batch_size", leaf, config)
    name = "log2(buffer.batch_size/(buffer.num_steps*env.num_envs))"
    assert list(space.distributions()) == [name]
    assert space.values({name: -4}, config) == {"buffer.batch_size": 64}
    assert space.drawn(config) == {name: -4}


ROLLOUT = {**CONFIG, "buffer": {"batch_size": 64, "num_steps": 128}, "env": {"num_envs": 3}}
AT_MOST = {"low": 32, "high": 512, "transform": "power_of_two", "at_most": ["buffer.num_steps", "env.num_envs"]}


@pytest.mark.parametrize(("exponent", "value"), [(5, 32), (8, 256), (9, 384)])
def test_a_value_ends_at_the_most_there_can_be(exponent: int, value: int) -> None:
    space = space_of("buffer.batch_size", AT_MOST, ROLLOUT)
    assert space.distributions() == {"log2(buffer.batch_size)": optuna.distributions.IntDistribution(5, 9)}
    found = space.values({"log2(buffer.batch_size)": exponent}, ROLLOUT)
    assert found == {"buffer.batch_size": value}, "128 * 3 = 384"
    assert type(found["buffer.batch_size"]) is int
    assert space.drawn(space.apply(ROLLOUT, found)) == {"log2(buffer.batch_size)": exponent}


def test_the_most_there_can_be_may_be_searched_too() -> None:
    tree = {"buffer": {"batch_size": AT_MOST, "num_steps": {"low": 16, "high": 256, "transform": "power_of_two"}}}
    space = Space.from_config(tree, ROLLOUT)
    drawn = {"log2(buffer.batch_size)": 6, "log2(buffer.num_steps)": 4}
    assert space.values(drawn, ROLLOUT) == {"buffer.batch_size": 48, "buffer.num_steps": 16}
    described = space.describe()["log2(buffer.batch_size)"]
    assert described["at_most"] == ["buffer.num_steps", "env.num_envs"]
    assert "at_most" not in space.describe()["log2(buffer.num_steps)"], (
        "fingerprints of other spaces stay what they were"
    )


def test_a_start_at_a_limit_below_the_range_is_refused() -> None:
    one = {**ROLLOUT, "buffer": {"batch_size": 9, "num_steps": 3}}
    assert space_of("buffer.batch_size", AT_MOST, one).drawn(one) == {"log2(buffer.batch_size)": 9}
    with pytest.raises(UserError, match="cannot be a starting point"):
        space_of("buffer.batch_size", AT_MOST, ROLLOUT).drawn(
            {**ROLLOUT, "buffer": {"batch_size": 9, "num_steps": 128}}
        )


def test_whole_numbers_where_the_config_has_them() -> None:
    assert space_of("buffer.batch_size", {"low": 1e2, "high": 1e3}).distributions() == {
        "buffer.batch_size": optuna.distributions.IntDistribution(100, 1000)
    }
    assert space_of("agent.gamma", {"low": 0, "high": 1}).distributions() == {
        "agent.gamma": optuna.distributions.FloatDistribution(0.0, 1.0)
    }


def test_drawn_values_stay_inside_and_come_back() -> None:
    space = Space.from_config(SPACE, CONFIG)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(50):
        drawn = study.ask(space.distributions()).params
        config = space.apply(CONFIG, space.values(drawn, CONFIG))
        assert 0.9 <= config["agent"]["gamma"] <= 0.9999
        assert config["buffer"]["batch_size"] in (16, 32, 64, 128, 256)
        assert 1e-5 <= config["optimizer"]["learning_rate"] <= 1.0
        assert space.drawn(config) == pytest.approx(drawn, rel=1e-9)


def test_a_value_in_a_config_is_a_copy() -> None:
    layers = [{"dense": 64}]
    made = Space.from_config(SPACE, CONFIG).apply({"network": {"layers": []}}, {"network.layers": layers})
    made["network"]["layers"][0]["dense"] = 1
    assert layers == [{"dense": 64}]


def test_apply_leaves_the_config_it_was_given_alone() -> None:
    before = copy.deepcopy(CONFIG)
    changed = Space.from_config(SPACE, CONFIG).apply(CONFIG, {"agent.gamma": 0.95})
    assert changed["agent"] == {"gamma": 0.95, "kind": "plain"}
    assert before == CONFIG


def test_the_default_configuration_has_its_place() -> None:
    assert Space.from_config(SPACE, CONFIG).drawn(CONFIG) == {
        "1-agent.gamma": 0.01,
        "log2(buffer.batch_size)": 6,
        "optimizer.learning_rate": 0.1,
    }


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("agent.gamma", 0.5, "over 0.9 .. 0.9999 (log of 1 - x)"),
        ("buffer.batch_size", 48, "over 16 .. 256 (powers of 2)"),
        ("buffer.batch_size", 512, "over 16 .. 256 (powers of 2)"),
        ("optimizer.learning_rate", 2.0, "over 1e-05 .. 1 (log)"),
    ],
)
def test_a_starting_point_outside_its_range_is_refused(path: str, value: object, why: str) -> None:
    space = Space.from_config(SPACE, CONFIG)
    with pytest.raises(UserError, match=f"{path}={value} cannot be a starting point") as raised:
        space.drawn(space.apply(CONFIG, {path: value}))
    assert why in str(raised.value)


def test_a_starting_point_between_grid_points_is_refused() -> None:
    space = space_of("optimizer.learning_rate", {"low": 0.0, "high": 1.0, "step": 0.25})
    with pytest.raises(UserError, match=r"over 0 .. 1 \(steps of 0.25\)"):
        space.drawn(CONFIG)


def test_an_unknown_path_names_the_nearest() -> None:
    assert "agent.gamma?" in refusal("agent.gama", {"low": 0.1, "high": 0.2})
    assert "buffer.batch_size?" in refusal("replay.batch_size", {"low": 1, "high": 2})


@pytest.mark.parametrize(
    ("leaf", "why"),
    [
        ({"low": 0.2, "high": 0.1}, "empty range: low=0.2 must be below high=0.1"),
        ({"low": 0.1, "high": 0.1}, "empty range"),
        ({"low": 0, "high": 0.1, "log": True}, "must stay above 0, but low=0"),
        ({"low": -1.0, "high": 0.1, "log": True}, "must stay above 0"),
        ({"low": 0.9, "high": 1.0, "transform": "one_minus"}, "must stay below 1, but high=1"),
        ({"low": 0.1}, "has no high"),
        ({"low": "a", "high": 0.2}, "low=a must be a finite number"),
        ({"low": 0.1, "high": math.inf}, "high=inf must be a finite number"),
        ({"low": True, "high": 2}, "low=true must be a finite number"),
        (
            {"low": 0.1, "high": 0.2, "logg": True},
            "has logg, but takes only at_most, high, log, low, of, prior, step, transform",
        ),
        ({"low": 0.1, "high": 0.2, "log": "yes"}, "log=yes must be true or false"),
        ({"low": 0.1, "high": 0.2, "transform": "square"}, "transform=square is unknown"),
        ({"low": 0.1, "high": 0.2, "transform": "one_minus", "step": 0.1}, "step cannot be combined"),
        ({"low": 0.1, "high": 0.2, "log": True, "step": 0.1}, "both log and step"),
        ({"low": 0.1, "high": 0.25, "step": 0.1}, "plus a whole number of steps of 0.1"),
        ({"low": 0.1, "high": 0.2, "step": -0.1}, "plus a whole number of steps"),
        ({"choices": []}, "must be a list of values"),
        ({"choices": 0.5}, "must be a list of values"),
        ({"choices": [0.5, 0.5]}, "choices=[0.5, 0.5] names a value twice; leave one out"),
        ({"choices": [1, 2, True]}, "choices=[1, 2, True] names a value twice: a sampler does not tell 1 from true"),
        ({"choices": [0.0, False]}, "a sampler does not tell 0.0 from false; leave one out"),
        ({"choices": [1, 1.0]}, "a sampler does not tell 1 from 1.0; leave one out"),
        ({"choices": ["[1]", [1]]}, "names a value twice"),
        ({"choices": [0.5], "log": True}, "has log, but takes only choices, of"),
        ({"lo": 0.1, "hi": 0.2}, "is not a range"),
        ([0.9, 0.99], "{choices: [0.9, 0.99]}"),
        (0.99, "is not a range"),
        (None, "remove it with ~space.agent.gamma"),
        ({"low": 0.1, "high": 0.2, "of": "buffer.train_frequency"}, "buffer.train_freq?"),
        ({"low": 0.1, "high": 0.2, "of": "agent.kind"}, "must be a number to take a share of"),
        ({"low": 0.1, "high": 0.2, "of": []}, "must be a config path"),
        ({"low": 0.1, "high": 0.2, "at_most": "agent.kind"}, "must be a number that is the most there can be"),
        ({"low": 0.1, "high": 0.2, "at_most": 64}, "space.agent.gamma.at_most=64 must be a config path"),
        ({"low": 0.1, "high": 0.2, "of": "seed", "at_most": "seed"}, "has both of and at_most"),
    ],
)
def test_what_is_no_range_is_refused(leaf: object, why: str) -> None:
    assert why in refusal("agent.gamma", leaf)


@pytest.mark.parametrize(("low", "high", "why"), [(10, 64, "low=10 is not a power of two: use 8"), (0, 64, "use 1")])
def test_what_is_no_power_of_two_is_refused(low: int, high: int, why: str) -> None:
    assert why in refusal("buffer.batch_size", {"low": low, "high": high, "transform": "power_of_two"})


def test_a_setting_of_another_choice_is_refused_with_what_to_do() -> None:
    many = {f"setting_{number}": number for number in range(60)}
    config = {**CONFIG, "buffer": {"_target_": "note_rl.settings.ReplaySettings", "capacity": 9}, "strategy": many}
    leaf = {"low": 0.1, "high": 1.0}
    assert refusal("buffer.priority.alpha", leaf, config) == (
        "space.buffer.priority.alpha names buffer.priority.alpha, which the config does not have: choose a part that "
        "has it (tuner options buffer), or leave it out with ~space.buffer.priority.alpha"
    )
    assert "(tuner options noise), or leave it out" in refusal("noise.sigma", leaf, {**config, "noise": {}})
    assert "config does not have: leave it out" in refusal("seed.zzq", leaf, {**config, "seed": 3})
    config["training"] = {"total_steps": 10}  # a section of which there is one
    assert refusal("training.clip_everything", leaf, config) == (
        "space.training.clip_everything names training.clip_everything, which the config does not have: leave it out "
        "with ~space.training.clip_everything"
    )


def test_a_group_of_settings_is_refused() -> None:
    assert "agent is a group of settings; search one of them, for example agent.gamma" in refusal(
        "agent", {"choices": ["dqn", "ppo"]}
    )


def test_a_share_of_a_share_is_refused() -> None:
    tree = {
        "buffer": {
            "gradient_steps": {"low": 0.1, "high": 1.0, "of": "buffer.train_freq"},
            "train_freq": {"low": 0.1, "high": 1.0, "of": "buffer.batch_size"},
        }
    }
    with pytest.raises(UserError, match="itself follows something else"):
        Space.from_config(tree, CONFIG)


def test_fixed_and_searched_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"agent.gamma is both fixed on the command line and searched.*~space.agent.gamma"
    ):
        Space.from_config(SPACE, CONFIG, fixed=["agent.gamma", "seed"])


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(UserError, match="the search space is empty"):
        Space.from_config({"agent": {}}, CONFIG)


def test_the_fingerprint_knows_the_search_and_not_how_it_was_written() -> None:
    space = Space.from_config(SPACE, CONFIG)
    rewritten = json.loads(json.dumps(dict(reversed(SPACE.items()))))
    rewritten["optimizer"]["learning_rate"]["low"] = 0.00001
    assert Space.from_config(rewritten, CONFIG).fingerprint == space.fingerprint
    rewritten["optimizer"]["learning_rate"]["low"] = 0.00002
    assert Space.from_config(rewritten, CONFIG).fingerprint != space.fingerprint


def test_differences_name_the_parameter_and_what_changed() -> None:
    stored = json.loads(json.dumps(Space.from_config(SPACE, CONFIG).describe()))
    assert Space.from_config(SPACE, CONFIG).difference(stored) == []
    changed = copy.deepcopy(SPACE)
    changed["optimizer"]["learning_rate"]["high"] = 0.1
    changed["agent"] = {"kind": {"choices": ["plain", "double"]}}
    assert Space.from_config(changed, CONFIG).difference(stored) == [
        "agent.gamma was searched over 0.9 .. 0.9999 (log of 1 - x), and is not searched now",
        "agent.kind is searched over plain, double, and was not searched before",
        "optimizer.learning_rate was searched over 1e-05 .. 1 (log), and is now over 1e-05 .. 0.1 (log)",
    ]


def test_a_difference_too_small_for_words_is_given_in_numbers() -> None:
    stored = space_of("optimizer.learning_rate", {"low": 0.1, "high": 0.5}).describe()
    now = space_of("optimizer.learning_rate", {"low": 0.1, "high": 0.50001})
    assert now.difference(stored) == [
        "optimizer.learning_rate was searched over high 0.5, and is now over high 0.50001"
    ]


def test_changed_choices_are_a_difference() -> None:
    stored = json.loads(json.dumps(space_of("agent.kind", {"choices": ["plain", "double"]}).describe()))
    now = space_of("agent.kind", {"choices": ["plain", "duelling"]})
    assert now.difference(stored) == ["agent.kind was searched over plain, double, and is now over plain, duelling"]


# Conditions
