"""Policies that were exported, called as others call them."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def exported(agent: Any, folder: Path, kind: str | None = None) -> Run:
    """Exports an agent; in PyTorch in its own format, as its exporter to ONNX takes seconds."""
    kind = kind or {"torch": "torch", "keras": "onnx"}[agent.framework]
    policy = agent.export(folder / f"policy.{kind}", kind)
    if kind == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(folder / "policy.onnx")
        assert [one.name for one in session.get_inputs()] == list(policy.inputs)
        names = [one.name for one in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))
    if kind == "saved_model":
        import tensorflow as tf

        read = tf.saved_model.load(str(folder / "policy.saved_model"))
        act = read.signatures["serving_default"]

        def of_tensorflow(
            inputs: Mapping[str, np.ndarray], read: Any = read
        ) -> dict[str, np.ndarray]:  # which it needs
            given = act(**{name: tf.constant(values) for name, values in inputs.items()})
            return {name: tensor.numpy() for name, tensor in given.items()}

        return of_tensorflow
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about parameters that are tensors, as log deviations are
        module = torch.export.load(str(folder / f"policy.{kind}")).module()

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = module(*(torch.from_numpy(inputs[name]) for name in policy.inputs))
        return {name: tensor.detach().numpy() for name, tensor in zip(policy.outputs, given, strict=True)}

    return run
