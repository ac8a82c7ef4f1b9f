"""The layers that a network may be made of, in no framework: the arguments of each, and which shapes it makes of which.

In a configuration a layer is its name with its settings, `{conv: {filters: 32, size: 8, stride: 4}}`, with the one
setting that says most, `{dense: 512}`, or its name alone, `flatten`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, get_args

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, as_setting, out_of_range
from note_rl.support.near_names import nearest
from note_rl.support.setting_fields import check_fields, documented, setting
from note_rl.support.value_kinds import NOT_NEGATIVE, Count, Number, OneOf, described
from note_rl.types import Activation

Shape = tuple[int, ...]

ACTIVATION = OneOf((*get_args(Activation), "linear"))
INITIALIZER = OneOf(("orthogonal", "glorot_uniform", "he_uniform", "uniform"))
GAIN = Number(0.0, above=True)

_ACTIVATION_TEXT = "relu, tanh, elu, silu or linear; None: that of the whole list."
_INITIALIZER_TEXT = "orthogonal, glorot_uniform, he_uniform or uniform; None: that of the whole list."
_GAIN_TEXT = "Factor of the weights that are drawn; None: that of the whole list."


@described("a whole number, or two for height and width")
def _pair(name: Name, value: Any) -> tuple[int, int]:
    """(height, width)."""
    both = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(both) != 2:
        raise SettingsError(out_of_range(name, "be a whole number, or two for height and width", value))
    return Count()(name, both[0]), Count()(name, both[1])


class Layer:
    """Base of all layers.

    Attributes:
        name: In configurations.
        shorthand: The setting that a bare value stands for.
        example: As it may be written.
    """

    name: ClassVar[str]
    shorthand: ClassVar[str | None] = None
    example: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)

    def output_shape(self, shape: Shape) -> Shape:
        """The shape of what it gives for one input of this shape.

        Raises:
            SettingsError: It does not take that; what would help.
        """
        return shape


@documented
@dataclass(frozen=True)
class Conv(Layer):
    """A convolution over images [H, W, C] with a bias, and its activation."""

    name = "conv"
    example = "{conv: {filters: 32, size: 8, stride: 4}}"

    filters: int = setting(MISSING, Count(), text="Channels that it gives.")
    size: tuple[int, int] = setting(MISSING, _pair, text="Height and width of the kernel.")
    stride: tuple[int, int] = setting((1, 1), _pair, text="Pixels from one position to the next.")
    padding: str = setting("valid", OneOf(("valid", "same")), text="same: zeros around the image, valid: none.")
    activation: str | None = setting(None, ACTIVATION, text=_ACTIVATION_TEXT)
    initializer: str | None = setting(None, INITIALIZER, text=_INITIALIZER_TEXT)
    gain: float | None = setting(None, GAIN, text=_GAIN_TEXT)

    def output_shape(self, shape: Shape) -> Shape:
        """[H, W, C] -> [H', W', filters]."""
        if self.padding == "same":
            height, width, _ = _as_image(shape)
            return -(-height // self.stride[0]), -(-width // self.stride[1]), self.filters
        return *_slid_over(shape, self.size, self.stride), self.filters

    def zeros_around(self, shape: Shape) -> tuple[int, int, int, int]:
        """Rows above and below, columns left and right, that padding adds to an image: the odd one comes last."""
        if self.padding == "valid":
            return 0, 0, 0, 0
        missing = [
            max((-(-length // stride) - 1) * stride + size - length, 0)
            for length, size, stride in zip(shape, self.size, self.stride, strict=False)
        ]
        return missing[0] // 2, -(-missing[0] // 2), missing[1] // 2, -(-missing[1] // 2)


@documented
@dataclass(frozen=True)
class Pool(Layer):
    """The largest or the mean value of each patch of an image [H, W, C], channel by channel."""

    name = "pool"
    shorthand = "size"
    example = "{pool: 2}"

    size: tuple[int, int] = setting(MISSING, _pair, text="Height and width of a patch.")
    stride: tuple[int, int] | None = setting(None, _pair, text="Pixels from one to the next; None: its size.")
    kind: str = setting("max", OneOf(("max", "average")), text="max or average.")

    @property
    def steps(self) -> tuple[int, int]:
        """The stride."""
        return self.size if self.stride is None else self.stride

    def output_shape(self, shape: Shape) -> Shape:
        """[H, W, C] -> [H', W', C]."""
        return *_slid_over(shape, self.size, self.steps), shape[2]


@documented
@dataclass(frozen=True)
class Flatten(Layer):
    """All numbers of an input in a row, channels fastest."""

    name = "flatten"
    example = "flatten"

    def output_shape(self, shape: Shape) -> Shape:
        """[...] -> [N]."""
        return (math.prod(shape),)


@documented
@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer with a bias, and its activation."""

    name = "dense"
    shorthand = "units"
    example = "{dense: 64}"

    units: int = setting(MISSING, Count(), text="Numbers that it gives.")
    activation: str | None = setting(None, ACTIVATION, text=_ACTIVATION_TEXT)
    initializer: str | None = setting(None, INITIALIZER, text=_INITIALIZER_TEXT)
    gain: float | None = setting(None, GAIN, text=_GAIN_TEXT)
    noisy_std: float | None = setting(
        None, NOT_NEGATIVE, text="Deviation with which its noise starts; None: that of the whole list."
    )

    def output_shape(self, shape: Shape) -> Shape:
        """[N] -> [units]."""
        if len(shape) != 1:
            raise SettingsError("numbers in a row are wanted: put flatten before it")
        return (self.units,)


