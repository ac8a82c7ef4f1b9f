"""The two frameworks behind one face, so that each contract test is written once."""

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Framework:
    """Builds agents and small custom losses in one framework."""

    package: str

    @property
    def agents(self) -> ModuleType:
        return importlib.import_module(f"note_rl.agents.{self.package}")

    def module(self, path: str) -> ModuleType:
        """One of `note_rl.agents` in this framework: of "ppo" its agent, of "shared/networks" what is shared."""
        name = {"pytorch": "torch", "keras": "keras"}[self.package]
        where = path.replace("/", f".{name}.") if "/" in path else f"{path}.{name}"
        return importlib.import_module(f"note_rl.agents.{where}")

    @property
    def optimizers(self) -> ModuleType:
        return importlib.import_module(f"note_rl.optimizers.{self.package}")

    def parameters(self, agent: Any) -> list[np.ndarray]:
        """All trained parameters as arrays, those of networks in the order kernel, bias."""
        from note_rl.learners.base import parameter_groups

        return [self.array(p) for group in parameter_groups(agent.param) for p in group]

    def array(self, tensor: Any) -> np.ndarray:
        return np.array(tensor.detach().numpy() if self.package == "pytorch" else tensor.numpy())

    def set(self, tensor: Any, values: np.ndarray) -> None:
        """Sets a variable of an agent from outside."""
        if self.package == "pytorch":
            import torch

            tensor.data.copy_(torch.from_numpy(values))
        else:
            tensor.assign(values)

    def base(self) -> type:
        note_rl = importlib.import_module("note_rl")
        return note_rl.RL_pytorch if self.package == "pytorch" else note_rl.RL

    def variable(self, values: Any) -> Any:
        if self.package == "pytorch":
            import torch

            return torch.tensor(values, dtype=torch.float32, requires_grad=True)
        import tensorflow as tf

        return tf.Variable(values, dtype=tf.float32)

    def mean(self, tensor: Any) -> Any:
        if self.package == "pytorch":
            return tensor.mean()
        import tensorflow as tf

        return tf.reduce_mean(tensor)

    def numbers(self, tensor: Any) -> Any:
        """In single precision."""
        if self.package == "pytorch":
            return tensor.float()
        import tensorflow as tf

        return tf.cast(tensor, tf.float32)

    def stop(self, tensor: Any) -> Any:
        if self.package == "pytorch":
            return tensor.detach()
        import tensorflow as tf

        return tf.stop_gradient(tensor)


def frameworks() -> list[Any]:
    return [pytest.param(Framework(name), id=name) for name in ("pytorch", "keras")]
