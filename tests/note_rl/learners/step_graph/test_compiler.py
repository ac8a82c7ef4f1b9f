"""Recorded steps in compiled code, which is kept from one process to the next.

Compiling takes a quarter of a minute: what is done with a program is tested with one that calls what was recorded.
"""

import getpass
import logging
import os
import signal
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from note_rl.learners.pytorch.step_graph import compiler as module
from note_rl.learners.pytorch.step_graph.compiler import NO_COMPILER, compiled, has_compiler, why_not_compiled
from note_rl.learners.pytorch.step_graph.record import recorded
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.learners.pytorch.torch_internals import INDUCTOR_LOGGER

INPUTS = [torch.linspace(-2.0, 2.0, 32 * 4).reshape(32, 4)]


def step(weight):
    """A loss with a product, tanh, dropout and a mean; with its gradient."""

    def function(x):
        kept = torch.nn.functional.dropout(torch.tanh(x @ weight), 0.5)
        loss = kept.square().mean()
        return [loss.detach(), *torch.autograd.grad(loss, [weight])]

    return function


@pytest.fixture(scope="module")
def weight():
    return torch.linspace(-1.0, 1.0, 12).reshape(4, 3).requires_grad_()


@pytest.fixture(scope="module")
def recording(weight):
    return recorded(step(weight), [weight], INPUTS)


@pytest.fixture(scope="module")
def passing(tmp_path_factory):
    """The folder for temporary files, in which somebody else has made the one that inductor would take."""
    folder = tmp_path_factory.mktemp("passing")
    (folder / f"torchinductor_{getpass.getuser()}").mkdir(mode=0o777)
    return folder


@pytest.fixture(scope="module")
def said():
    """Records that inductor's logger has let through."""
    records, handler, logger = [], logging.Handler(), logging.getLogger(INDUCTOR_LOGGER)
    handler.emit = records.append
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@pytest.fixture(scope="module")
def lowerings():
    """How inductor writes kernels, and how it wrote those that are quicker in torch before anything was compiled."""
    from torch._inductor import lowering

    return lowering.lowerings, {kernel: lowering.lowerings[kernel] for kernel in module._QUICKER_IN_TORCH}


@pytest.fixture(scope="module")
def program(tmp_path_factory, recording, passing, said, lowerings):
    """A step that was compiled once, as it is kept."""
    folder = tmp_path_factory.mktemp("programs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOTE_RL_TORCH_CACHE", str(folder))
        patch.setattr("tempfile.tempdir", str(passing))
        patch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
        compiled(recording, INPUTS)
        assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
    (found,) = folder.glob("*/*.pt2")
    return found


@pytest.fixture
def kept(tmp_path, recording, monkeypatch):
    """Where nothing is compiled in truth, and one step is kept; it gives what was compiled from then on."""
    calls, modules = [], {}

    def compile_into(file, recorded_module, tensors, options):
        calls.append(Path(file.name))
        name = f"step {len(modules)}"
        modules[name] = recorded_module
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("data/aotinductor/model/step.wrapper.so", name)
            archive.writestr("data/aotinductor/model/step.wrapper.json", "{}")

    def loaded_program(library):
        assert Path(library).with_suffix(".json").exists()
        called = modules[Path(library).read_text()]
        return SimpleNamespace(run=lambda tensors: list(called(*tensors)))

    monkeypatch.setenv("NOTE_RL_TORCH_CACHE", str(tmp_path / "programs"))
    monkeypatch.setattr(module, "compile_into", compile_into)
    monkeypatch.setattr(module, "loaded_program", loaded_program)
    monkeypatch.setattr(module, "LOADS_A_PROGRAM", "")
    monkeypatch.setattr(module, "called_by_inductor", lambda kernels: nullcontext())
    monkeypatch.setattr(module, "inductor_working_in", lambda folder: nullcontext())
    compiled(recording, INPUTS)
    calls.clear()
    return calls


