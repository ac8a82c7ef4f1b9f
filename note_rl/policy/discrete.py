"""Choosing one of several actions."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.errors.wording import as_setting, choice, out_of_range
from note_rl.policy.base import Policy
from note_rl.policy.sampling import SMALLEST, OneOfEach, Switches, sample_cumulative, sample_rows
from note_rl.support.value_kinds import Number
from note_rl.types import IMPORTANCE_RATIO, Array, BoolArray, FloatArray, IntArray

ClipRange = tuple[float, float]
_PROBABILITY_ERROR = 1e-3  # of a sum of probabilities in single precision
_FINITE = Number()


_FOR_NUMBERS = "GaussianPolicy where it returns means and log deviations, NoisyPolicy where it returns actions"


class DiscretePolicy(Policy):
    """Base of the policies that choose from scores [E, A], one value or probability per action."""

    def use_space(self, action_space: Any) -> None:
        """Refuses actions that are numbers, or several numbers 0 or 1."""
        if isinstance(action_space, spaces.MultiBinary):
            raise EnvironmentMismatchError(
                "{} chooses one of several actions, but the environment takes {}; use {} for an agent that returns "
                "how likely each of the numbers is 1",
                *(type(self).__name__, action_space, choice("SoftmaxPolicy")),
            )
        if isinstance(action_space, spaces.Box):
            raise EnvironmentMismatchError(
                "{} chooses one of several actions, but the environment takes {}; take an agent whose actions are "
                "numbers ({}), or {}",
                type(self).__name__,
                action_space,
                choice(_FOR_NUMBERS),
                choice("an environment with discrete actions"),
            )

    def num_answers(self, action_space: Any) -> int | None:
        """One per action."""
        return int(action_space.n) if isinstance(action_space, spaces.Discrete) else None

    def select_action(self, q_values: Any) -> Any:
        """The action for one vector of scores [A]: its number, or a one-hot vector where the environment takes those.

        Raises:
            SettingsError: A batch, or nothing that could be scores.
        """
        return self._select_one("q_values", q_values)

    def _select_one(self, name: str, scores: Any) -> Any:
        vector = np.asarray(scores)
        if vector.ndim != 1 or not vector.size or not np.issubdtype(vector.dtype, np.number):
            raise SettingsError(
                f"{name} must be one vector of numbers, one per action, got the shape {list(vector.shape)} of "
                f"{vector.dtype}; select(scores, generator) takes a batch"
            )
        action = self.select(vector[None], self._own_generator())[0]
        return action if np.ndim(action) else int(action)


def check_probability(**values: float) -> None:
    """Refuses what is not between 0 and 1, by name."""
    for name, value in values.items():
        if not 0.0 <= _FINITE(name, value) <= 1.0:
            raise SettingsError(out_of_range(name, "be a probability, between 0 and 1", value))


def check_positive(**values: float) -> None:
    """Refuses 0 and below, by name."""
    for name, value in values.items():
        Number(0.0, above=True)(name, value)


def _check_clip(clip: ClipRange) -> None:
    known = isinstance(clip, list | tuple) and len(clip) == 2 and all(isinstance(one, Real) for one in clip)
    if not known or not clip[0] < clip[1]:
        raise SettingsError(out_of_range("clip", "be two numbers (lowest, highest)", clip))


def _sample_boltzmann(scores: FloatArray, tau: float, clip: ClipRange, rng: np.random.Generator) -> IntArray:
    """One action per row with probability proportional to exp(score / tau)."""
    logits = np.clip(np.asarray(scores, np.float64) / tau, *clip)
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares[np.isneginf(scores)] = 0.0  # what is not allowed, however the others are clipped
    return sample_rows(shares, rng)


def with_random_rows(action: IntArray, share: float, scores: FloatArray, rng: np.random.Generator) -> IntArray:
    """The actions [E, ...], a share of them replaced by any that is allowed, each equally likely.

    Args:
        action: Written to.
        share: Between 0 and 1.
        scores: -inf where an action is not allowed. [E, ..., A]
        rng: Decides.
    """
    explore = rng.random(action.shape) < share
    number = np.count_nonzero(explore)  # 0.1 us for a few actions; any() takes 2
    if number:
        allowed = scores[explore] > -np.inf  # [number, A]
        if allowed.all():
            action[explore] = rng.integers(scores.shape[-1], size=number)
        else:
            action[explore] = sample_rows(allowed.astype(np.float64), rng)
    return action


class GreedyQPolicy(DiscretePolicy):
    """Always the action of the highest value."""

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E]; the generator is not used."""
        return self.greedy(scores)


