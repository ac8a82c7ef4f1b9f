"""A whole network as a list of layers, in no framework: defaults, the shapes between layers, and how weights begin."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from note_rl.agents.shared.layer_kinds import (
    ACTIVATION,
    GAIN,
    INITIALIZER,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Norm,
    Pool,
    Shape,
    instead,
    parse_layers,
)
from note_rl.agents.shared.perceptrons import MLPSettings
from note_rl.agents.shared.spaces import channels_last
from note_rl.environments.frames import channels_first
from note_rl.errors import SettingsError
from note_rl.errors.wording import SettingName, out_of_range
from note_rl.support.setting_fields import check_fields, documented, like, setting
from note_rl.support.value_kinds import flag, widths

_HEAD_TEXT = "What follows the trunk, as {layers: [...], initializer: ..., gain: ...}: layers, and the output layer's."


@documented
@dataclass(frozen=True)
class Head:
    """The layers behind the trunk, and the initial weights of the linear output layer."""

    layers: tuple[Layer, ...] = setting((), text="Before the output layer.")
    initializer: str | None = setting(None, INITIALIZER, text="Of the output layer; None: that of the whole list.")
    gain: float | None = setting(
        None, GAIN, text="Of the output layer; None: what the agent says where it is orthogonal (`begin`), else 1."
    )

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)


@dataclass(frozen=True)
class Placed:
    """A layer in its place.

    Attributes:
        layer: With the defaults of the list filled in.
        input_shape: Of what it takes.
    """

    layer: Layer
    input_shape: Shape

    @property
    def output_shape(self) -> Shape:
        """Of what it gives."""
        return self.layer.output_shape(self.input_shape)


@documented
@dataclass(frozen=True)
class Architecture:
    """A trunk of layers, and the head that makes outputs of what the trunk gives.

    Of agents whose value is a network of observations alone (PPO, A2C), the value has a head of its own, and may have
    the trunk in common with the policy.
    """

    layers: Sequence[Any] = setting(
        (), text="Of the trunk, in their order: objects, or as `note_rl.agents.shared.layer_kinds` says."
    )
    hidden_sizes: Sequence[int] = setting(
        (), widths, text="Widths of dense layers behind those of `layers`, where these have no dense ones."
    )
    activation: str = setting("relu", ACTIVATION, text="Of conv and dense layers that name none.")
    initializer: str | None = setting(
        None,
        INITIALIZER,
        text="Of layers that name none; None: orthogonal where the agent begins so (PPO, A2C), else uniform.",
    )
    gain: float | None = setting(
        None,
        GAIN,
        text="Factor of the weights of layers that name none; None: sqrt(2) where they are orthogonal, else 1.",
    )
    head: Mapping[str, Any] | None = setting(None, text=_HEAD_TEXT)
    value_head: Mapping[str, Any] | None = setting(None, text="That of the value; None: as `head`, but for its gain.")
    shared: bool = setting(False, flag, text="Whether policy and value have one trunk.")
    noisy_std: float = like(MLPSettings, "noisy_std")
    file: str | None = setting(
        None, text="Where all of this was read, for information; see `note_rl.agents.shared.cfg_files.read_cfg`."
    )

    def __post_init__(self) -> None:
        """Reads the lists.

        Raises:
            SettingsError: What is unknown, missing, of another kind or out of range; see `parse_layers`.
        """
        check_fields(self)
        if not self._listed and not self.hidden_sizes:
            raise SettingsError(
                "{} is empty: name at least one, such as [{}], or hidden_sizes",
                *(SettingName("layers").at([]), Dense.example),
            )
        dense = [index for index, layer in enumerate(self._listed) if isinstance(layer, Dense)]
        if self.hidden_sizes and dense:
            sizes = SettingName("hidden_sizes")
            raise SettingsError(
                "{} is dense, and {} would come behind the list: write {} to have the list alone, or take dense layers "
                "out of it",
                *(SettingName(f"layers.{dense[0]}"), sizes.at(list(self.hidden_sizes)), sizes.at([])),
            )
        _parse_head(self.head, "head")
        _parse_head(self.value_head, "value_head")

    @cached_property
    def _listed(self) -> tuple[Layer, ...]:
        return parse_layers(self.layers)

    @cached_property
    def _head(self) -> Head:
        return _parse_head(self.head, "head")

    def plan(self, obs_shape: Shape, num_outputs: int) -> "NetworkPlan":
        """All layers in their places.

        Args:
            obs_shape: Of one observation. Where there are layers for images, [H, W] has one channel, and of [C, H, W]
                the channels come to the end.
            num_outputs: Width of the last layer.

        Raises:
            SettingsError: A layer that does not take what comes before it: which, its input and what would help.
        """
        sees_images = any(isinstance(layer, Conv | Pool) for layer in self._listed)
        shape = channels_last(obs_shape) if sees_images else obs_shape
        trunk = self._place(self._listed, shape, "layers")
        hidden = tuple(Dense(units) for units in self.hidden_sizes)
        trunk += self._place(hidden, trunk[-1].output_shape if trunk else shape, "hidden_sizes")
        head = self._place(self._head.layers, trunk[-1].output_shape, "head.layers")
        last = (head or trunk)[-1].output_shape
        if len(last) != 1:
            raise SettingsError(
                f"the output layer takes numbers in a row, and the layers before it give the shape {list(last)}: "
                f"put {Flatten.example} at the end of layers"
            )
        initializer = self._head.initializer or self.initializer
        output = Dense(num_outputs, "linear", initializer, self._head.gain, self.noisy_std or None)
        return NetworkPlan(self, obs_shape, tuple(trunk), (*head, Placed(output, last)))

    def of_value(self) -> "Architecture":
        """The architecture of the value beside the policy that this one is of."""
        as_policy = {**(self.head or {}), "gain": None}
        return replace(self, head=as_policy if self.value_head is None else self.value_head, value_head=None)

    def _place(self, layers: Sequence[Layer], shape: Shape, where: str) -> list[Placed]:
        placed = []
        for index, layer in enumerate(layers):
            placed.append(Placed(self._with_defaults(layer), shape))
            try:
                shape = layer.output_shape(shape)
            except SettingsError as error:
                raise SettingsError(f"{where}.{index} ({layer.name}) gets the shape {list(shape)}: {error}") from None
        return placed

    def _with_defaults(self, layer: Layer) -> Layer:
        if not isinstance(layer, Conv | Dense):
            return layer
        filled = replace(
            layer,
            activation=layer.activation or self.activation,
            initializer=layer.initializer or self.initializer,
            gain=self.gain if layer.gain is None else layer.gain,
        )
        if self.noisy_std and isinstance(filled, Dense) and filled.noisy_std is None:
            return replace(filled, noisy_std=self.noisy_std)
        return filled


@dataclass(frozen=True)
class NetworkPlan:
    """Plan of a network for observations of one shape.

    Attributes:
        architecture: Of which.
        obs_shape: Of one observation.
        trunk, head: The layers in their places; the last one of the head gives the outputs.
    """

    architecture: Architecture
    obs_shape: Shape
    trunk: tuple[Placed, ...]
    head: tuple[Placed, ...]

    @property
    def input_shape(self) -> Shape:
        """Shape of the first layer's input."""
        return self.trunk[0].input_shape

    @property
    def turns_images(self) -> bool:
        """Whether observations are images [C, H, W], whose channels come to the end for the layers."""
        return channels_first(self.obs_shape) and self.input_shape != self.obs_shape

    @property
    def is_dense(self) -> bool:
        """Whether acting needs nothing but dense layers; normalisations by running statistics are merged with them."""
        return all(_is_dense(one) or _is_merged(one) for one in (*self.trunk, *self.head))

    @property
    def is_plain(self) -> bool:
        """Whether there are dense layers and nothing else that changes numbers in eval mode."""
        return all(_is_dense(one) for one in (*self.trunk, *self.head))

    @property
    def hidden_is_dense(self) -> bool:
        """Whether what the output layer sees comes from a dense layer, and not from a normalisation behind one."""
        kept = [one for one in (*self.trunk, *self.head) if not isinstance(one.layer, Dropout | Flatten)]
        return len(kept) == 1 or not _is_merged(kept[-2])

    def of_value(self) -> "NetworkPlan":
        """The plan of the value beside the policy that this one is of."""
        return self.architecture.of_value().plan(self.obs_shape, 1)


