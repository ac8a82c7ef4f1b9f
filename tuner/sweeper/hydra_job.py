"""The child's side of a sweep: one job of a Hydra application, run as Hydra's own launcher would."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, flag_override, open_dict

from tuner.support.passwords import shown, without_password
from tuner.sweeper.job_inputs import InputFiles, Reading, noting_inputs
from tuner.trial.context import TrialContext
from tuner.trial.folder import write_objective
from tuner.trial.messages import JsonDict


@contextmanager
def as_hydra_config(config: DictConfig) -> Iterator[None]:
    """Lets `${hydra:...}` in a config find that config."""
    holder = HydraConfig.instance()
    before = holder.cfg
    holder.set_config(config)
    try:
        yield
    finally:
        holder.cfg = before


def own_part(config: DictConfig) -> DictConfig:
    """A config without Hydra's part; references stay as they are."""
    return OmegaConf.masked_copy(config, cast("list[str]", [key for key in config if key != "hydra"]))


@dataclass(frozen=True)
class HydraApp:
    """The application, as Hydra describes it to a sweeper.

    Attributes:
        context: Config loader and callbacks.
        task_function: The function that `@hydra.main` decorates.
        config: The composed config, Hydra's own part included.
    """

    context: HydraContext
    task_function: TaskFunction
    config: DictConfig

    def compose(self, number: int, overrides: Sequence[str]) -> DictConfig:
        """The config of one job."""
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = number
            config.hydra.job.num = number
        return config


@dataclass(frozen=True, repr=False)
class SweepJob:
    """The callable of a trial's process; sent there by value, with all that is registered with Hydra and OmegaConf.

    Attributes:
        app: The application.
        singletons: State of Hydra's singletons in the controller: config store, resolvers...
        num_objectives: Numbers that the task function has to return.
        files: Files that can be its input.
    """

    app: HydraApp
    singletons: Any
    num_objectives: int
    files: InputFiles

    def __repr__(self) -> str:
        """Short: it stands in messages."""
        return getattr(self.app.task_function, "__qualname__", repr(self.app.task_function))

    def __call__(self, context: TrialContext) -> None:
        """Runs the job and writes down what it returned."""
        setup_globals()
        Singleton.set_state(self.singletons)
        asked: JsonDict = context.spec.config
        config = self.app.compose(context.spec.number, asked["overrides"])
        with open_dict(config):
            config.hydra.sweep.dir = asked["sweep_dir"]
            config.hydra.sweep.subdir = asked["subdir"]
        reading = Reading()

        def task(given: DictConfig) -> Any:
            with noting_inputs(self.files, Path(asked["sweep_dir"]), reading):
                return self.app.task_function(given)

        done = run_job(  # which writes the config down
            task_function=task,
            config=without_passwords(config),
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
            hydra_context=self.app.context,
        )
        objective = objective_of(done.return_value, self.num_objectives)
        write_objective(context.folder, {**objective, "read": reading.digests})


def without_passwords(config: DictConfig) -> DictConfig:
    """A copy of an application's config in which Hydra's own part, which it keeps in files, holds no passwords."""
    config = config.copy()
    plain = OmegaConf.to_container(config.hydra, resolve=False)
    assert isinstance(plain, dict)
    storage = plain.get("sweeper", {}).get("storage")
    told = {kind: [without_password(word) for word in words or ()] for kind, words in plain["overrides"].items()}
    with (
        flag_override(config, ["readonly", "struct"], False),
        flag_override(config.hydra, ["readonly", "struct"], False),
    ):
        OmegaConf.update(config, "hydra.overrides", told)
        if isinstance(storage, str):
            OmegaConf.update(config, "hydra.sweeper.storage", shown(storage))
        elif isinstance(storage, dict) and "url" in storage:
            OmegaConf.update(config, "hydra.sweeper.storage.url", shown(str(storage["url"])))
    return config


def objective_of(returned: object, num_objectives: int) -> JsonDict:
    """The return value of a task function as plain data: its values, or the error in it."""
    wanted = "a number" if num_objectives == 1 else f"{num_objectives} numbers, one for each direction"
    if returned is None:
        return {"complaint": f"the task function returned None: it has to return {wanted}, which is optimised"}
    listed = [returned] if num_objectives == 1 else returned
    try:
        values = [float(value) for value in listed if not isinstance(value, str)]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        values = []
    if len(values) != num_objectives:
        return {"complaint": f"the task function returned {_short(returned)}: it has to return {wanted}"}
    return {"values": values}


def _short(value: object, limit: int = 60) -> str:
    text = f"{value!r} ({type(value).__name__})"
    return text if len(text) <= limit else f"{text[:limit]}..."