class EpsGreedyQPolicy(DiscretePolicy):
    """With probability `eps` any action, each equally likely; else the one of the highest value.

    A loss that weighs what was chosen, such as PPO's, can learn probabilities from it (`likelihoods`), if eps > 0.

    Args:
        eps: The probability.
        epsilon: The same, as one of the manuals calls it.
    """

    def __init__(self, eps: float = 0.1, *, epsilon: float | None = None) -> None:
        super().__init__()
        if epsilon is not None:
            check_probability(epsilon=epsilon)
            eps = epsilon
        check_probability(eps=eps)
        self.eps = eps

    @property
    def tells_importance(self) -> bool:  # type: ignore[override]  # of others it is a constant
        """Whether it can choose any action, with the probabilities that `likelihoods` gives."""
        own, base = type(self), EpsGreedyQPolicy
        chooses_alike = own.select is base.select and own.greedy is base.greedy
        return self.eps > 0.0 and (chooses_alike or own.likelihoods is not base.likelihoods)

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E]."""
        return with_random_rows(self.greedy(scores), self.eps, scores, rng)

    def likelihoods(self, scores: FloatArray, action: Array) -> tuple[FloatArray | None, FloatArray | None]:
        """Returns log mu(a|s) and pi(a|s) / mu(a|s), [E] each, for probabilities pi [E, A].

        mu(a|s) is eps / N, of N actions that are allowed, and 1 - eps more for the likeliest. Scores that are no
        probabilities are refused.
        """
        allowed = scores > -np.inf
        probabilities = np.where(allowed, scores, 0.0)
        total = probabilities.sum(axis=-1, keepdims=True)
        wrong = np.where(allowed.all(axis=-1, keepdims=True), np.abs(total - 1.0), total - 1.0)
        if probabilities.min() < 0.0 or wrong.max() > _PROBABILITY_ERROR:
            raise AgentContractError(
                f"a loss that reads {IMPORTANCE_RATIO} needs probabilities, but action() returned scores that do not "
                f"sum to 1 (first row: {np.round(scores[0], 3).tolist()}); end it with a softmax"
            )
        if self.eps <= 0.0:
            raise AgentContractError(
                f"a loss that reads {IMPORTANCE_RATIO} needs a policy that can choose any action, and eps is "
                f"{self.eps}: keep it above 0, or use SoftmaxPolicy"
            )
        probabilities = np.where(allowed, np.maximum(scores, SMALLEST), 0.0)
        total = probabilities.sum(axis=-1, keepdims=True)
        mu = self.eps / np.count_nonzero(allowed, axis=-1) + (1.0 - self.eps) * (action == self.greedy(scores))
        chosen = np.take_along_axis(probabilities / total, action[..., None], axis=-1)[..., 0]
        return np.log(mu), chosen / mu


class AdaptiveEpsGreedyPolicy(DiscretePolicy):
    """Epsilon-greedy with an epsilon that falls by itself: eps_min + (eps_max - eps_min) * exp(-eps_decay * steps).

    Args:
        eps_max: Probability of exploring in the first step.
        eps_min: Where it ends.
        eps_decay: Share of the way to the end that each environment step takes; 1e-3: two thirds after 1,000 steps.
    """

    def __init__(self, eps_max: float = 1.0, eps_min: float = 0.05, eps_decay: float = 1e-3) -> None:
        super().__init__()
        check_probability(eps_max=eps_max, eps_min=eps_min)
        if eps_min > eps_max:
            raise SettingsError(f"eps falls from eps_max to eps_min, got eps_max={eps_max} below eps_min={eps_min}")
        check_positive(eps_decay=eps_decay)
        self.eps_max = eps_max
        self.eps_min = eps_min
        self.eps_decay = eps_decay
        self.num_steps = 0

    @property
    def current_eps(self) -> float:
        """Probability of exploring in the next step."""
        return self.eps_min + (self.eps_max - self.eps_min) * float(np.exp(-self.eps_decay * self.num_steps))

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E]; counts E steps."""
        action = with_random_rows(self.greedy(scores), self.current_eps, scores, rng)
        self.num_steps += len(scores)
        return action

    def get_state(self) -> dict[str, Array]:
        """How far epsilon has fallen."""
        return {"num_steps": np.array(self.num_steps, np.int64)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.num_steps = int(state["num_steps"])


class BoltzmannQPolicy(DiscretePolicy):
    """Actions with probability proportional to exp(value / tau), clipped first (Sutton & Barto 2018, section 2.8)."""

    def __init__(self, tau: float = 1.0, clip: ClipRange = (-500.0, 500.0)) -> None:
        super().__init__()
        check_positive(tau=tau)
        _check_clip(clip)
        self.tau = tau
        self.clip = clip

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E]."""
        return _sample_boltzmann(scores, self.tau, self.clip, rng)


class MaxBoltzmannQPolicy(DiscretePolicy):
    """With probability `eps` an action drawn as by `BoltzmannQPolicy`, else the best one (Wiering 1999)."""

    def __init__(self, eps: float = 0.1, tau: float = 1.0, clip: ClipRange = (-500.0, 500.0)) -> None:
        super().__init__()
        check_probability(eps=eps)
        check_positive(tau=tau)
        _check_clip(clip)
        self.eps = eps
        self.tau = tau
        self.clip = clip

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E]."""
        action = self.greedy(scores)
        explore = rng.random(action.shape) < self.eps
        if explore.any():
            action[explore] = _sample_boltzmann(scores[explore], self.tau, self.clip, rng)
        return action


