"""SIGTERM ends a block as Ctrl-C does, and only there."""

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tuner.support.interrupts import ending_as_by_ctrl_c


def test_what_a_block_has_made_is_removed_when_it_is_ended() -> None:
    before = signal.getsignal(signal.SIGTERM)
    made = TemporaryDirectory()
    with pytest.raises(KeyboardInterrupt), ending_as_by_ctrl_c(), made:
        os.kill(os.getpid(), signal.SIGTERM)
    assert not Path(made.name).exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_of_somebody_else_stays() -> None:
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with ending_as_by_ctrl_c():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