@documented
@dataclass(frozen=True)
class Norm(Layer):
    """Brings inputs to mean 0 and deviation 1, with a learned scale and offset for each channel or number."""

    name = "norm"
    shorthand = "kind"
    example = "{norm: layer}"

    kind: str = setting(
        MISSING,
        OneOf(("layer", "batch", "batch_renorm")),
        text="layer: over all numbers of one input; batch: over the batch, for each channel or number; batch_renorm: "
        "over the batch, for each number, corrected by running statistics after 100,000 batches.",
    )

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        if len(shape) not in (1, 3):
            raise SettingsError(
                "images [height, width, channels] or numbers in a row are wanted: put flatten before it"
            )
        if self.kind == "batch_renorm" and len(shape) != 1:
            raise SettingsError("batch_renorm takes numbers in a row: put flatten before it, or write {norm: batch}")
        return shape


@documented
@dataclass(frozen=True)
class Dropout(Layer):
    """Sets numbers to 0 while learning, and scales up the others."""

    name = "dropout"
    shorthand = "rate"
    example = "{dropout: 0.1}"

    rate: float = setting(MISSING, Number(0.0, 0.99), text="Share of the numbers.")


@documented
@dataclass(frozen=True)
class Activate(Layer):
    """An activation by itself, as behind a norm."""

    name = "activation"
    shorthand = "function"
    example = "{activation: relu}"

    function: str = setting(MISSING, ACTIVATION, text="relu, tanh, elu, silu or linear.")


LAYERS: Mapping[str, type[Layer]] = {kind.name: kind for kind in (Conv, Pool, Flatten, Dense, Norm, Dropout, Activate)}
"""By name in a configuration."""


def parse_layers(written: object, where: str = "layers") -> tuple[Layer, ...]:
    """Layers from a list as a configuration has it; objects of `Layer` pass.

    Args:
        written: The list.
        where: Its place, for messages.

    Raises:
        SettingsError: The first thing that is no layer: its place, the value and what there is instead.
    """
    if isinstance(written, str) or not isinstance(written, Sequence):
        raise SettingsError(out_of_range(where, f"be a list of layers, such as [{Dense.example}]", written))
    return tuple(_parse_layer(entry, f"{where}.{index}") for index, entry in enumerate(written))


def _parse_layer(entry: object, where: str) -> Layer:
    if isinstance(entry, Layer):
        return entry
    if isinstance(entry, str):
        entry = {entry: None}
    if not isinstance(entry, Mapping) or len(entry) != 1:
        rule = f"be one layer by its name, such as {Dense.example} or flatten"
        raise SettingsError(out_of_range(where, rule, entry))
    ((name, told),) = entry.items()
    kind = LAYERS.get(str(name))
    if kind is None:
        raise SettingsError(f"{where}: there is no layer {name!r}{instead(str(name), LAYERS)}")
    return _made(kind, told, f"{where} ({name})")


def _made(kind: type[Layer], told: object, where: str) -> Layer:
    known = [one.name for one in fields(kind)]  # type: ignore[arg-type]  # all are dataclasses
    if told is None:
        told = {}
    elif not isinstance(told, Mapping):
        if kind.shorthand is None:
            raise SettingsError("{} is not understood: write {}", as_setting(where).at(told), kind.example)
        told = {kind.shorthand: told}
    for key in told:
        if key not in known:
            raise SettingsError(f"{where} has no {key}{instead(str(key), known)}")
    for one in fields(kind):  # type: ignore[arg-type]
        if one.default is MISSING and told.get(one.name) is None:
            raise SettingsError(f"{where} needs {one.name}: write {kind.example}, for example")
    try:
        return kind(**told)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def instead(name: str, known: Collection[str]) -> str:
    """Alternatives to an unknown name, for messages."""
    near = nearest(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{hint} (there are {', '.join(known)})" if known else "; it takes no settings"


def _as_image(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise SettingsError("images [height, width, channels] are wanted: leave it out, or put it before flatten")
    height, width, channels = shape
    return height, width, channels


def _slid_over(shape: Shape, size: tuple[int, int], stride: tuple[int, int]) -> tuple[int, int]:
    """Positions of a window within an image, down and across."""
    height, width, _ = _as_image(shape)
    if size[0] > height or size[1] > width:
        raise SettingsError(
            f"its window of {size[0]} x {size[1]} is larger than the image: make size smaller, or strides and pools "
            "before it"
        )
    return (height - size[0]) // stride[0] + 1, (width - size[1]) // stride[1] + 1
