"""Several frames shown together: what a stack looks like, and stacking while acting."""

import inspect
from collections.abc import Mapping, Sequence

import numpy as np

from note_rl.errors import SettingsError
from note_rl.settings.switch_names import FRAME_STACK
from note_rl.types import Array, BoolArray

FEWEST_PIXELS = 36
"""A side of what is taken for an image, and needed by the convolutions of Mnih et al. 2015."""


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether this is the shape of an image [C, H, W] rather than [H, W, C]."""
    return len(shape) == 3 and shape[0] < FEWEST_PIXELS <= min(shape[1:])


def stacked_shape(frame_shape: tuple[int, ...], num_frames: int) -> tuple[int, ...]:
    """Shape of a stack of n frames; 1 frame is the frame itself.

    [H, W] -> [H, W, n], [H, W, C] -> [H, W, n*C], [C, H, W] -> [n*C, H, W], [D] -> [n*D]
    """
    if num_frames == 1:
        return frame_shape
    if channels_first(frame_shape):
        return (num_frames * frame_shape[0], *frame_shape[1:])
    if len(frame_shape) == 2:
        return (*frame_shape, num_frames)
    return (*frame_shape[:-1], frame_shape[-1] * num_frames)


def check_frame_stack(agent: type, made_for: int | None, asked: int) -> None:
    """Refuses a number of frames shown together that an agent's networks were not made for (SettingsError).

    Args:
        agent: Its class.
        made_for: Frames that its networks take; None: it does not say.
        asked: Frames that set() asks for.
    """
    if made_for is None or made_for == asked:
        return
    if made_for == 1 and not _takes_frames(agent):
        raise SettingsError(
            "{}, but the networks of {} take one frame: {}",
            *(FRAME_STACK.at(asked), agent.__name__, FRAME_STACK.leave_out()),
        )
    raise SettingsError(
        "{}, but the networks of this {} were made for {} frames: give both the same number",
        *(FRAME_STACK.at(asked), agent.__name__, made_for),
    )


def _takes_frames(agent: type) -> bool:
    """Whether the constructor of a class has an argument for the number of frames, or hands any others on."""
    taken = inspect.signature(agent).parameters
    return FRAME_STACK.name in taken or any(one.kind is one.VAR_KEYWORD for one in taken.values())


def join_frames(frames: Sequence[Array], frame_rank: int) -> Array:
    """One stack of n arrays [..., *frame], the oldest first, along the axis of the channels.

    Args:
        frames: The oldest first.
        frame_rank: Axes of one frame; two get a new last axis.
    """
    if len(frames) == 1:
        return frames[0]
    if frame_rank == 2:
        return np.stack(frames, axis=-1)
    return np.concatenate(frames, axis=-3 if channels_first(frames[0].shape[-frame_rank:]) else -1)


class FrameStack:
    """The newest frames of E environments. At the start of an episode its first frame fills the whole stack."""

    def __init__(self, num_frames: int) -> None:
        self.num_frames = num_frames
        self._frames: Array | None = None  # [n, E, *frame], the oldest first

    def show(self, frame: Array, starts: BoolArray) -> Array:
        """Takes in the current frame and returns the stack that ends with it.

        Args:
            frame: [E, *frame]
            starts: Whether it is the first of its episode. [E]

        Returns:
            [E, *stacked], see `stacked_shape`.
        """
        if self.num_frames == 1:
            return frame
        if self._frames is None:
            self._frames = np.repeat(frame[None], self.num_frames, axis=0)
        else:
            self._frames = np.concatenate([self._frames[1:], frame[None]])
            self._frames[:, starts] = frame[starts]
        return join_frames(list(self._frames), frame.ndim - 1)

    def get_state(self) -> dict[str, Array]:
        """The frames kept."""
        return {} if self._frames is None else {"frames": self._frames}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self._frames = np.array(state["frames"]) if "frames" in state else None
