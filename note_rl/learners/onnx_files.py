"""ONNX models: written to files, and read again by ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from note_rl.learners.policy_function import ExportedPolicy, RunExported
from note_rl.types import Array

OPSET = 18
"""Version of the operators: read by ONNX Runtime 1.14 and later."""


def write_model(model: Any, policy: ExportedPolicy, path: Path) -> RunExported:
    """Writes an onnx.ModelProto, with what is worth knowing of it, and reads it again."""
    import onnx
    import onnxruntime

    onnx.helper.set_model_props(model, dict(policy.about))
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        names = list(policy.outputs)
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    return run
