"""AlphaZero for one player (Silver et al. 2018, https://doi.org/10.1126/science.aar6404)."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from note_rl.agents.actor_critic import ActorCriticSettings
from note_rl.environments import EnvLike, as_factory, flat_observations, num_discrete_actions
from note_rl.errors import EnvironmentMismatchError
from note_rl.learners.numpy_policy import DenseLayer, NumpyPolicy, agree
from note_rl.settings import GSDE
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, SHARE, Count
from note_rl.tree_search import Evaluate, MakeSimulator, Simulator, TreeSearch, simulator_of, visit_probabilities
from note_rl.types import Array, FloatArray

_NOISE_OF_ALL_ACTIONS = 10.0
"""Concentration of the noise, added up over all actions (Silver et al. 2018 take about this, for each game)."""


class AlphaZeroSettings(ActorCriticSettings):
    """A tree search, guided by a policy and a value, chooses actions; both learn from what the search finds.

    The policy learns the shares of the visits at the root, the value learns the discounted return. The search takes its
    steps in a simulator (`note_rl.tree_search.Simulator`): CartPole has one, an environment may have a method
    `search_simulator()` that returns one, and others need the argument `simulator`. Where the search meets no end of
    the task it relies on the value, so a time limit is no end. Acting, evaluating and `predict()` all search; noise at
    the root is for training alone. For actions of which one is chosen, without a memory.

    The network gives values in units of 1 / (1 - gamma), by the `gamma` of the constructor: load parameters into an
    agent that was made with the same one.
    """

    action_kinds = ("discrete",)
    batch_attributes: ClassVar[tuple[str, ...]] = ("behaviour", "return_")
    searches_ahead = True
    reported_names = ("policy_loss", "value_loss")
    set_defaults = MappingProxyType({"PPO": True, "rollout_steps": 64, "batch": 64, "num_epochs": 10})

    frame_stack: int = setting(init=False)
    entropy_coef: float = setting(init=False)
    normalise_advantage: bool | Literal["minibatch"] = setting(init=False)
    initial_log_std: float = setting(init=False)
    gsde: GSDE | None = setting(init=False)
    gae_lambda: float = setting(
        default=0.95,
        kind=SHARE,
        text="Weight of long against short returns in what the value learns; 1: whole returns.",
        effect="higher: less bias, more variance",
        typical="0.9 to 1",
    )
    num_simulations: int = setting(
        default=25,
        kind=Count(),
        text="Simulations of the search for each action; each evaluates one new state.",
        effect="higher: better actions; time rises more than in proportion",
        typical="16 to 800",
    )
    c_puct: float = setting(
        default=1.25,
        kind=POSITIVE,
        text="Weight of exploration against values in the search.",
        effect="higher: a wider tree, closer to the policy",
        typical="0.5 to 4",
    )
    temperature: float = setting(
        default=1.0,
        kind=NOT_NEGATIVE,
        text="Actions are drawn, and learned, by visits^(1 / temperature); 0: the action with the most visits.",
        effect="higher: more exploration",
        typical="0.25 to 1",
    )
    noise_fraction: float = setting(
        default=0.25,
        kind=SHARE,
        text="Weight of the noise that is mixed into the policy at the root, while training.",
        effect="higher: more exploration",
        typical="0 to 0.5",
    )
    noise_alpha: float | None = setting(
        default=None,
        kind=POSITIVE,
        text="Concentration of this noise (Dirichlet); None: 10 divided by the number of actions.",
        effect="higher: noise is more even over actions",
        typical="0.03 to 5",
    )
    simulator: InitVar[MakeSimulator | None] = setting(
        default=None, text="Makes a simulator, given the environment; None: that of the environment."
    )

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses another environment than that of the simulator (EnvironmentMismatchError)."""
        if name == "env" and "simulator" in vars(self) and not _is_same(value, self.env):
            raise EnvironmentMismatchError(
                f"{type(self).__name__} searches in a simulator of the environment that it was made with: make another "
                "agent for another environment, with env=... in its constructor"
            )
        super().__setattr__(name, value)


def _is_same(one: object, other: object) -> bool:
    """Whether two environments are one; an id that comes into a worker process is equal alone."""
    return one is other or (isinstance(one, str) and one == other)


def simulator_in(env: EnvLike, make: MakeSimulator | None, agent: str) -> Simulator:
    """Returns the simulator of what an agent is trained in; see `note_rl.tree_search.simulator_of`.

    Args:
        env: Of any kind that an agent takes.
        make: Given by the user; None: that of the environment.
        agent: Name of the agent, for messages.

    Raises:
        EnvironmentMismatchError: It has other actions than a search takes, or no simulator.
    """
    single = flat_observations(as_factory(env)())
    num_discrete_actions(single, agent)
    return simulator_of(single, make, agent)


class Guidance:
    """The networks that guide a search: in NumPy where they are dense, as a call of a framework takes longer.

    Both ways are compared in the first use, and again in the second, the fourth, the eighth, and so on.
    """

    def __init__(self) -> None:
        self._num_uses = 0
        self._differs = False

    def __call__(
        self,
        policy: list[DenseLayer] | None,
        value: list[DenseLayer] | None,
        unit: float,
        by_framework: Evaluate,
        obs: Array,
    ) -> Evaluate:
        """Returns what evaluates the states of one search.

        Args:
            policy: Layers of the network that gives probabilities; None: it has others than dense ones.
            value: The same for values.
            unit: Of these values.
            by_framework: Evaluates by the framework.
            obs: The first observations of the search. [B, *obs]
        """
        if policy is None or value is None or self._differs or obs.dtype.name != "float32":
            return by_framework
        if not (NumpyPolicy.supports(policy) and NumpyPolicy.supports(value)):
            return by_framework
        in_numpy = _InNumPy(NumpyPolicy(lambda: policy), NumpyPolicy(lambda: value), unit)
        self._num_uses += 1
        if self._num_uses & (self._num_uses - 1) == 0:
            pairs = zip(in_numpy(obs), by_framework(obs), strict=True)
            self._differs = not all(agree(*pair) for pair in pairs)
        return by_framework if self._differs else in_numpy


@dataclass(frozen=True)
class _InNumPy:
    policy: Callable[[Array], FloatArray]
    value: Callable[[Array], FloatArray]
    unit: float

    def __call__(self, obs: Array) -> tuple[FloatArray, FloatArray]:
        return self.policy(obs), self.unit * self.value(obs)[:, 0]


def unit_of_values(gamma: float) -> float:
    """Returns the value of a reward of 1 in each step; the network gives values in this unit, which are learned faster.

    Args:
        gamma: The discount; of 1, which has no such value, the unit is that of 0.999.
    """
    return 1.0 / (1.0 - min(gamma, 0.999))


def searched(agent: Any, obs: Array, evaluate: Evaluate) -> FloatArray:
    """Returns the probabilities [B, A] of actions after a search from each of B observations [B, *obs].

    Args:
        agent: Has the settings of `AlphaZeroSettings`, and a `simulator`.
        obs: What the environments show.
        evaluate: The policy and the value of the agent.
    """
    num_actions = agent.choice.num_actions
    search = TreeSearch(
        simulator=agent.simulator,
        num_simulations=agent.num_simulations,
        discount=agent.gamma,
        c_puct=agent.c_puct,
        noise_alpha=agent.noise_alpha or _NOISE_OF_ALL_ACTIONS / num_actions,
        noise_fraction=agent.noise_fraction,
    )
    return visit_probabilities(search(obs, evaluate, agent.exploration).root_visits, agent.temperature)
