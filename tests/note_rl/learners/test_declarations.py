"""Declarations of agents' classes: they are true of the built-in ones, and agents are refused on their account."""

import gymnasium
import pytest

from note_rl.agents.pytorch import PPO
from note_rl.errors import AgentContractError, EnvironmentMismatchError
from note_rl.learners.declarations import Declared, check_actions, check_settings, say_if_weighed
from note_rl.policy import EpsGreedyQPolicy, GaussianPolicy, SoftmaxPolicy
from note_rl.settings import Demonstrations, Hindsight, ReplaySettings, RolloutSettings, SequenceSettings, Settings
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting
from tuner.config.signatures import class_constants

BOTH = pytest.mark.parametrize("framework", frameworks())
DISCRETE = ("DQN", "DoubleDQN", "DuelingDQN", "SACDiscrete", "R2D2", "ACER", "AlphaZero")
NUMBERS = ("DDPG", "TD3", "SAC", "CrossQ", "TQC")
EITHER = ("PPO", "A2C", "GAIL")


def environment(kind):
    env = gymnasium.make("Pendulum-v1" if kind in ("continuous", "bounded") else "CartPole-v1")
    if kind.startswith("multi"):
        env.action_space = gymnasium.spaces.MultiBinary(3)
        if kind == "multi_discrete":
            env.action_space = gymnasium.spaces.MultiDiscrete([2, 3])
    if kind == "continuous":
        env.action_space = gymnasium.spaces.Box(-float("inf"), float("inf"), (1,))
    return env


@pytest.mark.slow_in_keras(  # as the others
    *("DuelingDQN", "SACDiscrete", "R2D2", "ACER", "DDPG", "TD3", "CrossQ", "TQC", "A2C", "GAIL", "TRPO")
)
@BOTH
@pytest.mark.parametrize("name", [*DISCRETE, *NUMBERS, *EITHER, "TRPO"])
def test_built_in_agents_can_be_made_for_the_actions_that_they_declare_and_for_no_others(framework, name):
    kind = getattr(framework.agents, name)
    for actions in ("discrete", "multi_discrete", "multi_binary", "continuous", "bounded"):
        env = environment(actions)
        fits = actions in kind.action_kinds or (actions == "bounded" and "continuous" in kind.action_kinds)
        if fits:
            check_actions(kind, env)
            assert kind(env=lambda env=env: env).param
            continue
        for refuse in (check_actions, lambda kind, env: kind(env=lambda: env)):
            with pytest.raises(EnvironmentMismatchError, match=f"{name} (chooses|needs)"):
                refuse(kind, env)


@BOTH
def test_what_stands_in_the_source_is_what_python_sees(framework):
    package = f"note_rl.agents.{framework.package}"
    for name in (*DISCRETE, *NUMBERS, *EITHER, "MADDPG"):
        kind, read = getattr(framework.agents, name), class_constants(f"{package}.{name}")
        for attribute in Declared.__annotations__:
            told = getattr(kind, attribute) if attribute != "set_defaults" else {}  # a call, whose value is not read
            assert read.get(attribute, getattr(Declared, attribute)) == told, attribute


@BOTH
def test_frameworks_are_declared(framework):
    assert framework.base().framework == {"pytorch": "torch", "keras": "keras"}[framework.package]


@BOTH
@pytest.mark.parametrize("name", ["PPO", "GAIL"])  # A2C begins with rollouts
def test_on_policy_agents_refuse_replay_before_the_first_step(framework, name):
    agent = getattr(framework.agents, name)(hidden_size=4, env=Counting)
    agent.set(policy=SoftmaxPolicy())
    with pytest.raises(AgentContractError, match=f"{name} learns from rollouts .*add PPO=True to set"):
        agent.train(optimizer=framework.optimizers.adam(agent.param), episodes=1, p=0)
    assert agent.num_env_steps == 0


@pytest.mark.parametrize("name", ["DQN", "DoubleDQN", "DuelingDQN", "DDPG", "TD3", "SAC", "MADDPG"])
@BOTH
def test_agents_that_need_replay_refuse_rollouts(framework, name):
    kind = getattr(framework.agents, name)
    check_settings(kind, settings(REPLAY))
    with pytest.raises(AgentContractError, match=f"{name} learns from old transitions .*leave PPO=True out"):
        check_settings(kind, settings(ROLLOUTS))


@pytest.mark.slow_in_keras  # it is read before any framework
@BOTH
def test_agents_that_declare_nothing_are_trained_as_set_says(framework):
    class Own(framework.base()):
        def __init__(self):
            super().__init__()
            self.env = Counting(5)
            self.weights = framework.variable([[0.1, 0.2], [0.3, 0.4]])
            self.param = [self.weights]

        def action(self, s):
            return s @ self.weights

        def __call__(self, s, a, next_s, r, d):
            return ((s @ self.weights)[:, 0] - r) ** 2

    for settings in ({"PPO": True, "rollout_steps": 5, "num_epochs": 1}, {"num_updates": 1}):
        agent = Own()
        agent.set(policy=EpsGreedyQPolicy(0.1), batch=5, **settings)
        optimizer = framework.optimizers.sgd(agent.param, 1e-3)
        assert agent.train(optimizer=optimizer, episodes=2, p=0, jit_compile=False).num_gradient_steps == 2


