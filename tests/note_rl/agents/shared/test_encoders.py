"""Which encoder each key of an observation has."""

import pytest

from note_rl.agents.shared.encoders import encoders_by_kind
from note_rl.environments.observation_packing import PackedKey
from tests.note_rl.agents.shared.encoded_agents import BOTH, made


@pytest.mark.parametrize(("side", "num_convolutions"), [(84, 3), (36, 3), (35, 1), (3, 1), (2, 0)])
def test_without_encoders_each_key_has_one_by_its_kind(side, num_convolutions):
    parts = [
        PackedKey("image", 0, (side, side, 3), is_image=True),
        PackedKey("bytes", 1, (5,), is_image=True),
        PackedKey("vector", 2, (4,), is_image=False),
        PackedKey("grid", 3, (4, 4, 1), is_image=False),
    ]
    encoders = encoders_by_kind(parts)
    layers = encoders.pop("image")["layers"]
    assert [next(iter(layer)) for layer in layers if isinstance(layer, dict)] == ["conv"] * num_convolutions + ["dense"]
    assert encoders == {"bytes": None, "vector": None, "grid": None}


def test_images_with_channels_first_have_the_layers_of_their_size():
    first, last = (PackedKey("image", 0, shape, is_image=True) for shape in ((3, 84, 84), (84, 84, 3)))
    assert encoders_by_kind([first]) == encoders_by_kind([last])


@BOTH
def test_networks_of_kinds_take_all_keys(framework):
    net = made(framework.package, None)
    widths = [plan.num_features for plan in net.plan.encoders]
    assert widths == [128, 6, 3]
    assert len(net.plan.encoders[0].network.trunk) >= 3
