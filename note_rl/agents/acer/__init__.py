"""Actor-critic with experience replay, for discrete actions (Wang et al. 2016, https://arxiv.org/abs/1611.01224)."""

from types import MappingProxyType

from note_rl.agents.shared import PolicySettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, SHARE_BELOW_1, flag


class ACERSettings(PolicySettings):
    """A policy and its action values, learned from each rollout as it is taken and from sequences of older ones.

    set() begins with rollouts of 20 steps, about 4 gradient steps on the pool after each, and gradients up to a norm
    of 10. Acts with `SoftmaxPolicy`.
    """

    action_kinds = ("discrete",)
    batch_attributes = ("ended", "behaviour", "discount")
    reported_names = ("q_mean", "entropy", "value_loss")
    set_defaults = MappingProxyType(
        {
            "sequences": True,
            "sequence_length": 20,
            "replay_ratio": 4.0,
            "pool_size": 50_000,
            "learning_starts": 1_000,
            "max_grad_norm": 10.0,
        }
    )

    entropy_coef: float = 0.01
    ema_alpha: float = setting(
        default=0.99,
        kind=SHARE_BELOW_1,
        text="Share of the average policy that stays in each gradient step.",
        effect="higher: the average policy follows more slowly, and the policy with it",
        typical="0.9 to 0.999",
    )
    importance_c: float = setting(
        default=10.0,
        kind=POSITIVE,
        text="Where importance weights of the policy gradient are truncated; what is cut off is made up for by action "
        "values.",
        effect="higher: less trust in action values, more variance",
        typical="1 to 20",
    )
    trust_region: bool = setting(
        default=True,
        kind=flag,
        text="Whether the policy is kept near the average policy.",
        effect="without it, steps are larger and cheaper",
    )
    delta: float = setting(
        default=1.0,
        kind=NOT_NEGATIVE,
        text="How far it may go in one step, along the gradient of the KL divergence.",
        effect="higher: larger changes of the policy",
        typical="0.1 to 2",
    )
    epsilon: float = setting(
        default=1e-6,
        kind=POSITIVE,
        text="Added to probabilities that are divided by.",
        effect="higher: ratios of unlikely actions are kept smaller",
        typical="1e-8 to 1e-4",
    )
