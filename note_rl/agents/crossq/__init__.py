"""CrossQ (Bhatt et al. 2024, https://arxiv.org/abs/1902.05605)."""

from collections.abc import Sequence
from dataclasses import InitVar

from note_rl.agents.sac import SACSettings
from note_rl.agents.shared import MakeNetwork
from note_rl.settings import GSDE
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import width_or_widths


class CrossQSettings(SACSettings):
    """`SAC` without target networks: wide critics whose batch renormalisation keeps values from diverging.

    Critics evaluate (s, a) and (s', a') in one batch, which is normalised by the statistics of both halves together.
    There is batch renormalisation in front of each dense layer of perceptrons. It uses running statistics (eval mode)
    when the policy acts, in the choice of a', and in the critics of the actor's loss. Actor and `alpha` learn in every
    third gradient step, unless set() is given another `update_batches`. The paper uses Adam with beta1=0.5 and a
    learning rate of 1e-3.
    """

    default_update_batches = 3

    tau: float = setting(init=False)
    gsde: GSDE | None = setting(init=False)
    initial_log_std: float = setting(init=False)
    critic_dropout: float = setting(init=False)
    critic_layer_norm: bool = setting(init=False)
    critic_hidden_size: InitVar[int | Sequence[int]] = setting(
        default=(1024, 1024),
        kind=width_or_widths,
        text="Width of hidden layers of the critics, one number or one per layer; a single number means two layers.",
        effect="higher: faster learning per environment step, slower steps",
        typical="256 to 2048",
    )
    critic_network: InitVar[MakeNetwork | None] = setting(
        default=None, text="Makes the network of the critics; None: an `MLP` of `critic_hidden_size`."
    )
