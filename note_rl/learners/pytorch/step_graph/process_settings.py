"""Settings of the whole process that kernels of a recording were chosen by, or that a loss asks for."""

from typing import Any, Final

import torch
from torch.backends import cuda, mha

SETTINGS: Final = (
    *(torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.initial_seed),
    *(torch.are_deterministic_algorithms_enabled, torch.is_deterministic_algorithms_warn_only_enabled),
    *(torch.get_deterministic_debug_mode, torch.get_float32_matmul_precision, torch.is_warn_always_enabled),
    *(torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled),
    *(torch.get_num_threads, torch.get_num_interop_threads, torch.is_autocast_cache_enabled),
    *(mha.get_fastpath_enabled, cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled),
    *(cuda.math_sdp_enabled, cuda.cudnn_sdp_enabled),
)
"""Functions that give settings on which only losses that name one of these depend; compared for such a loss."""


def types_of_numbers() -> tuple[Any, ...]:
    """Returns by which types, and on which device, any loss makes and multiplies numbers now."""
    made = torch.empty(0)  # a tenth of the time that torch.get_default_device() takes
    kind = made.device.type
    autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    return made.dtype, made.device, autocast