def _is_dense(placed: Placed) -> bool:
    return isinstance(placed.layer, Dense | Flatten | Dropout)


def _is_merged(placed: Placed) -> bool:
    layer = placed.layer
    return isinstance(layer, Norm) and layer.kind != "layer" and len(placed.input_shape) == 1


def weighted(placed: Iterable[Placed]) -> list[Conv | Dense]:
    """The layers that have weights to be drawn."""
    return [one.layer for one in placed if isinstance(one.layer, Conv | Dense)]


def begin(layer: Conv | Dense, output_gain: float | None = None, orthogonal: bool = False) -> tuple[str, float]:
    """How the weights of a layer are drawn: the initializer, and the factor.

    Args:
        layer: With the defaults of its list.
        output_gain: Of an orthogonal output layer that names none itself; None: it is no output layer.
        orthogonal: Whether the agent begins with orthogonal weights where nothing else is said.
    """
    initializer = layer.initializer or ("orthogonal" if orthogonal else "uniform")
    if layer.gain is not None:
        return initializer, layer.gain
    hidden = math.sqrt(2.0) if output_gain is None else output_gain
    return initializer, hidden if initializer == "orthogonal" else 1.0


def uniform_bound(initializer: str, gain: float, fan_in: int, fan_out: int) -> float:
    """The largest weight of a layer whose weights are drawn evenly around 0.

    glorot_uniform: sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, eq. 16); he_uniform: sqrt(6 / fan_in) (He et al.
    2015, eq. 10); uniform: 1 / sqrt(fan_in); each times the gain.
    """
    squared = {"glorot_uniform": 6.0 / (fan_in + fan_out), "he_uniform": 6.0 / fan_in, "uniform": 1.0 / fan_in}
    return gain * math.sqrt(squared[initializer])


def _parse_head(written: object, where: str) -> Head:
    known = [one.name for one in fields(Head)]
    if written is None:
        return Head()
    if not isinstance(written, Mapping):
        rule = f"be a group of {', '.join(known)}, such as {{gain: 0.01}}"
        raise SettingsError(out_of_range(where, rule, written))
    for key in written:
        if key not in known:
            raise SettingsError(f"{where} has no {key}{instead(str(key), known)}")
    layers = parse_layers(written.get("layers") or (), f"{where}.layers")
    try:
        return Head(layers, written.get("initializer"), written.get("gain"))
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None
