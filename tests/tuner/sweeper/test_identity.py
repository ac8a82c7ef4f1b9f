"""Identity of a sweep: configurations of its jobs and code of the application; which study goes on by that."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode

from tuner.config.own_code import digests_of
from tuner.sweeper.grammar import parse_sweep
from tuner.sweeper.hydra_job import HydraApp
from tuner.sweeper.identity import identity_of, is_made_of_time
from tuner.sweeper.sweep_plan import composed_variants
from tuner.trial.messages import JsonDict

APP = {
    "app.py": "import numpy\nfrom own.models import ridge\n\ndef main(config):\n    import own.late\n    return 1.0\n",
    "own/__init__.py": "",
    "own/models.py": "from . import shared\n\ndef ridge(): ...\n",
    "own/shared.py": "SCALE = 1\n",
    "own/late.py": "",
    "own/named.py": "class Net: ...\n",
    "own/unused.py": "",
    "other.py": "",
    "conf/config.yaml": "defaults: [_self_, {data: small}]\nx: 0\nnoise: 0.5\nkey: secret-text\nhome: ${oc.env:HOME}\n",
    "conf/data/small.yaml": "size: 1\n",
    "conf/data/big.yaml": "size: 100\n",
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Loads the application as `python app.py` would; none of its other modules is imported."""
    for name, content in APP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "app.py").write_text(APP["app.py"].replace("from own.models import ridge\n", ""))
    spec = importlib.util.spec_from_file_location("__main__", tmp_path / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "app.py").write_text(APP["app.py"])
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.syspath_prepend(tmp_path)
    return module


def test_own_code_is_what_the_application_imports_of_its_own_wherever_it_does(app: Any, tmp_path: Path) -> None:
    before = digests_of(app.main)
    imported = ["app.py", "own/__init__.py", "own/late.py", "own/models.py", "own/shared.py"]
    assert list(before) == imported, "numpy is not its own"
    assert [name for name in sys.modules if name.startswith("own")] == []
    (tmp_path / "own" / "shared.py").write_text("SCALE = 2\n")
    (tmp_path / "own" / "unused.py").write_text("changed = True\n")
    after = digests_of(app.main)
    assert [name for name in imported if before[name] != after[name]] == ["own/shared.py"]
    named = digests_of(app.main, ["own.named.Net", "numpy.random.default_rng", "nowhere.Thing", "no identifier"])
    assert set(named) - set(before) == {"own/named.py"}


def identity(app: Any, folder: Path, *arguments: str) -> JsonDict:
    with initialize_config_dir(str(folder / "conf"), version_base=None):
        loader = GlobalHydra.instance().config_loader()
        space = parse_sweep({}, arguments, loader)
        config = loader.load_configuration("config", list(space.fixed), run_mode=RunMode.MULTIRUN)
        hydra_app = HydraApp(HydraContext(loader, cast("Any", None)), app.main, config)
        return identity_of(hydra_app, composed_variants(hydra_app, space))


@pytest.mark.parametrize(
    ("file", "content", "changed"),
    [
        ("conf/config.yaml", APP["conf/config.yaml"].replace("x: 0", "x: 7"), set()),  # searched
        ("conf/config.yaml", APP["conf/config.yaml"].replace("0.5", "50"), {"job", "jobs"}),
        ("conf/data/small.yaml", "size: 2\n", {"job", "jobs"}),
        ("conf/data/big.yaml", "size: 200\n", {"jobs"}),
        ("conf/data/huge.yaml", "size: 2\n", set()),
        ("app.py", APP["app.py"].replace("1.0", "1000.0"), {"code"}),
        ("other.py", "a = 1\n", set()),
    ],
)
def test_what_changes_the_jobs_changes_the_identity(
    app: Any, tmp_path: Path, file: str, content: str, changed: set[str]
) -> None:
    search = ("data=choice(small,big)", "x=interval(0,1)")
    before = identity(app, tmp_path, *search)
    (tmp_path / file).write_text(content)
    after = identity(app, tmp_path, *search)
    assert {key for key in before if before[key] != after[key]} == changed


def test_an_identity_keeps_no_texts_of_the_configuration(app: Any, tmp_path: Path) -> None:
    found = identity(app, tmp_path, "x=interval(0,1)")
    assert found["job"]["noise"] == 0.5
    written = json.dumps(found)
    assert "secret" not in written
    assert "HOME" not in written
    assert identity(app, tmp_path, "x=interval(0,1)", "hydra.sweep.subdir=job_${x}") != found


@pytest.mark.parametrize(
    ("template", "changes"),
    [
        ("multirun/${now:%Y-%m-%d}", True),
        ("out/${my_stamp:}", True),
        ("out/${hydra.job.name}/${oc.env:USER}", False),
        ("sweeps/mine", False),
    ],
)
def test_folders_made_of_the_time(template: str, changes: bool) -> None:
    assert is_made_of_time(template) is changes


# Which study goes on
