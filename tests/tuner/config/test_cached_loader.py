"""The loader that reads and merges once composes what Hydra's own does, and sees whatever has changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from tests.fuzzing.composing import hydra_alone, reading_files
from tuner.config import cached_loader
from tuner.config.composition import compose, config_loader


@pytest.fixture(autouse=True)
def _as_users_have_it() -> Iterator[None]:
    """Without what tests remember besides."""
    with reading_files():
        yield


def id_of(*overrides: str, config_dir: Path | None = None) -> str:
    """Of the environment that is composed."""
    return str(compose(config_loader(config_dir), "train", overrides).env.id)


def test_what_was_merged_before_composes_the_same() -> None:
    lines = [
        ("train", ["agent=ppo", "hydra.job.name=x"]),
        ("tune", ["agent=synthetic", "seed=3", "hydra.job.name=x"]),
        ("tune", ["experiment=nstep_dqn_cartpole", "study=pbt", "hydra.job.name=x"]),
        ("tune", ["agent=sac", "env=pendulum", "hydra.job.name=x"]),
    ]
    with hydra_alone():
        expected = [OmegaConf.to_yaml(compose(config_loader(), *line)) for line in lines]
    for _ in range(3):
        for line, wanted in zip(lines, expected, strict=True):
            found = compose(config_loader(), *line)
            assert OmegaConf.to_yaml(found) == wanted
            found.training.total_steps = 1  # the next one does not see this


def test_nothing_is_read_or_merged_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_read", "_merged"):
        monkeypatch.setattr(cached_loader, name, {})  # earlier tests have read something, too
    compose(config_loader(), "train", ["env=acrobot"])
    before = len(cached_loader._read), len(cached_loader._merged)
    compose(config_loader(), "train", ["env=acrobot", "seed=4"])
    assert (len(cached_loader._read), len(cached_loader._merged)) == before
    compose(config_loader(), "train", ["env=acrobot", "optimizer=sgd"])
    assert (len(cached_loader._read), len(cached_loader._merged)) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("added", [False, True])
def test_a_file_that_changes_is_read_again(tmp_path: Path, added: bool) -> None:
    """Also in a folder that an override adds."""
    (tmp_path / "env").mkdir()
    for wanted in ("A", "B"):
        (tmp_path / "env" / "mine.yaml").write_text(f"id: {wanted}\n")
        if added:
            assert id_of("env=mine", f"hydra.searchpath=[file://{tmp_path}]") == wanted
        else:
            assert id_of("env=mine", config_dir=tmp_path) == wanted


def test_what_a_program_stores_with_hydra_is_read_each_time() -> None:
    stored = ConfigStore.instance()
    try:
        for wanted in ("A", "B"):
            stored.store(group="env", name="stored", node={"id": wanted})
            assert id_of("env=stored") == wanted
    finally:
        del stored.repo["env"]
