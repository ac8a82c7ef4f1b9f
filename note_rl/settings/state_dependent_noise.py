"""Choices about state-dependent exploration, for the agents that have it."""

from dataclasses import dataclass
from typing import Any

from note_rl.errors import AgentContractError, SettingsError
from note_rl.errors.wording import Name, choice, out_of_range
from note_rl.policy import GSDEPolicy, Policy, SquashedGSDEPolicy
from note_rl.support.setting_fields import check_fields, documented, setting
from note_rl.support.value_kinds import POSITIVE, Described, flag


@documented
@dataclass(frozen=True, kw_only=True)
class GSDE:
    """Generalised state-dependent exploration (Raffin et al. 2022, https://arxiv.org/abs/2005.05719).

    The deviations sigma [F, A] of the noise matrix are learned; they begin at exp(`initial_log_std`) of the agent. See
    `note_rl.policy.state_dependent` for what they do.
    """

    full_std: bool = setting(
        True, flag, text="Whether each feature has a deviation for each number of the action; else one for all of them."
    )
    use_expln: bool = setting(
        False,
        flag,
        text="Whether deviations are exp(x) up to 1 and log(1 + x) + 1 beyond it (expln), so that they grow slowly; "
        "else exp(x), where x is the learned logarithm.",
    )
    learn_features: bool = setting(
        False,
        flag,
        text="Whether the loss also changes the features by what they do to deviations; else by means alone.",
    )
    clip_mean: float | None = setting(
        None, POSITIVE, text="Means are kept within this distance of 0; None: they are left as they are."
    )

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)


def _gsde(name: Name, value: Any) -> GSDE:
    if not isinstance(value, GSDE):
        raise SettingsError(out_of_range(name, f"be {gsde.range}", value))
    return value


gsde = Described("a GSDE()", _gsde)

_POLICIES = choice("GSDEPolicy, or SquashedGSDEPolicy for SAC and TQC")


def check_explores_alike(agent: str, on_policy: bool | None, has_gsde: bool, policy: Policy) -> None:
    """Refuses an agent and a policy of which only one explores by the state, or only one squashes actions.

    Args:
        agent: The name of its class.
        on_policy: Whether it learns from rollouts, and so by the density of actions that are not squashed; None: it is
            not known.
        has_gsde: Whether it has `gsde`.
        policy: Chooses from its answers; several, where it is made of such.

    Raises:
        AgentContractError: Naming both.
    """
    for one in getattr(policy, "policies", policy if isinstance(policy, list | tuple) else [policy]):
        if has_gsde and not one.is_state_dependent:
            raise AgentContractError(
                "{} has gsde and answers with means and pushes, which {} does not take: explore with {}, or leave gsde "
                "out",
                *(agent, type(one).__name__, _POLICIES),
            )
        if one.is_state_dependent and not has_gsde:
            raise AgentContractError(
                "{} takes means and pushes, which {} does not give: {}",
                *(type(one).__name__, agent, choice("make a PPO, A2C, TRPO, SAC or TQC with gsde=GSDE()")),
            )
        if on_policy and isinstance(one, SquashedGSDEPolicy):
            raise AgentContractError(
                "{} squashes actions into their range, and {} learns from actions that are not squashed: explore with "
                "{}",
                *(type(one).__name__, agent, _POLICIES),
            )
        if on_policy is False and isinstance(one, GSDEPolicy):
            raise AgentContractError(
                "{} does not squash actions into their range, and {} learns from actions that are: explore with {}",
                *(type(one).__name__, agent, _POLICIES),
            )
