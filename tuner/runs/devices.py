"""On which devices a run trains: one, or several that share its gradient steps."""

import importlib

from note_rl.settings import Distributed
from tuner.config.composition import BackendConfig
from tuner.errors import UserError
from tuner.runs.quiet import quiet_import

_BACKENDS = {"ddp": "torch", "mirrored": "keras", "multi_worker": "keras", "parameter_server": "keras"}


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
            f"strategy={' or '.join(others)}"
        )


def check_devices(shared: Distributed | None) -> None:
    """Refuses more devices than this process sees; called before TensorFlow has settled what there is.

    Raises:
        note_rl.errors.SettingsError: There are fewer.
    """
    if shared is not None and shared.strategy == "mirrored":
        quiet_import("tensorflow", "keras")
        from note_rl.distributed.keras.strategies import mirrored

        mirrored(shared.replicas)
