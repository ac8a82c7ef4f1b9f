"""Contents of an installed tuner."""

import zipfile
from pathlib import Path

import pytest

from tuner.commands.guide import FOLDER
from tuner.config.composition import conf_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return zipfile.ZipFile(path)


def test_the_wheel_holds_both_packages_every_file_of_conf_and_the_guides(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"note_rl/py.typed", "tuner/py.typed", "tuner/cli.py", "note_rl/training/trainer.py"} <= names
    assert [name for name in names if "hydra_plugins" in name] == ["hydra_plugins/tuner_sweeper.py"]
    conf = conf_folder()
    assert {f"tuner/conf/{path.relative_to(conf).as_posix()}" for path in conf.rglob("*.yaml")} <= names
    pages = {f"tuner/guide/{path.name}" for path in FOLDER.iterdir()}
    assert {"tuner/guide/tune.md", "tuner/guide/contents.txt"} <= pages
    assert pages <= names
    assert not [name for name in names if name.startswith(("tests", "conf/"))]


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    (info,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    assert "tuner = tuner.__main__:main" in wheel.read(f"{info}/entry_points.txt").decode()
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert {
        "keras",
        "torch",
        "report",
        "tensorboard",
        "plot",
        "video",
        "marl",
        "box2d",
        "mujoco",
        "robotics",
        "envpool",
        "export",
        "offline",
        "ray",
        "submitit",
        "mlflow",
        "sb3",
        "atari",
        "minatar",
        "postgres",
        "samplers",
        "hub",
        "wandb-report",
        "all",
        "test",
    } == {line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Provides-Extra")}
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
