"""Common base of algorithms that learn a policy and its value from rollouts."""

from dataclasses import InitVar
from typing import Any, ClassVar, Literal

from note_rl.agents.shared import MakeNetwork, PolicySettings
from note_rl.errors import EnvironmentMismatchError
from note_rl.learners.declarations import ActionKind
from note_rl.settings import GSDE
from note_rl.settings.state_dependent_noise import gsde as gsde_kind
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import SHARE, Number, flag_or_minibatch


class ActorCriticSettings(PolicySettings):
    """A policy and its value, for actions of all kinds. A subclass gives the loss.

    They are two networks, or the two heads of one (`layered_network` with shared=True). PPO and A2C may have a memory
    (`recurrent_network`), and then learn from whole sequences; see `Declared.initial_state`.

    Acts with `SoftmaxPolicy` where it chooses, with `GaussianPolicy` where actions are numbers.
    """

    on_policy = True
    action_kinds: ClassVar[tuple[ActionKind, ...] | None] = ("discrete", "multi_discrete", "multi_binary", "continuous")
    has_value_network = True

    critic_network: InitVar[MakeNetwork | None] = setting(
        default=None, text="The same for the value; None: as `network`."
    )
    gae_lambda: float = setting(
        default=0.95,
        kind=SHARE,
        text="Weight of long against short returns in the advantage; 1: whole returns.",
        effect="higher: less bias, more variance",
        typical="0.9 to 1",
    )
    normalise_advantage: bool | Literal["minibatch"] = setting(
        default=True,
        kind=flag_or_minibatch,
        text="Whether advantages get mean 0 and deviation 1 over the rollout; minibatch: over each minibatch.",
        effect="with it, the size of rewards does not change the size of steps",
    )
    initial_log_std: float = setting(
        default=0.0,
        kind=Number(),
        fixed=True,
        text="Log deviation of continuous actions at the start; it is learned, the same for all states. With `gsde` "
        "it is that of the noise matrix.",
        effect="higher: wider exploration at the start",
        typical="-2 to 0",
    )
    gsde: GSDE | None = setting(
        default=None,
        kind=gsde_kind,
        text="Noise on continuous actions is a learned function of the state, which lasts for some steps "
        "(`GSDEPolicy`); None: it is as wide in all states, and new in each step.",
    )


def check_has_numbers(agent: str, gsde: GSDE | None, choice: Any) -> None:
    """Refuses state-dependent exploration where actions are chosen, not numbers (EnvironmentMismatchError)."""
    if gsde is not None and choice is not None:
        raise EnvironmentMismatchError(
            f"gsde adds noise to actions that are numbers, and in this environment {agent} chooses among actions: "
            "leave gsde out"
        )