def test_an_on_policy_agent_acts_by_its_own_policy():
    class Own(Declared):
        on_policy = True

    check_settings(Own, settings(ROLLOUTS))
    with pytest.raises(AgentContractError, match="Own learns from what its own policy chose, and EpsGreedyQPolicy"):
        check_settings(Own, settings(ROLLOUTS, EpsGreedyQPolicy(0.1)))


@BOTH
@pytest.mark.parametrize("name", ["A2C", "TRPO", "GAIL"])
def test_what_does_not_weigh_acts_by_its_own_policy(framework, name):
    given = settings(RolloutSettings(expert=EXPERT), EpsGreedyQPolicy(0.1))
    with pytest.raises(AgentContractError, match="SoftmaxPolicy"):
        check_settings(getattr(framework.agents, name), given)


@BOTH
def test_a_loss_that_weighs_takes_another_policy_that_may_choose_any_action(framework, caplog):
    kind = framework.agents.PPO
    check_settings(kind, settings(ROLLOUTS, EpsGreedyQPolicy(0.1)))
    with pytest.raises(AgentContractError, match="SoftmaxPolicy"):
        check_settings(kind, settings(ROLLOUTS, EpsGreedyQPolicy(0.0)))
    with pytest.raises(AgentContractError, match="PPO=True"):
        check_settings(kind, settings(REPLAY, EpsGreedyQPolicy(0.1)))
    say_if_weighed(kind, settings(ROLLOUTS))
    assert not caplog.records


def settings(experience, policy=None):
    return Settings(experience=experience, policy=policy or SoftmaxPolicy())


REPLAY, ROLLOUTS, SEQUENCES = ReplaySettings(), RolloutSettings(), SequenceSettings()
EXPERT = Demonstrations([[0.0, 1.0]], [0])


@pytest.mark.parametrize(
    ("name", "wrong", "message", "right"),
    [
        ("log_prob_old", settings(REPLAY), "PPO=True", settings(ROLLOUTS)),
        ("log_prob_old", settings(ROLLOUTS, EpsGreedyQPolicy(0.1)), "use SoftmaxPolicy", settings(ROLLOUTS)),
        ("log_prob_old", settings(REPLAY, GaussianPolicy()), "PPO=True", settings(ROLLOUTS, GaussianPolicy())),
        ("advantage", settings(REPLAY), r"value\(s\)", settings(ROLLOUTS, EpsGreedyQPolicy(0.1))),
        ("ended", settings(REPLAY), "sequences=True", settings(SEQUENCES)),
        ("behaviour", settings(REPLAY, EpsGreedyQPolicy(0.1)), "use SoftmaxPolicy", settings(REPLAY)),
        ("behaviour", settings(ReplaySettings(hindsight=Hindsight())), "without HER", settings(ROLLOUTS)),
        ("expert_obs", settings(ROLLOUTS), "expert=", settings(RolloutSettings(expert=EXPERT))),
        ("expert_action", settings(REPLAY), "expert=", settings(ReplaySettings(expert=EXPERT))),
    ],
)
def test_settings_that_do_not_bring_what_a_loss_reads_are_refused(name, wrong, message, right):
    kind = type("Own", (Declared,), {"batch_attributes": ("discount", name)})
    with pytest.raises(AgentContractError, match=f"the loss of Own reads {name}, which comes with .*{message}"):
        check_settings(kind, wrong)
    check_settings(kind, right)
    check_settings(Declared, wrong)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("on_policy", "yes", "on_policy must be None or True or False, got 'yes'"),
        ("reads_triplets", 1, "reads_triplets must be None or True or False, got 1"),
        (
            "action_kinds",
            ("discret",),
            "action_kinds must be a tuple of names among discrete, multi_discrete, multi_binary, continuous, bounded",
        ),
        ("action_kinds", "discrete", "action_kinds must be a tuple of names"),
        ("batch_attributes", ("log_probs",), "batch_attributes must be a tuple of names among discount, log_prob_old,"),
        ("batch_attributes", [["advantage"]], "batch_attributes must be a tuple of names"),
    ],
)
def test_declarations_that_mean_nothing_are_refused_where_the_class_is_written(name, value, message):
    with pytest.raises(AgentContractError, match=f"Own.{message}"):
        type("Own", (Declared,), {name: value})


def test_a_custom_loss_in_place_of_ppo_s_has_to_declare_that_it_weighs():
    policy = EpsGreedyQPolicy(0.1)
    own = type("Own", (PPO,), {"__call__": lambda self, s, a, next_s, r, d: r})
    with pytest.raises(AgentContractError, match="Own"):
        check_settings(own, settings(ROLLOUTS, policy))
    check_settings(type("Inherited", (PPO,), {}), settings(ROLLOUTS, policy))
    declared = {"__call__": own.__call__, "batch_attributes": PPO.batch_attributes}
    check_settings(type("Weighing", (PPO,), declared), settings(ROLLOUTS, policy))


def test_a_policy_that_chooses_otherwise_gives_no_likelihoods_of_its_base():
    uniform = type("Uniform", (EpsGreedyQPolicy,), {"select": lambda self, scores, rng: scores.argmin(-1)})
    with pytest.raises(AgentContractError, match="SoftmaxPolicy"):
        check_settings(PPO, settings(ROLLOUTS, uniform(0.1)))
