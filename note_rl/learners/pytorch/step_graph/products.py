"""Large products of matrices in recorded and compiled steps, by oneDNN where MKL is slow.

PyTorch multiplies single precision by MKL, which leaves AVX-512 unused on CPUs of AMD. On a Zen 5 it comes to 66 to 90
GFLOP/s of one thread at 256 x 256 x 256 where oneDNN, which the same wheels hold, comes to 162 to 206. A Zen 4 takes
AVX-512 in two halves: 101 and 105. A call of oneDNN takes some 15 us more, so it is left to large products. Whether it
is used depends on the CPU and on shapes alone, not on what was measured a moment ago: the same run gives the same bits
on the same machine.
"""

import functools
import logging
import platform
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, fx

from note_rl.errors import SettingsError
from note_rl.learners.pytorch.step_graph.nodes import MATRIX_PRODUCTS, work
from note_rl.learners.pytorch.torch_internals import linear_by_onednn, onednn_linear
from note_rl.settings.switch_names import MATMUL

_log = logging.getLogger(__name__)

aten = torch.ops.aten
MKL, ONEDNN = "mkl", "onednn"
LEAST_WORK = 2_000_000
"""Multiplications of a product from which oneDNN is used: 128 x 128 x 128 is level on a Zen 5."""
_ZEN_5 = 26  # the family that the CPU says it is of; Zen 3 and Zen 4 are 25
_LARGEST_ERROR = 2e-6
"""Of a product of 256 x 256 x 256 in single precision, relative to its largest number; bfloat16 comes to 4e-3."""


def library(wanted: str, device: torch.device) -> str:
    """Returns who multiplies large matrices of recorded and compiled steps: "mkl" (torch as it is) or "onednn".

    Args:
        wanted: One of these, or "auto": oneDNN on CPUs of AMD from Zen 5 on.
        device: Where the parameters are; other devices than the CPU multiply as they do.

    Raises:
        SettingsError: oneDNN was asked for and cannot be had.
    """
    if wanted == MKL or device.type != "cpu":
        return MKL
    reason = _without_onednn()
    if wanted == ONEDNN and reason:
        raise SettingsError("{}: {}; use {} or {}", MATMUL.at(ONEDNN), reason, MATMUL.at("auto"), MATMUL.at(MKL))
    if wanted == ONEDNN:
        return ONEDNN
    if not _mkl_is_slow():
        return MKL
    if reason:
        _log.warning("%s: %s, so that MKL multiplies", MATMUL.at("auto"), reason)
    return MKL if reason else ONEDNN


@functools.cache
def _without_onednn() -> str:
    """Returns why oneDNN cannot multiply here, after having tried it once per process; empty if it can."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "this PyTorch was built without oneDNN"
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(256, 256, generator=generator) for _ in range(2))
    try:
        found = product(x, weight, None)
    except (AttributeError, RuntimeError, TypeError) as error:  # the operation is private
        return f"oneDNN's product cannot be called in PyTorch {torch.__version__} ({error})"
    exact = x.double() @ weight.double().t()
    largest_error = float((found.double() - exact).abs().max() / exact.abs().max())
    if not largest_error <= _LARGEST_ERROR:
        return (
            f"oneDNN's product has an error of {largest_error:.1e}, more than single precision ({_LARGEST_ERROR:.0e})"
        )
    return ""


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns x [m, k] @ weight [n, k].T + bias [n], by oneDNN, in single precision whatever flags say."""
    return linear_by_onednn(x, weight, bias)


@functools.cache
def _mkl_is_slow() -> bool:
    """Whether the CPU is one on which MKL is known to be slow; where nothing is known, it is not."""
    if platform.machine().lower() not in ("x86_64", "amd64") or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        said = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")[:4096]
    except OSError:
        said = platform.processor()  # as Windows says it: AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD
    family = re.search(r"family\W+(\d+)", said, re.IGNORECASE)
    return "AuthenticAMD" in said and family is not None and int(family[1]) >= _ZEN_5


def is_large_product(node: fx.Node) -> bool:
    """Whether a call, of which an example is known, is a product that is left to oneDNN where MKL is slow."""
    if node.op != "call_function" or node.kwargs or node.target not in MATRIX_PRODUCTS:
        return False
    *bias, x, weight = (argument.meta["val"] for argument in node.args)  # type: ignore[union-attr]
    single = x.dtype == torch.float32 and all(one.ndim == 1 for one in bias)
    return single and work(x, weight) >= LEAST_WORK


def by_onednn(graph: fx.Graph, large: Container[str], values: dict[fx.Node, Any]) -> None:
    """Has oneDNN take the large products of a graph that is replayed.

    Args:
        graph: Is changed.
        large: Names of these products.
        values: What every node gave for one example; those of new nodes are added.
    """
    for node, (x, turned, bias) in _turned(graph, large):
        values.setdefault(turned, values[cast("fx.Node", node.args[-1])].t())
        new = graph.call_function(product, (x, turned, bias))
        values[new] = product(values[x], values[turned], None if bias is None else values[bias])
        node.replace_all_uses_with(new)
        graph.erase_node(node)


def compiled_by_onednn(graph: fx.Graph, large: Container[str]) -> None:
    """Has oneDNN take the large products of a graph that inductor compiles, which calls the kernel as it is.

    Args:
        graph: Is changed.
        large: Names of these products.
    """
    for node, operands in _turned(graph, large):
        new = graph.call_function(onednn_linear(), (*operands, "none", [], ""))
        node.replace_all_uses_with(new)
        graph.erase_node(node)


def _turned(graph: fx.Graph, large: Container[str]) -> Iterator[tuple[fx.Node, tuple[Any, Any, Any]]]:
    """Yields each large product with its factors, the right one transposed, and its bias; new nodes go before it."""
    for node in list(graph.nodes):
        if node.name not in large:
            continue
        *bias, x, weight = node.args
        with graph.inserting_before(node):
            is_turned = weight.target is aten.t.default
            turned = weight.args[0] if is_turned else graph.call_function(aten.t.default, (weight,))
            yield node, (x, turned, bias[0] if bias else None)
