"""Batch renormalisation in PyTorch."""

from typing import cast

import torch
from torch import Tensor, nn

from note_rl.agents.shared.inserted_layers import EPSILON, LARGEST_D, LARGEST_R, MOMENTUM, WARM_UP


class BatchRenorm(nn.BatchNorm1d):
    """Batch renormalisation of numbers in a row [B, N]; see `note_rl.agents.shared.inserted_layers`."""

    def __init__(self, num_features: int) -> None:
        super().__init__(num_features, EPSILON, MOMENTUM)

    def forward(self, x: Tensor) -> Tensor:
        """[B, N] -> [B, N]; in train mode the running statistics follow."""
        if not self.training:
            return super().forward(x)
        running_mean, running_variance = cast(Tensor, self.running_mean), cast(Tensor, self.running_var)
        num_batches = cast(Tensor, self.num_batches_tracked)
        mean, variance = x.mean(0), x.var(0, correction=0)
        deviation = (variance + self.eps).sqrt()
        with torch.no_grad():
            running = (running_variance + self.eps).sqrt()
            is_warm = num_batches >= WARM_UP
            r = torch.where(is_warm, (deviation / running).clamp(1.0 / LARGEST_R, LARGEST_R), 1.0)
            d = torch.where(is_warm, ((mean - running_mean) / running).clamp(-LARGEST_D, LARGEST_D), 0.0)
            running_mean.lerp_(mean, MOMENTUM)
            running_variance.lerp_(variance, MOMENTUM)
            num_batches.add_(1)
        return ((x - mean) / deviation * r + d) * self.weight + self.bias