@pytest.fixture
def kept_file(kept, tmp_path):
    """The file of the step that is kept."""
    (found,) = (tmp_path / "programs").glob("*/*.pt2")
    return found


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")


def answers(run):
    torch.manual_seed(3)
    with torch.no_grad():
        return run(*INPUTS)


@needs_compiler
def test_what_is_kept_is_called_with_what_was_captured_and_follows_it(kept, recording, weight):
    run = compiled(recording, INPUTS)
    assert kept == []
    check_same(run, recording, weight)


@pytest.mark.slow  # the compiler; what is handed to it and called is tested above
@needs_compiler
def test_compiled_code_gives_the_same_and_follows_its_tensors(program, recording, weight, monkeypatch):
    monkeypatch.setenv("NOTE_RL_TORCH_CACHE", str(program.parents[1]))
    monkeypatch.setattr(module, "_compile", lambda *arguments: pytest.fail("compiled again"))
    check_same(compiled(recording, INPUTS), recording, weight)


def check_same(run, recording, weight):
    loss, gradient = answers(run)
    expected_loss, expected = answers(replay(recording, INPUTS))
    torch.testing.assert_close((loss, gradient), (expected_loss, expected), rtol=1e-5, atol=1e-7)
    with torch.no_grad():
        weight.mul_(2.0)
        changed, _ = answers(run)
        expected_changed, _ = answers(replay(recording, INPUTS))
        weight.mul_(0.5)
    torch.testing.assert_close(changed, expected_changed, rtol=1e-5, atol=1e-7)
    assert float(changed) > 1.2 * float(loss)


def large_step():
    """Three products that oneDNN takes where MKL is slow, and two that it does not; with their inputs."""
    generator = torch.Generator().manual_seed(0)
    x, weight, back = (torch.randn(128, 128, generator=generator) for _ in range(3))
    bias, small = torch.randn(128, generator=generator), torch.randn(128, 4, generator=generator)

    def function(x, back):
        hidden = torch.relu(torch.addmm(bias, x, weight.t()))
        return [
            hidden,
            back @ weight + x,
            (back * hidden).t() @ x,
            torch.addmm(bias, x, weight, beta=0.5),
            small.t() @ x,
        ]

    return recorded(function, [weight, bias, small], [x, back]), [x, back]


@needs_compiler
def test_onednn_takes_large_products_of_what_is_compiled(kept, monkeypatch):
    recording, inputs = large_step()
    seen, compile_into = [], module.compile_into
    monkeypatch.setattr(module, "compile_into", lambda file, *rest: (seen.append(rest[0]), compile_into(file, *rest)))
    expected = replay(recording, inputs)(*inputs)
    for matmul, num in (("onednn", 3), ("mkl", 0)):
        found = compiled(recording, inputs, matmul)(*inputs)
        calls = [node.target for node in seen[-1].graph.nodes if node.op == "call_function"]
        assert calls.count(torch.ops.mkldnn._linear_pointwise.default) == num
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=2e-6 * float(other.abs().max()))
    assert len(kept) == 2, "two programs"


@pytest.mark.slow
@needs_compiler
def test_compiled_code_that_calls_onednn_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTE_RL_TORCH_CACHE", str(tmp_path))
    recording, inputs = large_step()
    for one, other in zip(
        compiled(recording, inputs, "onednn")(*inputs), replay(recording, inputs)(*inputs), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6 * float(other.abs().max()))


@pytest.mark.slow
@needs_compiler
def test_compiling_is_silent_and_leaves_inductor_as_it_was(program, said, lowerings):
    """aot_compile, package_aoti, AOTIModelContainerRunnerCpu, lowerings, fresh_cache: without them, nothing is."""
    now, before = lowerings
    assert {kernel: now[kernel] for kernel in before} == before
    assert [record.getMessage() for record in said if record.name == INDUCTOR_LOGGER] == []
    assert [path.suffix for path in program.parents[1].rglob("*.pt2")] == [".pt2"]


