import numpy as np
import pytest

from note_rl.environments.frames import FrameStack, join_frames, stacked_shape


@pytest.mark.parametrize(
    ("frame", "stacked"), [((3,), (12,)), ((5, 6), (5, 6, 4)), ((5, 6, 3), (5, 6, 12)), ((2, 5, 6, 3), (2, 5, 6, 12))]
)
def test_shapes(frame, stacked):
    assert stacked_shape(frame, 4) == stacked
    assert stacked_shape(frame, 1) == frame
    frames = [np.full((7, *frame), number) for number in range(4)]
    joined = join_frames(frames, len(frame))
    assert joined.shape == (7, *stacked)
    newest = joined[..., -1]
    assert (newest == 3).all()


def test_the_first_frame_of_an_episode_fills_the_stack():
    stack = FrameStack(3)
    shown = []
    for number, starts in ((1, [True, True]), (2, [False, False]), (3, [False, True]), (4, [False, False])):
        shown.append(stack.show(np.array([[number], [10 * number]], np.uint8), np.array(starts)))
    assert [one[0].tolist() for one in shown] == [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [one[1].tolist() for one in shown] == [[10, 10, 10], [10, 10, 20], [30, 30, 30], [30, 30, 40]]
    assert shown[0].dtype == np.uint8


def test_state():
    stack, other = FrameStack(3), FrameStack(3)
    for number in range(3):
        stack.show(np.array([[number]]), np.array([number == 0]))
    other.set_state(stack.get_state())
    np.testing.assert_array_equal(
        other.show(np.array([[9]]), np.array([False])), stack.show(np.array([[9]]), np.array([False]))
    )
    assert FrameStack(3).get_state() == {}
