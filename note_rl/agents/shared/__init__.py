"""Parts shared by several algorithms: the settings here, networks and distributions in `torch/` and `keras/`."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar
from typing import Any, ClassVar

from note_rl.agents.declaration import AgentSettings
from note_rl.environments import EnvLike
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, SHARE, SHARE_ABOVE_0, Count, width_or_widths

MakeNetwork = Callable[[tuple[int, ...], int], Any]

_HIDDEN = "Width of the hidden layers, one number or one per layer; a single number means two layers."
_LARGER = "higher: richer functions, slower steps"


class CommonSettings(AgentSettings):
    """Of every algorithm."""

    env: EnvLike = setting(default="CartPole-v1", text="Environment, id, list or factory.")
    network: InitVar[MakeNetwork | None] = setting(
        default=None, text="Makes a network from (input shape, number of outputs); None: an `MLP` of `hidden_size`."
    )
    gamma: float = setting(
        default=0.99,
        kind=SHARE,
        text="Discount of one step: what a reward is worth one step later.",
        effect="higher: rewards count from farther ahead, and values are harder to learn",
        typical="0.9 to 0.999",
    )
    device: InitVar[str] = setting(default="cpu", text="Where the networks live, as the framework names it.")


class FrameSettings(CommonSettings):
    """Of algorithms whose networks may see several frames together."""

    frame_stack: int = setting(
        default=1,
        kind=Count(),
        text="Frames that are shown together; training shows as many.",
        effect="higher: velocities can be seen, and networks are larger",
        typical="1 to 4",
    )


class SizedSettings(FrameSettings):
    """Of algorithms that can be made from the sizes of observations and actions alone."""

    state_dim: InitVar[int | None] = setting(
        default=None,
        kind=Count(),
        text="Length of an observation; None: read from the environment, as action_dim.",
        kw_only=False,
    )
    hidden_size: InitVar[int | Sequence[int]] = setting(
        default=(64, 64), kind=width_or_widths, text=_HIDDEN, effect=_LARGER, typical="32 to 512", kw_only=False
    )
    action_dim: InitVar[int | None] = setting(
        default=None, kind=Count(), text="Number of actions to choose one of.", kw_only=False
    )


class PolicySettings(SizedSettings):
    """Of algorithms that learn a policy beside values."""

    network: InitVar[MakeNetwork | None] = setting(
        default=None,
        text="Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.",
    )
    entropy_coef: float = setting(
        default=0.0,
        kind=NOT_NEGATIVE,
        text="Weight of the entropy bonus.",
        effect="higher: more exploration",
        typical="0 to 0.05",
    )
    value_coef: float = setting(
        default=0.5,
        kind=NOT_NEGATIVE,
        text="Weight of the value loss.",
        effect="higher: values learn faster, and layers that the policy shares serve them more",
        typical="0.25 to 1",
    )


class TargetSettings(CommonSettings):
    """Of algorithms with target networks."""

    tau: float = setting(
        default=0.005,
        kind=SHARE_ABOVE_0,
        text="Share of the online parameters taken over at each target update; 1 copies.",
        effect="higher: targets follow faster, and less steadily",
        typical="0.001 to 0.05, or 1 at longer intervals",
    )


class CriticSettings(TargetSettings):
    """Of algorithms whose actors climb what critics say of actions."""

    on_policy = False
    reported_names: ClassVar[tuple[str, ...]] = ("q_mean",)

    hidden_size: InitVar[int | Sequence[int]] = setting(
        default=(64, 64), kind=width_or_widths, text=_HIDDEN, effect=_LARGER, typical="64 to 512", kw_only=False
    )
    critic_network: InitVar[MakeNetwork | None] = setting(
        default=None, text="The same for the critic; None: as `network`."
    )


class BoundedSettings(FrameSettings, CriticSettings):
    """Of such algorithms for one agent, whose actions are numbers within bounds."""

    action_kinds = ("bounded",)

    hidden_size: InitVar[int | Sequence[int]] = (400, 300)
    env: EnvLike = "Pendulum-v1"
