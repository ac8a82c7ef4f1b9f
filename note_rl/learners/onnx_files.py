"""ONNX models: written to files, and read again by ONNX Runtime."""

from pathlib import Path
from typing import Any

from note_rl.learners.policy_function import ACTION, INPUT, SCORES, ExportedPolicy, RunExported
from note_rl.types import Array, FloatArray

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

    def run(obs: Array) -> tuple[Array, FloatArray]:
        action, scores = session.run([ACTION, SCORES], {INPUT: obs})
        return action, scores

    return run
