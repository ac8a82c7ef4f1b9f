"""Whether what a storage holds is what was once written there."""

from pathlib import Path

import optuna
import pytest
from optuna.trial import create_trial

from tests.tuner.studies import run_study
from tests.tuner.study_records import stored
from tuner.errors import UserError
from tuner.study.storage.soundness import check_study


def test_a_study_of_a_later_version_is_refused(tmp_path: Path) -> None:
    run_study(tmp_path)
    study = stored(tmp_path)
    study.set_user_attr("definition", {"format": 99, "versions": {"note-rl": "0.9.1"}, "more": 1})
    with pytest.raises(UserError, match=r"cannot read study study in .*: note-rl 0\.9\.1 wrote it in format 99"):
        run_study(tmp_path)


def test_constraints_of_trials_are_numbers() -> None:
    study = optuna.create_study()
    study.add_trial(create_trial(value=1.0, system_attrs={"constraints:seconds<5": "much"}))
    with pytest.raises(UserError, match=r"trial 0: limits.seconds<5 .* a number"):
        check_study(study, "a storage")
