"""Lists of layers by themselves: the shapes that they make, what is refused, and files of sections."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from note_rl.agents.shared.architecture import Architecture, begin, uniform_bound
from note_rl.agents.shared.cfg_files import read_cfg
from note_rl.agents.shared.layer_kinds import Conv, Dense, Pool, parse_layers
from note_rl.errors import SettingsError

CONVOLUTIONS = [
    {"conv": {"filters": 32, "size": 8, "stride": 4}},
    {"conv": {"filters": 64, "size": 4, "stride": 2}},
    {"conv": {"filters": 64, "size": 3}},
    "flatten",
]
MANUAL = Path(__file__).with_name("model.cfg")


def shapes(layers: Any, obs_shape: tuple[int, ...], **told: Any) -> list[tuple[int, ...]]:
    plan = Architecture(layers, **told).plan(obs_shape, 6)
    return [one.output_shape for one in (*plan.trunk, *plan.head)]


def test_shapes_are_those_of_the_manual() -> None:
    expected = [(20, 20, 32), (9, 9, 64), (7, 7, 64), (3136,), (512,), (6,)]
    assert shapes([*CONVOLUTIONS, {"dense": 512}], (84, 84, 1)) == expected
    assert shapes(CONVOLUTIONS, (84, 84), hidden_sizes=[512]) == expected


@pytest.mark.parametrize(
    ("length", "size", "stride"), [(7, 3, 1), (8, 3, 2), (9, 4, 3), (5, 2, 2), (6, 5, 4), (4, 1, 3)]
)
def test_windows_are_counted_as_they_slide(length: int, size: int, stride: int) -> None:
    picture = (length, length + 1, 3)
    for padding in ("valid", "same"):
        layer = Conv(filters=2, size=size, stride=stride, padding=padding)
        rows, columns = (
            len(range(0, extent + added - size + 1, stride))
            for extent, added in zip(
                picture, (sum(layer.zeros_around(picture)[:2]), sum(layer.zeros_around(picture)[2:])), strict=False
            )
        )
        assert layer.output_shape(picture) == (rows, columns, 2)
    pool = Pool(size=(size, 1), stride=stride)
    assert pool.output_shape(picture)[0] == len(range(0, length - size + 1, stride))


def test_what_a_layer_does_not_say_the_list_says() -> None:
    layers = [{"dense": {"units": 8, "activation": "elu", "gain": 3.0}}, {"dense": 4}]
    plan = Architecture(layers, activation="tanh", initializer="he_uniform", gain=0.5, head={"gain": 0.1}).plan((2,), 3)
    assert [one.layer for one in (*plan.trunk, *plan.head)] == [
        Dense(8, "elu", "he_uniform", 3.0),
        Dense(4, "tanh", "he_uniform", 0.5),
        Dense(3, "linear", "he_uniform", 0.1),
    ]


def test_the_value_has_a_head_of_its_own_or_the_same_without_its_gain() -> None:
    head = {"layers": [{"dense": 5}], "gain": 0.01}
    last = Architecture(["flatten"], head=head).of_value().plan((2,), 1).head
    assert [one.layer for one in last] == [Dense(5, "relu"), Dense(1, "linear")]
    other = Architecture(["flatten"], head=head, value_head={"gain": 0.5}).plan((2,), 3).of_value().head
    assert [one.layer for one in other] == [Dense(1, "linear", None, 0.5)]


def test_how_weights_begin() -> None:
    assert begin(Dense(8)) == ("uniform", 1.0)
    assert begin(Dense(8), orthogonal=True) == ("orthogonal", 2**0.5)
    assert begin(Dense(8, gain=3.0), orthogonal=True) == ("orthogonal", 3.0)
    assert begin(Dense(8), output_gain=0.01, orthogonal=True) == ("orthogonal", 0.01)
    assert begin(Dense(8, initializer="he_uniform"), output_gain=0.01, orthogonal=True) == ("he_uniform", 1.0)
    bounds = [uniform_bound(name, 2.0, 12, 4) for name in ("glorot_uniform", "he_uniform", "uniform")]
    np.testing.assert_allclose(bounds, [2 * (6 / 16) ** 0.5, 2 * 0.5**0.5, 2 * 12**-0.5])


def test_layers_that_are_objects_pass() -> None:
    assert parse_layers([Dense(8), {"pool": [2, 3]}]) == (Dense(8), Pool((2, 3)))


REFUSED = {
    "unknown layer": (["flaten"], "layers.0: there is no layer 'flaten'; did you mean flatten?"),
    "unknown key": ([{"conv": {"filter": 3, "size": 3}}], r"layers.0 \(conv\) has no filter; did you mean filters?"),
    "key of none": ([{"flatten": {"axis": 1}}], r"layers.0 \(flatten\) has no axis; it takes no settings"),
    "missing": (["flatten", {"conv": {"filters": 3}}], r"layers.1 \(conv\) needs size: write {conv: {filters: 32"),
    "no number": ([{"conv": 32}], r"layers.0 \(conv\)=32 is not understood: write {conv: {filters: 32"),
    "range": ([{"dense": 0}], r"layers.0 \(dense\): units must be at least 1, got 0"),
    "rate": ([{"dropout": 1.0}], r"layers.0 \(dropout\): rate must lie between 0 and 0.99, got 1.0"),
    "pair": ([{"pool": [1, 2, 3]}], r"layers.0 \(pool\): size must be a whole number, or two"),
    "initializer": (
        [{"dense": {"units": 3, "initializer": "ortho"}}],
        "initializer must be one of orthogonal, glorot_u",
    ),
    "two at once": ([{"dense": 3, "dropout": 0.1}], "must be one layer by its name"),
    "empty": ([], r"layers=\[\] is empty: name at least one, such as \[{dense: 64}\]"),
    "no list": ("dense", "layers must be a list of layers"),
    "no flatten": ([{"dense": 3}], r"layers.0 \(dense\) gets the shape \[8, 8, 3\]: .* put flatten before it"),
    "no flatten at all": ([{"pool": 2}], r"give the shape \[4, 4, 3\]: put flatten at the end of layers"),
    "window": ([{"conv": {"filters": 1, "size": 9}}], r"gets the shape \[8, 8, 3\]: its window of 9 x 9 is larger"),
    "flat images": (["flatten", {"pool": 2}], r"layers.1 \(pool\) gets the shape \[192\]: images .* are wanted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_network_is_refused_in_words(name: str) -> None:
    layers, words = REFUSED[name]
    with pytest.raises(SettingsError, match=words):
        Architecture(layers).plan((8, 8, 3), 2)


def test_dense_layers_are_named_in_one_place() -> None:
    with pytest.raises(SettingsError, match=r"layers.1 is dense, and hidden_sizes=\[8\] .* hidden_sizes=\[\]"):
        Architecture(["flatten", {"dense": 8}], [8])
    with pytest.raises(SettingsError, match="head has no gane; did you mean gain"):
        Architecture(["flatten"], head={"gane": 1.0})
    with pytest.raises(SettingsError, match=r"head.layers.0 \(dense\): units must be at least 1"):
        Architecture(["flatten"], head={"layers": [{"dense": 0}]})


def test_the_file_of_the_manual_is_read() -> None:
    told = read_cfg(MANUAL)
    assert told["shared"]
    assert told["head"] == {"initializer": "orthogonal", "gain": 0.01}
    assert told["value_head"] == {"initializer": "orthogonal", "gain": 1.0}
    assert shapes(told["layers"], (84, 84, 1))[:-1] == [(20, 20, 32), (9, 9, 64), (7, 7, 64), (3136,), (512,)]
    first = Architecture(**told).plan((84, 84, 1), 6).trunk[0].layer
    assert first == Conv(32, 8, 4, activation="relu", initializer="orthogonal", gain=1.4142135)


HIDDEN = "[dense-0]\nunits=4\n"
OUTPUT = "[dense-1]\noutput=1\n"
FILES = {
    "": "empty model configuration",
    "units=4\n": "it is no file of sections",
    HIDDEN * 2: "it is no file of sections",
    "[lstm-0]\nunits=4\n" + OUTPUT: r"no layer for the section \[lstm-0\]",
    "[dense-0]\nunit=4\n" + OUTPUT: r"\[dense-0\] \(dense\) has no unit; did you mean units",
    "[dense-0]\nunits=4\ninitializer=he\n" + OUTPUT: r"\[dense-0\] \(dense\): initializer must be one of",
    HIDDEN: "no section is an output",
    "[dense-0]\n" + OUTPUT: r"\[dense-0\] \(dense\) needs units.*; output units given are less than dense layers",
    HIDDEN + OUTPUT + "[dense-2]\noutput=1\n": r"\[dense-0\] needs common=1",
    HIDDEN + OUTPUT + "[dense-2]\noutput=1\n[dense-3]\noutput=1\n": "3 sections have output=1",
    OUTPUT + HIDDEN: r"\[dense-1\] has output=1: outputs come last",
    "[dense-0]\nunits=4\ncommon=1\n[dense-2]\nunits=4\n" + OUTPUT: r"\[dense-0\] has common=1, which only the last",
    HIDDEN + "[dense-1]\nunits=2\noutput=1\n": r"\[dense-1\] is an output and has no units: the agent knows how many",
    HIDDEN + "[dense-1]\nactivation=softmax\noutput=1\n": r"\[dense-1\] is an output, to which the agent applies",
    HIDDEN + "[dense-1]\ngain=no\noutput=1\n": r"\[dense-1\].* gain must be a finite number, got 'no'",
    HIDDEN + "[flatten-1]\noutput=1\n": r"\[flatten-1\] has output=1, and outputs are dense",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "factory" / "hannah").mkdir(parents=True)
    return tmp_path / "factory" / "hannah"


@pytest.mark.parametrize("text", FILES)
def test_files_that_say_too_little_or_too_much_are_refused(text: str, folder: Path) -> None:
    (folder / "actor.cfg").write_text(text)
    with pytest.raises(SettingsError, match=f"actor.cfg: .*{FILES[text]}"):
        read_cfg(folder / "actor.cfg")


def test_a_file_with_one_output_is_no_matter_of_its_name(folder: Path) -> None:
    (folder / "actor.cfg").write_text(HIDDEN + OUTPUT)
    told = read_cfg(folder / "actor.cfg")
    assert (told["shared"], told["value_head"]) == (False, None)
    plan = Architecture(**told).plan((3,), 2)
    assert [one.layer for one in (*plan.trunk, *plan.head)] == [
        Dense(4, "linear", "glorot_uniform", 1.0),
        Dense(2, "linear", "glorot_uniform", 1.0),
    ]
    with pytest.raises(SettingsError, match="cannot be read"):
        read_cfg(folder / "none.cfg")
