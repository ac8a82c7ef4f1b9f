"""Samplers and pruners from OptunaHub, the registry of what others have written for Optuna."""

import importlib
import importlib.util
import inspect
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.support.names import did_you_mean


def from_registry(package: str, cls: str, registry: str | None = None, **arguments: Any) -> Any:
    """An object of a class in a package of the registry.

    Args:
        package: Its path there, as samplers/auto_sampler. Its code is downloaded and run.
        cls: The class in it.
        registry: A folder with such packages, in place of the public registry.
        arguments: Of the class; `seed` is left out where it takes none.

    Raises:
        UserError: OptunaHub is not installed, or there is no such package, class or argument.
    """
    if importlib.util.find_spec("optunahub") is None:
        raise UserError("tuner.hub needs optunahub, which is not installed: pip install 'note-rl[hub]'")
    optunahub = importlib.import_module("optunahub")
    if registry is not None and not (Path(registry) / package).is_dir():
        offered = [str(path.parent.relative_to(registry)) for path in Path(registry).glob("*/*/__init__.py")]
        raise UserError(f"there is no package {package} in {registry}{did_you_mean(package, offered)}")
    try:
        if registry is None:
            module = optunahub.load_module(package)
        else:
            module = optunahub.load_local_module(package, registry_root=registry)
    except ImportError as error:  # what the package itself needs
        raise UserError(f"the package {package} of OptunaHub cannot be imported: {error}") from error
    kind = getattr(module, cls, None)
    if kind is None:
        public = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise UserError(f"the package {package} of OptunaHub has no {cls}{did_you_mean(cls, public)}")
    parameters = inspect.signature(kind).parameters
    if "seed" not in parameters and not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        arguments.pop("seed", None)
    return kind(**arguments)