class BoltzmannGumbelQPolicy(DiscretePolicy):
    """The action of the highest value + C / sqrt(times chosen) * Gumbel noise (Cesa-Bianchi et al. 2017, section 4).

    Each action counts as chosen once at the start. All environments count together, and choices made in the same step
    do not see each other.

    Args:
        C: About the deviation of a reward.
    """

    def __init__(self, C: float = 1.0) -> None:  # noqa: N803 (the manuals' name)
        super().__init__()
        check_positive(C=C)
        self.C = C
        self.action_counts: IntArray | None = None  # [A]

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E]."""
        num_actions = scores.shape[-1]
        if self.action_counts is None:
            self.action_counts = np.ones(num_actions, np.int64)
        spread = self.C / np.sqrt(self.action_counts)  # [A]
        action: IntArray = np.argmax(scores + spread * rng.gumbel(size=scores.shape), axis=-1)
        self.action_counts += np.bincount(action.ravel(), minlength=num_actions)
        return action

    def select_action(self, q_values: Any, step_counter: int | None = None) -> Any:
        """The action for one vector of scores [A]; a step counter of 0 forgets the counts."""
        if step_counter == 0:
            self.action_counts = None
        return super().select_action(q_values)

    def get_state(self) -> dict[str, Array]:
        """How often each action was chosen."""
        return {} if self.action_counts is None else {"action_counts": self.action_counts}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.action_counts = np.array(state["action_counts"]) if "action_counts" in state else None


class SoftmaxPolicy(DiscretePolicy):
    """Samples from the probabilities that the agent's action() returns, as actor-critic agents do.

    Where the environment takes one of several actions, these are [E, A] and sum to 1. Where it takes one of each of
    several sets (MultiDiscrete), those of the sets stand one behind the other. Where it takes D numbers 0 or 1
    (MultiBinary), they say how likely each is 1.
    """

    chooses_several = True

    def __init__(self) -> None:
        super().__init__()
        self._several: OneOfEach | Switches | None = None

    def use_space(self, action_space: Any) -> None:
        """Learns whether there are several choices at once; refuses actions that are numbers."""
        self._several = None
        if isinstance(action_space, spaces.MultiBinary):
            self._several = Switches(action_space)
            return
        super().use_space(action_space)
        if isinstance(action_space, spaces.MultiDiscrete):
            self._several = OneOfEach(action_space)

    def _choices(self, scores: FloatArray) -> OneOfEach | Switches | None:
        """Those that are made at once; None: one. Scores of several agents, which make one each, have an axis more."""
        return self._several if scores.ndim == 2 else None

    def masked(self, scores: FloatArray, mask: BoolArray) -> FloatArray:
        """Probabilities [E, A] under the condition that an allowed action is chosen, 0 for all others."""
        shares = np.where(mask, np.maximum(scores, SMALLEST), 0.0)  # allowed ones stay possible, however unlikely
        conditioned: FloatArray = (shares / shares.sum(axis=-1, keepdims=True)).astype(np.float32)
        return conditioned

    def greedy(self, scores: FloatArray) -> Array:
        """The most likely actions, [E], or [E, D] of D choices."""
        several = self._choices(scores)
        return super().greedy(scores) if several is None else several.greedy(scores)

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E], or [E, D] of D choices. Scores that are no probabilities are refused."""
        several = self._choices(scores)
        if several is not None:
            return several.select(scores, rng)
        num_actions = scores.shape[-1]
        cumulative = np.cumsum(scores, axis=-1)
        if scores.min() < 0.0 or abs(float(cumulative.reshape(-1, num_actions)[0, -1]) - 1.0) > 1e-3:
            first = np.round(scores.reshape(-1, num_actions)[0], 3).tolist()
            raise AgentContractError(
                "SoftmaxPolicy samples from probabilities, but action() returned scores that do not sum to 1 "
                f"(first row: {first}); end it with a softmax or use BoltzmannQPolicy"
            )
        return sample_cumulative(cumulative, rng)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray:
        """Log-probability [E] of the actions chosen, of all choices together."""
        several = self._choices(scores)
        if several is not None:
            return several.log_prob(scores, action)
        first = np.arange(0, scores.size, scores.shape[-1])  # of each row; indexing flat takes a third of the time
        chosen = scores.reshape(-1)[first + action.reshape(-1)].reshape(action.shape)
        return np.log(np.maximum(chosen, SMALLEST))

    def select_action(  # type: ignore[override]  # the manuals' arguments; q_values by keyword as elsewhere
        self, nb_actions: Any = None, probs: Any = None, *, q_values: Any = None
    ) -> Any:
        """The action for one vector of probabilities [A]; their number may come first, as in the manuals.

        Args:
            nb_actions: A, or the probabilities where nothing else is given.
            probs: The probabilities.
            q_values: The same, under the name that other policies have for it.

        Raises:
            SettingsError: No probabilities, or another number of them.
        """
        given: Any = next((one for one in (probs, q_values, nb_actions) if one is not None), None)
        if given is not nb_actions and nb_actions is not None and np.shape(given) != (nb_actions,):
            raise SettingsError(
                "{}, but probs has the shape {}", as_setting("nb_actions").at(nb_actions), list(np.shape(given))
            )
        return self._select_one("probs", given)
