"""Functions sent to other processes by value, with the files that they were written in."""

import io
import os
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar


def pickled_by_value(thing: object) -> bytes:
    """Returns the cloudpickle of a thing; a traceback in the other process names files and lines, as here.

    cloudpickle itself calls every file `<dynamic-code>`.
    """
    import cloudpickle  # type: ignore[import-untyped]

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar = ChainMap({CodeType: _reduced}, cloudpickle.Pickler.dispatch_table)

    buffer = io.BytesIO()
    Pickler(buffer).dump(thing)
    return buffer.getvalue()


def code_of_file(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    """Makes code anew in the other process."""
    return make(*arguments).replace(co_filename=file)


def _reduced(code: CodeType) -> tuple[Any, ...]:
    import cloudpickle

    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)[:2]
    file = code.co_filename
    return code_of_file, (make, arguments, file if file.startswith("<") else os.path.abspath(file))
