"""Networks with an encoder for each key of observations that are dictionaries, in PyTorch."""

from typing import cast

import torch
from torch import Tensor, nn

from note_rl.agents.shared.encoders import EncodedPlan, EncodedSettings, EncoderPlan, encoded_plan
from note_rl.agents.shared.layer_kinds import Shape
from note_rl.agents.shared.torch.layered import LayeredNetwork
from note_rl.agents.shared.torch.networks import as_numbers
from note_rl.settings.field_arguments import taking


class EncodedNetwork(nn.Module):
    """Encoders, whose features go in a row through the layers behind them.

    Args:
        plan: Of all of them.
    """

    def __init__(self, plan: EncodedPlan) -> None:
        super().__init__()
        self.plan = plan
        made = [nn.Identity() if one.network is None else LayeredNetwork(one.network) for one in plan.encoders]
        self.encoders = nn.ModuleList(made)
        self.joined = LayeredNetwork(plan.joined)

    def forward(self, x: Tensor) -> Tensor:
        """[B, n] -> [B, num_outputs]."""
        return cast(Tensor, self.joined(self._encoded(x)))

    def _encoded(self, x: Tensor) -> Tensor:
        pairs = zip(self.encoders, self.plan.encoders, strict=True)
        return torch.cat([encoder(_numbers(plan, x)).flatten(1) for encoder, plan in pairs], dim=1)

    def features(self, x: Tensor) -> Tensor:
        """See `LayeredNetwork`."""
        return self.joined.features(self._encoded(x))

    def last_hidden(self, features: Tensor) -> Tensor:
        """See `LayeredNetwork`."""
        return self.joined.last_hidden(features)

    @property
    def output_layer(self) -> nn.Linear:
        """See `LayeredNetwork`."""
        return self.joined.output_layer

    def start_orthogonal(self, output_gain: float) -> None:
        """Draws weights anew; see `LayeredNetwork`."""
        for network in (*self.encoders, self.joined):
            if isinstance(network, LayeredNetwork):
                network.start_orthogonal(output_gain)


def _numbers(plan: EncoderPlan, x: Tensor) -> Tensor:
    """The numbers under one key, [B, *shape]; bytes as 0 to 1."""
    part = plan.part
    numbers = as_numbers(x[:, part.first : part.end]).reshape(-1, *part.shape)
    return numbers / 255.0 if part.is_image and x.dtype != torch.uint8 else numbers


@taking(EncodedSettings)
def encoded_network(input_shape: Shape, num_outputs: int, settings: EncodedSettings) -> EncodedNetwork:
    """Makes a network for observations that are dictionaries, whose shape in a row knows its keys.

    Raises:
        SettingsError: An unknown key, one without an encoder, layers that do not fit, other observations.
    """
    return EncodedNetwork(encoded_plan(input_shape, num_outputs, settings.encoders, settings.joined()))
