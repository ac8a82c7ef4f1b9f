"""Networks described by files of sections, `[convolutional-0]`, `[flatten-0]`, `[dense-0]`, in the order of the layers.

A section with `output=1` is an output, whose units the agent knows. Of two, the first is the policy's, the second the
value's; the layer before them says `common=1`, as both are made of what it gives.
"""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from note_rl.agents.shared.layer_kinds import LAYERS, Dense, Layer, instead, parse_layers
from note_rl.errors import SettingsError

_SECTIONS: Mapping[str, type[Layer]] = {
    {"conv": "convolutional"}.get(name, name): kind for name, kind in LAYERS.items() if name != "activation"
}
_MARKS = ("common", "output")
_OF_OUTPUTS = ("initializer", "gain", "activation", *_MARKS)


@dataclass(frozen=True)
class _Section:
    name: str
    kind: type[Layer]
    values: dict[str, Any]

    @property
    def is_output(self) -> bool:
        return bool(self.values.get("output"))

    @property
    def is_common(self) -> bool:
        return bool(self.values.get("common"))

    @property
    def settings(self) -> dict[str, Any]:
        return {key: value for key, value in self.values.items() if key not in _MARKS}


def read_cfg(path: str | Path) -> dict[str, Any]:
    """The arguments of `layered_network` that a file stands for.

    Raises:
        SettingsError: The file cannot be read or is empty, a section, key or value that is unknown, or outputs that are
            missing, in the wrong place or too many.
    """
    try:
        return _described(_sections_of(Path(path)))
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def _sections_of(path: Path) -> list[_Section]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the file cannot be read ({error})") from None
    except configparser.Error as error:
        raise SettingsError(f"it is no file of sections: {' '.join(str(error).split())}") from None
    if not parser.sections():
        raise SettingsError("empty model configuration: it needs sections such as [dense-0] with units=64")
    return [_section(name, dict(parser[name])) for name in parser.sections()]


def _section(name: str, texts: Mapping[str, str]) -> _Section:
    kind = _SECTIONS.get(name.partition("-")[0])
    if kind is None:
        raise SettingsError(f"there is no layer for the section [{name}]{instead(name.partition('-')[0], _SECTIONS)}")
    return _Section(name, kind, {key: _value(text) for key, text in texts.items()})


def _value(text: str) -> Any:
    for meant in (int, float):
        try:
            return meant(text)
        except ValueError:
            continue
    return text


def _described(sections: list[_Section]) -> dict[str, Any]:
    outputs = [section for section in sections if section.is_output]
    hidden = [section for section in sections if not section.is_output]
    _check_outputs(sections, outputs, hidden)
    layers = [_layer(section) for section in hidden]
    heads = [_head(section) for section in outputs]
    return {
        "layers": layers,
        "activation": "linear",
        "initializer": "glorot_uniform",
        "gain": 1.0,
        "head": heads[0],
        "value_head": heads[1] if len(heads) == 2 else None,
        "shared": len(heads) == 2,
    }


def _check_outputs(sections: list[_Section], outputs: list[_Section], hidden: list[_Section]) -> None:
    if not outputs:
        raise SettingsError("no section is an output: add one, such as [dense-1] with output=1")
    if len(outputs) > 2:
        raise SettingsError(f"{len(outputs)} sections have output=1, and agents have one output, or two with a value")
    if sections[-len(outputs) :] != outputs or not hidden:
        raise SettingsError(f"[{outputs[0].name}] has output=1: outputs come last, behind one layer at least")
    for section in hidden[:-1]:
        if section.is_common:
            raise SettingsError(f"[{section.name}] has common=1, which only the last layer before the outputs may have")
    if len(outputs) == 2 and not hidden[-1].is_common:
        raise SettingsError(f"[{hidden[-1].name}] needs common=1, as both outputs are made of what it gives")


def _layer(section: _Section) -> dict[str, Any]:
    name = section.kind.name
    try:
        parse_layers([{name: section.settings}])
    except SettingsError as error:
        raise SettingsError(f"[{section.name}]{str(error).removeprefix('layers.0')}{_hint(section)}") from None
    return {name: section.settings}


def _hint(section: _Section) -> str:
    """Of a dense layer without units, which may be meant as an output."""
    is_bare = section.kind is Dense and section.settings.keys() <= set(_OF_OUTPUTS)
    return "; output units given are less than dense layers required: an output has output=1" if is_bare else ""


def _head(section: _Section) -> dict[str, Any]:
    if section.kind is not Dense:
        raise SettingsError(f"[{section.name}] has output=1, and outputs are dense")
    for key in section.values:
        if key not in _OF_OUTPUTS:
            why = ": the agent knows how many; leave it out" if key == "units" else instead(key, _OF_OUTPUTS)
            raise SettingsError(f"[{section.name}] is an output and has no {key}{why}")
    if section.values.get("activation", "linear") != "linear":
        raise SettingsError(f"[{section.name}] is an output, to which the agent applies what it needs: no activation")
    values = section.settings
    parse_layers([{"dense": {"units": 1, **values}}], f"[{section.name}]")
    return {"initializer": values.get("initializer", "glorot_uniform"), "gain": values.get("gain", 1.0)}
