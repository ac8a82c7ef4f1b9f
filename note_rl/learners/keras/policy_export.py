"""Policies of Keras agents as ONNX models, and as SavedModels of TensorFlow."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from note_rl.learners.policy_function import (
    ACTION,
    SCORES,
    ExportedPolicy,
    Exporter,
    GreedyRule,
    RunExported,
    behind,
    cannot_be_exported,
)
from note_rl.learners.recurrence import pair_of
from note_rl.types import Array

_SIGNATURE = "serving_default"


def exporter(file_format: str) -> Exporter:
    """Returns what writes a format that `check_format` has let pass."""
    return _write_onnx if file_format == "onnx" else _write_saved_model


def _write_onnx(agent: Any, policy: ExportedPolicy, path: Path) -> RunExported:
    from note_rl.learners.keras.onnx_graph import UnknownOperationError, model_of  # brings onnx
    from note_rl.learners.onnx_files import write_model

    try:
        traced = _traced(agent, policy, "onnx").get_concrete_function()
        return write_model(model_of(traced, list(policy.inputs), sorted(policy.outputs)), policy, path)
    except UnknownOperationError as error:
        raise cannot_be_exported(agent, "onnx", error) from error


def _write_saved_model(agent: Any, policy: ExportedPolicy, path: Path) -> RunExported:
    traced = _traced(agent, policy, "saved_model")
    module = tf.Module()
    module.act = traced
    module.used = list(traced.get_concrete_function().graph.variables)  # and none of critics or targets
    tf.saved_model.save(module, str(path), signatures={_SIGNATURE: traced})
    shutil.rmtree(path / "assets", ignore_errors=True)
    read = tf.saved_model.load(str(path)).signatures[_SIGNATURE]

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        given = read(**{name: tf.constant(values) for name, values in inputs.items()})
        return {name: tensor.numpy() for name, tensor in given.items()}

    return run


def _traced(agent: Any, policy: ExportedPolicy, file_format: str) -> Any:
    """The function from the inputs of a policy, in order, to its outputs by name."""
    choose, normalise = _choice(policy.rule), _normalisation(policy)

    def act(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        observation, *rest = inputs
        if policy.state:
            *rows, starts = rest
            state = {
                name: _begun(first, before, starts)
                for (name, first), before in zip(policy.state.items(), rows, strict=True)
            }
            scores, after = pair_of(agent.action(normalise(observation), state), agent)
        else:
            scores, after = agent.action(normalise(observation)), {}
        given = {ACTION: choose(scores), SCORES: scores}
        for name, first in policy.state.items():
            given[behind(name)] = tf.reshape(tf.cast(after[name], tf.float32), (-1, first.size))
        return {name: tf.identity(tensor, name) for name, tensor in given.items()}

    signature = [tf.TensorSpec((None, *shape), dtype, name) for name, (shape, dtype) in policy.inputs.items()]
    traced = tf.function(act, input_signature=signature)
    try:
        traced.get_concrete_function()
    except (TypeError, ValueError, AttributeError, tf.errors.OpError) as error:
        raise cannot_be_exported(agent, file_format, error) from error
    return traced


def _begun(first: Array, before: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """An array of a state [B, ...] from rows [B, S], where an episode begins from the first one [...]."""
    rows = tf.where(starts[:, None], tf.constant(first.reshape(1, -1), tf.float32), before)
    return tf.cast(tf.reshape(rows, (-1, *first.shape)), first.dtype)


def _normalisation(policy: ExportedPolicy) -> Callable[[tf.Tensor], tf.Tensor]:
    """See `ObservationNormaliser`; in double precision, as there."""
    if policy.normaliser.moments is None:
        return lambda obs: obs
    mean, std, limit = policy.normaliser.scaling()

    def normalise(obs: tf.Tensor) -> tf.Tensor:
        scaled = (tf.cast(obs, tf.float64) - mean) / std
        return tf.cast(tf.minimum(tf.maximum(scaled, -limit), limit), tf.float32)

    return normalise


def _choice(rule: GreedyRule) -> Callable[[tf.Tensor], tf.Tensor]:
    """See `GreedyRule`."""

    def choose(scores: tf.Tensor) -> tf.Tensor:
        if rule.kind == "argmax":
            return tf.argmax(scores, axis=-1, output_type=tf.int64) + rule.first
        if rule.kind == "argmax_each":
            parts = tf.split(scores, list(rule.sizes), axis=-1)
            highest = tf.stack([tf.argmax(part, axis=-1, output_type=tf.int64) for part in parts], axis=-1)
            return tf.reshape(highest + tf.constant(rule.first, tf.int64), (-1, *rule.action_shape))
        if rule.kind == "switch":
            return tf.reshape(tf.cast(scores > 0.5, tf.int64), (-1, *rule.action_shape))
        numbers = scores[..., : len(rule.low)] if rule.with_deviations else scores
        if rule.kind == "squash":
            numbers = rule.low + 0.5 * (tf.tanh(numbers) + 1.0) * (rule.high - rule.low)
        if rule.whole:
            numbers = tf.round(numbers)
        action = tf.reshape(tf.minimum(tf.maximum(numbers, rule.low), rule.high), (-1, *rule.action_shape))
        return tf.cast(action, tf.int64) if rule.whole else action

    return choose
