"""The list of faults keeps up with the code."""

import pytest

from tests.benchmarks.faults import ROOT, Fault, read_faults


def test_each_fault_can_still_be_made():
    for fault in read_faults():
        right = (ROOT / fault.file).read_text(encoding="utf-8")
        compile(fault.applied(right), fault.file, "exec")
        assert all((ROOT / tests).exists() for tests in fault.tests), fault.name


def test_an_expression_that_is_gone_or_there_twice_is_no_place_for_a_fault():
    fault = Fault("x", "x.py", "a + b", "a - b", ())
    assert fault.applied("c = a + b") == "c = a - b"
    for text in ("c = a", "c = a + b; d = a + b"):
        with pytest.raises(ValueError, match="needs it once"):
            fault.applied(text)
