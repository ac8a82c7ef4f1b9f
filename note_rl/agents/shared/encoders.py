"""A network with an encoder for each key of observations that are dictionaries, in no framework."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from note_rl.agents.shared.architecture import Architecture, NetworkPlan, Placed
from note_rl.agents.shared.layer_kinds import Activate, Shape, instead
from note_rl.environments.frames import channels_first
from note_rl.environments.observation_packing import ACTION, PackedKey, PackedShape
from note_rl.errors import SettingsError
from note_rl.errors.wording import choice, out_of_range
from note_rl.support.setting_fields import check_fields, documented, like, setting
from note_rl.support.value_kinds import widths

_FOR_LARGE_IMAGES = (
    {"conv": {"filters": 32, "size": 8, "stride": 4}},
    {"conv": {"filters": 64, "size": 4, "stride": 2}},
    {"conv": {"filters": 64, "size": 3}},
)  # Mnih et al. 2015
_FOR_SMALL_IMAGES = ({"conv": {"filters": 16, "size": 3}},)  # Young and Tian 2019
_SMALLEST_LARGE = 36  # pixels a side that the former leave something of
_NUM_IMAGE_FEATURES = 128
_OF_ENCODERS = ("layers", "hidden_sizes", "activation", "initializer", "gain", "noisy_std")


@documented
@dataclass(frozen=True)
class EncodedSettings:
    """Of a network for observations that are dictionaries."""

    encoders: Mapping[str, Any] | None = setting(
        None,
        text="By key, {layers: [...]} as for `layered_network`, with hidden_sizes, activation, initializer and gain if "
        "wished; None for numbers that are taken as they are. None in place of all: one for each key by what it shows, "
        "see `encoders_by_kind`.",
    )
    hidden_sizes: Sequence[int] = setting((64,), widths, text="Widths of dense layers behind all encoders.")
    activation: str = like(Architecture, "activation")
    initializer: str | None = like(Architecture, "initializer")
    gain: float | None = like(Architecture, "gain")
    head: Mapping[str, Any] | None = like(Architecture, "head")
    noisy_std: float = like(Architecture, "noisy_std")

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)

    def joined(self) -> Architecture:
        """Of the layers behind the encoders."""
        written = (), self.hidden_sizes, self.activation, self.initializer, self.gain, self.head
        return Architecture(*written, noisy_std=self.noisy_std)


@dataclass(frozen=True)
class EncoderPlan:
    """Plan of the features of one key.

    Attributes:
        part: Where it lies in an observation.
        network: Gives the features; None: its numbers are taken as they are.
    """

    part: PackedKey
    network: NetworkPlan | None

    @property
    def num_features(self) -> int:
        """That it gives."""
        return math.prod(self.part.shape if self.network is None else self.network.trunk[-1].output_shape)


@dataclass(frozen=True)
class EncodedPlan:
    """Encoders, and the network that goes on from all their features in a row.

    Attributes:
        encoders: In the order of the keys.
        joined: Of the features.
    """

    encoders: tuple[EncoderPlan, ...]
    joined: NetworkPlan


def encoded_plan(
    shape: Shape, num_outputs: int, encoders: Mapping[str, Any] | None, joined: Architecture
) -> EncodedPlan:
    """Plans a network for observations that are dictionaries.

    Args:
        shape: Of an observation, as `observed_shape` has it, or with an action behind it, whose numbers join the
            features as they are.
        num_outputs: Width of the last layer.
        encoders: By key, {layers: [...], hidden_sizes: [...], activation: ..., initializer: ..., gain: ...}, or None
            for numbers that are taken as they are; None in place of all: see `encoders_by_kind`.
        joined: Of the layers behind them.

    Raises:
        SettingsError: Observations of another kind, an unknown key, one without an encoder, or layers that do not fit.
    """
    if not isinstance(shape, PackedShape):
        raise SettingsError(
            "encoders are for observations that are dictionaries, and this network is to see an array of the shape {}: "
            "choose {}",
            *(list(shape), choice("hidden_sizes or layers")),
        )
    shown = [part for part in shape.parts if part.key != ACTION]
    keys = [part.key for part in shown]
    if encoders is None:
        encoders = encoders_by_kind(shown)
    if not isinstance(encoders, Mapping):
        raise SettingsError(
            out_of_range("encoders", f"be a group with an entry for each of {', '.join(keys)}", encoders)
        )
    for key in encoders:
        if key not in keys:
            raise SettingsError(f"encoders has {key}, which observations do not{instead(str(key), keys)}")
    for part in shown:
        if part.key not in encoders:
            raise SettingsError(
                f"encoders has none for {part.key}, which shows the shape {list(part.shape)}: add one such as "
                "{layers: [{dense: 64}]}, or null to take its numbers as they are"
            )
    plans = tuple(EncoderPlan(part, _plan(part, encoders.get(part.key))) for part in shape.parts)
    return EncodedPlan(plans, joined.plan((sum(plan.num_features for plan in plans),), num_outputs))


def encoders_by_kind(parts: Sequence[PackedKey]) -> dict[str, Any]:
    """Encoders for keys of which nothing is known but what they show.

    Images, bytes [H, W, C] or [C, H, W], go through convolutions and a dense layer of 128; all other numbers are taken
    as they are.
    """
    return {part.key: _of_an_image(part.shape) if part.is_image and len(part.shape) == 3 else None for part in parts}


def _of_an_image(shape: Shape) -> dict[str, Any]:
    side = min(shape[1:] if channels_first(shape) else shape[:2])
    convolutions = _FOR_LARGE_IMAGES if side >= _SMALLEST_LARGE else _FOR_SMALL_IMAGES if side >= 3 else ()
    return {"layers": [*convolutions, "flatten", {"dense": _NUM_IMAGE_FEATURES}]}


def _plan(part: PackedKey, written: Any) -> NetworkPlan | None:
    where = f"encoders.{part.key}"
    if written is None:
        return None
    if not isinstance(written, Mapping):
        raise SettingsError(out_of_range(where, "be a group such as {layers: [{dense: 64}]}, or null", written))
    for name in written:
        if name not in _OF_ENCODERS:
            raise SettingsError(f"{where} has no {name}{instead(str(name), list(_OF_ENCODERS))}")
    try:
        plan = Architecture(**{"layers": (), **written}).plan(part.shape, 1)
    except SettingsError as error:
        raise SettingsError(f"{where}.{error}") from None
    features = Placed(Activate("linear"), plan.trunk[-1].output_shape)
    return replace(plan, head=(features,))
