"""Importing a framework without the lines it prints to everybody."""

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from note_rl.support.xla_cache import xla_variables
from tuner.support import waiting_line

_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # TensorFlow's lines about CPU features and missing CUDA libraries
    "KERAS_BACKEND": "tensorflow",  # whatever ~/.keras/keras.json says: agents in Keras are written for TensorFlow
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}
# TensorFlow 2.21 writes these before it reads the level
_FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
_CHATTER = re.compile(rb"WARNING: All log messages before absl::InitializeLog|I\d{4} .*(cudart_stub|port)\.cc")


def quiet_import(*modules: str) -> None:
    """Imports modules; of what they print to stderr meanwhile, known chatter is left out.

    Raises:
        ModuleNotFoundError: One of them, or something it needs, is not installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if "tensorflow" in modules:
        os.environ.update(xla_variables(os.environ))
    missing = [module for module in modules if module not in sys.modules]
    if missing:
        waiting_line.change(f"loading {next((_FRAMEWORKS[one] for one in missing if one in _FRAMEWORKS), missing[0])}")
        with _stderr_without_chatter():
            for module in missing:
                importlib.import_module(module)


@contextmanager
def _stderr_without_chatter() -> Iterator[None]:
    """Works on the file descriptor, as the lines come from C++; whatever else is printed comes out afterwards."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as caught:
        real = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(real, 2)
            os.close(real)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if not _CHATTER.match(line)))
