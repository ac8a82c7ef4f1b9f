"""Studies that other programs have made, with Optuna alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

SQLITE = "sqlite:///theirs.db"
JOURNAL = "journal:///theirs.log"


def storage_at(url: str) -> BaseStorage:
    path = url.partition("///")[2]
    return RDBStorage(url) if url.startswith("sqlite") else JournalStorage(JournalFileBackend(path))


def plain_study(
    url: str = JOURNAL,
    name: str = "lr-search",
    *,
    num_trials: int = 6,
    direction: Literal["minimize", "maximize"] = "maximize",
) -> optuna.Study:
    """Trials with a learning rate and a batch, of which the last one counts most; one was pruned, one failed."""
    study = optuna.create_study(storage=storage_at(url), study_name=name, direction=direction)
    for number in range(num_trials):
        trial = study.ask()
        trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        trial.suggest_categorical("kind", ["a", "b"])
        trial.report(float(number) / 2, 1)
        trial.report(float(number), 2)
        if number == 1:
            study.tell(trial, state=TrialState.PRUNED)
        elif number == 2:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, float(number))
    return study


def zoo_study(url: str = JOURNAL, name: str = "zoo", params: Callable[[optuna.Trial], None] | None = None) -> None:
    """Trials with parameters as RL Baselines3 Zoo draws them for PPO."""
    study = optuna.create_study(storage=storage_at(url), study_name=name, direction="maximize")
    for number in range(3):
        trial = study.ask()
        (params or ppo_params)(trial)
        study.tell(trial, float(number))


def ppo_params(trial: optuna.Trial) -> None:
    trial.suggest_int("batch_size_pow", 2, 10)
    trial.suggest_int("n_steps_pow", 5, 12)
    trial.suggest_float("one_minus_gamma", 0.0001, 0.03, log=True)
    trial.suggest_float("one_minus_gae_lambda", 0.0001, 0.1, log=True)
    trial.suggest_float("learning_rate", 1e-5, 0.002, log=True)
    trial.suggest_float("ent_coef", 0.00000001, 0.1, log=True)
    trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3, 0.4])
    trial.suggest_categorical("n_epochs", [1, 5, 10, 20])
    trial.suggest_float("max_grad_norm", 0.3, 2)
    trial.suggest_categorical("net_arch", ["tiny", "small", "medium"])
    trial.suggest_categorical("activation_fn", ["tanh", "relu"])


def dqn_params(trial: optuna.Trial) -> None:
    trial.suggest_float("one_minus_gamma", 0.0001, 0.03, log=True)
    trial.suggest_int("batch_size_pow", 2, 11)
    trial.suggest_float("learning_rate", 1e-5, 0.002, log=True)
    trial.suggest_int("train_freq", 8, 8)
    trial.suggest_int("subsample_steps", 2, 2)
    trial.suggest_int("target_update_interval", 400, 400)
    trial.suggest_categorical("net_arch", ["small", "medium", "big"])


def content(folder: Path, start: str = "theirs") -> dict[str, bytes]:
    """All files that belong to a storage."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name.startswith(start)}
