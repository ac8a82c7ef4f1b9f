"""`tuner.extending` names every kind of part, says of each who calls it, and loads nothing before it is used."""

import inspect
import re
import subprocess
import sys

import pytest

from tuner import extending
from tuner.config.composition import conf_folder

NOT_IN_THE_TEXT = {"Event", "Seats", "TrialFunction", "TrialSpec"}
"""Names that the methods of parts take and return, explained where they are defined."""
OF_STUDIES = {"study", "space", "storage", "finder", "experiment", "hydra", "checkpoint", "plateau", "strategy"}
OF_STUDIES |= {"backend", "buffer", "collector"}
"""Groups of values, and parts that nobody has asked to extend."""


@pytest.mark.parametrize("name", [name for name in extending.__all__ if name != "RL"])
def test_each_name_is_there(name: str) -> None:
    part = getattr(extending, name)
    assert inspect.getdoc(part) or name in {"Schedule", "TrialFunction"}, "these two are kinds of functions"


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tracke'"):
        extending.Tracke  # type: ignore[attr-defined]


def test_each_name_and_each_group_is_explained() -> None:
    assert sorted(extending._HOME_OF) == sorted(extending.__all__)
    told = set(re.findall(r"`(\w+)`", extending.__doc__ or ""))
    assert set(extending.__all__) - told == NOT_IN_THE_TEXT
    groups = {path.name for path in conf_folder().iterdir() if path.is_dir()}
    assert groups - OF_STUDIES <= told
    assert not told & OF_STUDIES


@pytest.mark.parametrize("module", ["tuner.extending", "tuner.testing.trial_programs"])
def test_importing_it_loads_nothing(module: str) -> None:
    """The second one is imported by each trial of an executor under test, maybe where pytest is not installed."""
    heavy = ("torch", "tensorflow", "gymnasium", "optuna", "hydra", "numpy", "pytest", "tuner.commands")
    program = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