@needs_compiler
def test_other_shapes_numbers_and_layouts_are_other_programs(kept, recording, weight):
    compiled(recording, INPUTS)
    assert kept == []
    others = [torch.ones(16, 4)], [torch.ones(4, 32).t()], [torch.ones(32, 4, dtype=torch.float64)]
    names = {module._digest(recording, [weight, *inputs]) for inputs in (INPUTS, *others)}
    doubled = recorded(lambda x: [2 * one for one in step(weight)(x)], [weight], INPUTS)
    assert len({*names, module._digest(doubled, [weight, *INPUTS])}) == 5


@needs_compiler
@pytest.mark.parametrize("damage", ["", "not a program", "gone"])
def test_a_damaged_program_is_compiled_again(kept, kept_file, recording, damage):
    kept_file.unlink() if damage == "gone" else kept_file.write_text(damage)
    run = compiled(recording, INPUTS)
    assert len(kept) == 1
    assert not kept[0].exists()  # it was moved
    torch.testing.assert_close(answers(run), answers(replay(recording, INPUTS)), rtol=1e-5, atol=1e-7)
    compiled(recording, INPUTS)
    assert len(kept) == 1


@needs_compiler
@pytest.mark.parametrize("kept_where", ["folder", "nowhere"])
def test_a_program_that_ends_a_process_is_not_loaded(kept, kept_file, recording, monkeypatch, kept_where):
    """Seen with PyTorch for GPUs on a machine with CUDA's compiler: loading one was a segmentation fault."""
    kept_file.unlink()
    monkeypatch.setattr(module, "LOADS_A_PROGRAM", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(module, "loaded_program", lambda library: pytest.fail("loaded in this process"))
    if kept_where == "nowhere":
        monkeypatch.setenv("NOTE_RL_TORCH_CACHE", "off")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"ends the process that loads it \(exit status -11\)") as raised:
            compiled(recording, INPUTS)
        assert (str(kept_file.with_name("unusable")) in str(raised.value)) == (kept_where == "folder"), "what to delete"
    assert not kept_file.exists()
    assert len(kept) == (1 if kept_where == "folder" else 2), "compiled in vain once for each folder"
    module._why_unusable.cache_clear()
    assert ("exit status -11" in why_not_compiled(recording, 1e12, torch.device("cpu"))) == (kept_where == "folder")
    module._why_unusable.cache_clear()


@needs_compiler
@pytest.mark.parametrize("status", [-signal.SIGTRAP, 128 + signal.SIGSEGV, 128 + signal.SIGABRT])
def test_faults_are_known_in_each_form(kept, kept_file, recording, monkeypatch, status):
    kept_file.unlink()
    monkeypatch.setattr(module.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, status))
    with pytest.raises(RuntimeError, match=rf"exit status {status}\)"):
        compiled(recording, INPUTS)
    assert kept_file.with_name("unusable").exists()


@needs_compiler
@pytest.mark.parametrize("status", [0, 1, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL])
def test_a_process_that_ends_otherwise_forbids_nothing(kept, kept_file, recording, monkeypatch, status):
    kept_file.unlink()
    started = []
    monkeypatch.setattr(
        module.subprocess,
        "run",
        lambda words, **_: started.append(words) or subprocess.CompletedProcess(words, status),
    )
    run = compiled(recording, INPUTS)
    torch.testing.assert_close(answers(run), answers(replay(recording, INPUTS)), rtol=1e-5, atol=1e-7)
    assert not kept_file.with_name("unusable").exists()
    assert started[0][1] == "-P", "a file in the working directory may have the name of a module"


@needs_compiler
def test_a_program_that_is_not_loaded_in_time_is_tried_again_later(kept, kept_file, recording, monkeypatch):
    kept_file.unlink()

    def never_ends(words, timeout, **_):
        raise subprocess.TimeoutExpired(words, timeout)

    with monkeypatch.context() as patched:
        patched.setattr(module.subprocess, "run", never_ends)
        with pytest.raises(RuntimeError, match="was not loaded within 300 s"):
            compiled(recording, INPUTS)
    assert not kept_file.exists()
    compiled(recording, INPUTS)
    assert kept_file.exists()


