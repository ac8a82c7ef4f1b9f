"""One test for each private name of Hydra: it says what breaks if the name is gone or means something else."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.utils import _run_hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import setup_globals
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from tests.fuzzing.composing import reading_files
from tuner.config import hydra_internals as internals
from tuner.config.composition import compose, conf_folder, config_loader


@pytest.fixture(autouse=True)
def _as_users_have_it() -> Iterator[None]:
    """Without what tests remember besides."""
    with reading_files():
        yield


LINES = [
    ("train", ["agent=dqn", "env=acrobot", "seed=3"]),
    ("train", ["agent=ppo", "optimizer.learning_rate=0.1"]),
    ("tune", ["agent=td3", "env=pendulum", "sampler=random"]),
]


def plain_loader() -> ConfigLoader:
    """Hydra's own loader over conf/."""
    config_loader()  # which registers the resolvers
    return ConfigLoaderImpl(internals.search_path_of(conf_folder()))


@pytest.mark.parametrize(("name", "overrides"), LINES)
def test_create_interpolation_map(name: str, overrides: list[str]) -> None:
    """defaults_list._create_interpolation_map: if it is not asked for, composing takes twice as long.

    What is composed is the same as by Hydra, as the copy of its module differs in this function only.
    """
    ours, theirs = compose(config_loader(), name, overrides), compose(plain_loader(), name, overrides)
    assert OmegaConf.to_yaml(ours) == OmegaConf.to_yaml(theirs)


def test_create_interpolation_map_with_a_reference(tmp_path: Path) -> None:
    """A line of a defaults list that refers to another choice is resolved, as by Hydra."""
    for group, choice in (("a", "one"), ("b", "of_one")):
        (tmp_path / group).mkdir()
        (tmp_path / group / f"{choice}.yaml").write_text(f"name: {choice}\n")
    (tmp_path / "main.yaml").write_text("defaults: [{a: one}, {b: 'of_${a}'}, _self_]\n")
    setup_globals()
    for loader in (internals.HydraLoader, ConfigLoaderImpl):
        config = compose(loader(internals.search_path_of(tmp_path)), "main", [])
        assert config.b.name == "of_one"


def test_load_configuration_impl() -> None:
    """ConfigLoaderImpl._load_configuration_impl: if it names create_defaults_list no more, composing is slow again."""
    code = ConfigLoaderImpl._load_configuration_impl.__code__
    assert "create_defaults_list" in code.co_names
    assert code.co_freevars == ()
    assert internals.create_defaults_list is not defaults_list.create_defaults_list
    ours = internals.HydraLoader._load_configuration_impl
    assert ours.__globals__["create_defaults_list"] is internals.create_defaults_list
    theirs = inspect.signature(ConfigLoaderImpl._load_configuration_impl).parameters.values()
    of_ours = inspect.signature(ours).parameters.values()
    assert [(one.name, one.default) for one in of_ours] == [(one.name, one.default) for one in theirs]


def test_deepcopy_of_a_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """ConfigLoaderImpl.repository, ConfigRepository.sources: without them, every question copies all configs."""
    loader = config_loader()
    monkeypatch.setattr(DictConfig, "__deepcopy__", None)
    caching = CachingConfigRepository(loader.repository)
    caching.initialize_sources(internals.search_path_of(Path("/elsewhere")))
    assert "/elsewhere" in {source.path for source in caching.get_sources()}
    assert "/elsewhere" not in {source.path for source in loader.get_sources()}
    assert "__deepcopy__" not in ConfigRepository.__dict__


def test_compose_config_from_defaults_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """ConfigLoaderImpl._compose_config_from_defaults_list: if it is not asked, the same files are merged each time."""
    seen: list[str] = []

    class Noting(internals.HydraLoader):
        def merged(self, defaults: Any, repository: Any) -> DictConfig:
            seen.extend(str(default.config_path) for default in defaults)
            return super().merged(defaults, repository)

    config_loader()
    config = compose(Noting(internals.search_path_of(conf_folder())), "train", ["agent=ppo"])
    assert "agent/ppo" in seen
    assert str(config.agent._target_).endswith("PPO")


