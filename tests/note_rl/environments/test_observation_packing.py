"""A flat observation knows where its keys lie."""

import copy
import pickle

from note_rl.agents.shared.spaces import any_spaces
from note_rl.environments.observation_packing import PackedShape
from tests.note_rl.agents.shared.encoded_agents import shape


def test_a_flat_observation_knows_where_its_keys_lie():
    assert shape() == (8 * 9 * 2 + 6 + 3,)
    assert [(part.key, part.first, part.end, part.is_image) for part in shape().parts] == [
        ("image", 0, 144, True),
        ("kind", 144, 150, False),
        ("vector", 150, 153, False),
    ]
    for again in (pickle.loads(pickle.dumps(shape())), copy.deepcopy(shape())):
        assert again == shape()
        assert again.parts == shape().parts
    assert not isinstance(any_spaces("CartPole-v1", "DQN", None, None).obs_shape, PackedShape)