@needs_compiler
def test_nothing_is_kept_or_run_where_others_can_write(kept, kept_file, recording):
    kept_file.parent.chmod(0o777)
    try:
        run = compiled(recording, INPUTS)
    finally:
        kept_file.parent.chmod(0o700)
    assert len(kept) == 1
    assert not kept[0].is_relative_to(kept_file.parents[1])
    assert not kept[0].exists()  # the program is loaded, its file is gone
    torch.testing.assert_close(answers(run), answers(replay(recording, INPUTS)), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@needs_compiler
def test_what_is_kept_is_run_without_inductor(program):
    text = """
import sys, torch
from tests.note_rl.learners.step_graph.test_compiler import INPUTS, compiled, recorded, step
weight = torch.linspace(-1.0, 1.0, 12).reshape(4, 3).requires_grad_()
torch.set_num_threads(int(sys.argv[1]))
compiled(recorded(step(weight), [weight], INPUTS), INPUTS)
print("torch._inductor.compile_fx" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", text, str(torch.get_num_threads())],
        env={**os.environ, "NOTE_RL_TORCH_CACHE": str(program.parents[1]), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False"]


def test_compiling_pays_where_a_few_such_runs_save_what_it_takes():
    recording = recorded(lambda x: [x.sin().cos()], [], [torch.ones(1000)])
    assert recording.num_calls == 2
    assert recording.num_elements == 2000
    # 4 runs, 2 calls of 0.8 us and 2000 numbers of 0.9 ns against 7.08 s: 520,588 steps
    without = "" if has_compiler() else NO_COMPILER
    assert why_not_compiled(recording, 520_600, torch.device("cpu")) == without
    assert "takes longer than it saves" in why_not_compiled(recording, 520_500, torch.device("cpu"))
    assert why_not_compiled(recording, 10**9, torch.device("meta")).startswith("parameters are on meta")


def test_where_nothing_is_kept_one_run_has_to_save_what_it_takes(monkeypatch):
    monkeypatch.setenv("NOTE_RL_TORCH_CACHE", "off")
    recording = recorded(lambda x: [x.sin().cos()], [], [torch.ones(1000)])
    for too_few in (520_600, 2_082_300):
        assert "takes longer than it saves" in why_not_compiled(recording, too_few, torch.device("cpu"))
    assert why_not_compiled(recording, 2_082_400, torch.device("cpu")) == ("" if has_compiler() else NO_COMPILER)


@needs_compiler
def test_what_killed_processes_leave_behind_is_removed(kept, kept_file, recording):
    old, young = (kept_file.parent / f"unpacked-{age}" for age in ("old", "young"))
    for folder in (old, young):
        folder.mkdir()
        (folder / "step.so").write_text("half")
    os.utime(old, (1.0, 1.0))
    kept_file.unlink()
    compiled(recording, INPUTS)
    assert len(kept) == 1
    assert not old.exists()
    assert young.exists(), "another process is at it"
    young.joinpath("step.so").unlink()
    young.rmdir()
    assert [path.name for path in kept_file.parent.iterdir() if path.is_dir()] == []


@pytest.mark.slow
@needs_compiler
def test_compiling_leaves_alone_what_others_may_own_and_leaves_nothing(program, passing):
    (theirs,) = passing.iterdir()
    assert list(theirs.iterdir()) == []


def test_what_would_take_minutes_is_compiled_only_where_it_is_asked_for():
    """7 s, and 0.04 s for each call."""
    recording = recorded(lambda x: [reduce(lambda y, _: y.sin(), range(23), x)], [], [torch.ones(2)])
    assert recording.num_calls == 23
    for num_calls, reason in (
        (2_300, "" if has_compiler() else NO_COMPILER),
        (2_400, "compiling would take some 103 s"),
    ):
        found = why_not_compiled(replace(recording, num_calls=num_calls), 10**9, torch.device("cpu"))
        assert found.partition(",")[0] == reason
