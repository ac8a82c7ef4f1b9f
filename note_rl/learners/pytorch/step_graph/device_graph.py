"""A replay on a GPU as one CUDA graph: all kernels of a step are started by one call.

A GPU takes a few microseconds for a kernel of a small network, and Python as long again to start it. A graph starts
the same kernels without Python, so that its numbers are those of the replay, bit for bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.torch_internals import foreach_copy_

Repeat = Callable[[], None]
Function = Callable[[], list[Tensor]]
Capture = Callable[[Function], tuple[Repeat, list[Tensor]]]
"""A function of tensors that stay where they are -> what does the same again, and the tensors that it writes into."""

_NUM_WARM = 3  # calls before, in which libraries choose kernels and take their memory, as PyTorch's manual wants it


def captured_by_cuda(function: Function, device: torch.device) -> tuple[Repeat, list[Tensor]]:
    """Has CUDA write down the kernels of a function; see `Capture`."""
    with torch.cuda.device(device):
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(_NUM_WARM):
                function()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may go on using the GPU
            results = function()
    return graph.replay, results


def why_not_captured(recording: Recording, device: torch.device) -> str:
    """Why a step cannot be one CUDA graph; empty: it can, as far as this is known without trying."""
    if device.type != "cuda":
        return f"parameters are on {device.type}, which has no CUDA graphs"
    if not recording.pure:
        return "the loss changes tensors in place"
    if any(tensor.device.type != "cuda" for tensor in recording.captured):
        return "the loss reads a tensor that is not on the GPU"
    return ""


class DeviceGraph:
    """A replay whose kernels are started together.

    Args:
        run: The replay.
        captured: The tensors that it reads besides its inputs.
        inputs: An example of these on the GPU, of the shapes and types that all have.
        num_copied: How many of its results, the first, stay as they are when it is called again; the others are
            overwritten then.
        capture: What writes the kernels down.
    """

    def __init__(
        self,
        run: Callable[..., list[Tensor]],
        captured: Sequence[Tensor],
        inputs: Sequence[Tensor],
        num_copied: int,
        capture: Capture,
    ) -> None:
        self._run = run
        self._captured = list(captured)
        self._num_copied = num_copied
        self._capture = capture
        self._inputs = [one.clone() for one in inputs]
        kinds: dict[torch.dtype, list[int]] = {}  # a list of one type is copied by one kernel
        for index, one in enumerate(inputs):
            kinds.setdefault(one.dtype, []).append(index)
        self._alike = list(kinds.values())
        self._begin()

    def _begin(self) -> None:
        self._depends = self._what_it_depends_on()
        with torch.no_grad():
            self._repeat, self._results = self._capture(lambda: self._run(*self._inputs))

    def _what_it_depends_on(self) -> list[Any]:
        """Returns what is frozen in a graph and not in a replay: where tensors lie, and how products are taken."""
        cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        settings = [torch.get_float32_matmul_precision(), cuda.allow_tf32, cudnn.allow_tf32, cudnn.deterministic]
        return [*settings, cudnn.benchmark, *(tensor.data_ptr() for tensor in self._captured)]

    def _fill(self, values: Sequence[Tensor]) -> None:
        for alike in self._alike:
            foreach_copy_([self._inputs[index] for index in alike], [values[index] for index in alike])

    def __call__(self, *values: Tensor) -> list[Tensor]:
        """Returns what the replay gives for these inputs."""
        self._fill(values)
        if self._what_it_depends_on() != self._depends:
            self._begin()
        self._repeat()
        kept = [torch.empty_like(one) for one in self._results[: self._num_copied]]
        if kept:
            foreach_copy_(kept, self._results[: self._num_copied])
        return [*kept, *self._results[self._num_copied :]]