def test_file_of(tmp_path: Path) -> None:
    """FileConfigSource._normalize_file_name: without it, a file that was changed is not read again."""
    (tmp_path / "a.yaml").write_text("x: 1\n")
    source = internals.FolderSource("main", f"file://{tmp_path}")
    assert source.file_of("a") == source.file_of("a.yaml") == str(tmp_path / "a.yaml")
    assert source.load_config("a").config == {"x": 1}


def test_search_path_of(tmp_path: Path) -> None:
    """utils.create_config_search_path: without it, nothing is composed. The schema comes last, Hydra's own first."""
    found = [(one.provider, one.path) for one in internals.search_path_of(tmp_path).get_path()]
    assert found[0] == ("hydra", "pkg://hydra.conf")
    assert found[1] == ("main", f"file://{tmp_path}") or found[1] == ("main", str(tmp_path))
    assert found[-1] == ("schema", "structured://")


def test_get_args_parser() -> None:
    """utils.get_args_parser: without it, no command line is read. The names of its options are used in cli.py."""
    options = internals.arguments_parser().parse_args(["a=1", "-m", "--config-dir", "x"])
    assert (options.overrides, options.multirun, options.config_dir) == (["a=1"], True, "x")
    others = ("help", "cfg", "info", "hydra_help", "shell_completion", "experimental_rerun", "config_path", "resolve")
    assert not any(getattr(options, name) for name in others)
    assert (options.config_name, options.package) == (None, None)


def test_hydra_of(capsys: pytest.CaptureFixture[str]) -> None:
    """hydra.Hydra: without it, no job is run and no configuration shown. Its methods are used in cli.py."""
    made = internals.hydra_of("train", config_loader())
    made.show_cfg("train", ["agent=ppo"], "job", "agent", resolve=False)
    assert "PPO" in capsys.readouterr().out
    for method in (made.run, made.multirun):
        assert [*inspect.signature(method).parameters][:3] == ["config_name", "task_function", "overrides"]


def test_run_hydra(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """utils._run_hydra: without it, --info, --hydra-help and shell completion are gone."""
    assert [*inspect.signature(_run_hydra).parameters][:5] == [
        *("args", "args_parser", "task_function", "config_path", "config_name"),
    ]
    (tmp_path / "main.yaml").write_text("x: 1\n")
    parser = internals.arguments_parser()
    internals.run_as_main(parser.parse_args(["--cfg", "job"]), parser, lambda config: None, tmp_path, "main")
    assert capsys.readouterr().out.strip() == "x: 1"
    GlobalHydra.instance().clear()


def test_basic_launcher() -> None:
    """The class of hydra/launcher=basic: under another name, hydra/sweeper=optuna refuses every launcher."""
    assert compose(config_loader(), "train", []).hydra.launcher._target_ == internals.BASIC_LAUNCHER
    assert get_class(internals.BASIC_LAUNCHER).__module__ in internals.MODULES_OF_A_JOB
    assert set(internals.MODULES_OF_A_JOB) <= sys.modules.keys()


def test_another_hydra_program_composes_as_before(tmp_path: Path) -> None:
    """The functions of Hydra's own loader are the same before and after ours has composed."""
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "one.yaml").write_text("x: 1\n")
    (tmp_path / "main.yaml").write_text("defaults: [{group: one}, _self_]\nz: ${group.x}\n")

    def of_others() -> dict[str, object]:
        parts = (config_loader_impl, defaults_list, ConfigLoaderImpl, ConfigRepository, CachingConfigRepository)
        return {f"{part.__name__}.{name}": value for part in parts for name, value in vars(part).items()}

    def composed() -> str:
        with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
            return OmegaConf.to_yaml(hydra.compose("main", overrides=["group.x=2"], return_hydra_config=False))

    before, functions = composed(), of_others()
    for name, overrides in LINES:
        compose(config_loader(), name, overrides)
    after = of_others()
    assert functions.keys() == after.keys()
    assert [name for name, value in functions.items() if after[name] is not value] == []
    assert defaults_list._create_interpolation_map.__module__ == "hydra._internal.defaults_list"
    assert composed() == before == "group:\n  x: 2\nz: ${group.x}\n"
