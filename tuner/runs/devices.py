"""On which devices a run trains: one, or several that share its gradient steps."""

import importlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

from note_rl.settings import Distributed
from tuner.config.composing import BackendConfig
from tuner.errors import UserError

_BACKENDS = {"ddp": "torch", "mirrored": "keras"}


def device_of(backend: BackendConfig) -> str:
    """The device by the framework's name for it (UserError: it is missing)."""
    if backend.device == "cpu":
        return "cpu"
    framework = importlib.import_module(backend.module)
    if backend.name == "keras":
        available, name = bool(framework.config.list_physical_devices("GPU")), "gpu"
    else:
        available, name = bool(framework.cuda.is_available()), "cuda"
    if not available and backend.device == "cuda":
        raise UserError(f"backend.device=cuda, but {backend.module} finds no GPU; use backend.device=cpu or auto")
    return name if available else "cpu"


def check_backend(shared: Distributed, backend: BackendConfig) -> None:
    """Refuses strategies of another framework (UserError)."""
    if backend.name != _BACKENDS[shared.strategy]:
        others = [name for name, needed in _BACKENDS.items() if needed == backend.name]
        raise UserError(
            f"strategy={shared.strategy} needs backend={_BACKENDS[shared.strategy]}; with backend={backend.name} use "
            f"strategy={others[0]}"
        )


def sharing_of(shared: Distributed | None) -> tuple[dict[str, Any], AbstractContextManager[Any]]:
    """Returns the arguments of distributed_training(), none for train(), and a context to make agent and optimizer in.

    Raises:
        note_rl.errors.SettingsError: There are fewer devices.
    """
    if shared is None:
        return {}, nullcontext()
    if shared.strategy == "ddp":
        return asdict(shared), nullcontext()
    from note_rl.learners.keras.strategies import mirrored  # which imports TensorFlow

    strategy = mirrored(shared.replicas)
    return {"strategy": strategy}, strategy.scope()
