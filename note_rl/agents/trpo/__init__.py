"""Trust region policy optimization (Schulman et al. 2015, https://arxiv.org/abs/1502.05477)."""

from types import MappingProxyType

from note_rl.agents.actor_critic import ActorCriticSettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, SHARE_ABOVE_0, Count


class TRPOSettings(ActorCriticSettings):
    """The largest step along the natural gradient that keeps the policy close to the one that collected.

    One update per rollout, for actions of all kinds. The policy takes one step: conjugate gradients find
    its direction, and a line search its length, so that the KL divergence stays below a bound. Then the critic follows
    the returns by the optimizer that train() is given, which the policy has no use for.
    """

    batch_attributes = ("log_prob_old", "advantage", "return_")
    reported_names = ("approx_kl", "step_fraction", "entropy")
    has_value_network = False  # the policy's step needs parameters of its own, so there is no trunk to share
    set_defaults = MappingProxyType({"PPO": True, "rollout_steps": 2048, "batch": "rollout", "num_epochs": 1})

    value_coef: float = setting(init=False)
    max_kl: float = setting(
        default=0.01,
        kind=POSITIVE,
        text="Bound of the mean KL divergence between the policies before and after an update.",
        effect="higher: larger changes of the policy by one rollout",
        typical="0.005 to 0.05",
    )
    cg_iterations: int = setting(
        default=15,
        kind=Count(),
        text="Most iterations of the conjugate gradient.",
        effect="higher: a more exact direction, slower updates",
        typical="10 to 20",
    )
    cg_tolerance: float = setting(
        default=1e-10,
        kind=NOT_NEGATIVE,
        text="Squared norm of the residual at which it ends earlier.",
        effect="higher: fewer iterations, a less exact direction",
        typical="1e-10 to 1e-6",
    )
    cg_damping: float = setting(
        default=0.1,
        kind=NOT_NEGATIVE,
        text="Added to the diagonal of the Fisher information.",
        effect="higher: steadier directions, nearer to the plain gradient",
        typical="0.01 to 0.2",
    )
    fvp_every: int = setting(
        default=1,
        kind=Count(),
        text="n: the Fisher information is estimated from every n-th transition.",
        effect="higher: faster updates, a less exact direction",
        typical="1 to 10",
    )
    line_search_steps: int = setting(
        default=10,
        kind=Count(),
        text="Lengths that are tried, at most, before the policy stays as it is.",
        effect="higher: fewer updates are given up",
        typical="10 to 20",
    )
    line_search_shrink: float = setting(
        default=0.8,
        kind=SHARE_ABOVE_0,
        text="Each of them as a share of the one before.",
        effect="higher: more lengths are tried before a short one",
        typical="0.5 to 0.9",
    )
    critic_iterations: int = setting(
        default=10,
        kind=Count(),
        text="Passes of the critic over each rollout; fixed when the agent is made.",
        effect="higher: values follow returns more closely",
        typical="5 to 20",
    )
    critic_batch_size: int = setting(
        default=128,
        kind=Count(),
        text="Transitions in each of its gradient steps, at most all of the rollout.",
        effect="higher: fewer and steadier steps",
        typical="64 to 512",
    )
