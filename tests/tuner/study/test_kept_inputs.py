"""Files that the jobs of a sweep have read: what is kept of them."""

import optuna

from tuner.study import StudyStore
from tuner.study.sweep.kept_inputs import keep_inputs, what_is_kept


def test_what_is_kept_is_said_and_what_is_not_compared() -> None:
    study = StudyStore("memory").open("s", "screen", directions=("minimize",))
    assert what_is_kept(study) == "", "there is nothing to keep"
    study.add_trial(optuna.trial.create_trial(value=1.0))
    assert what_is_kept(study) == (
        "The results of 1 job are kept: configuration and code are the same. "
        "What jobs read otherwise is not compared: study.name=s-2 begins anew"
    )
    keep_inputs(study, {**{f"{n}.py": "1" for n in range(6)}, "cache\x1b.db": None})
    assert what_is_kept(study) == (
        "The results of 1 job are kept: configuration, code and 6 files that jobs have read "
        "(0.py, 1.py, 2.py, 3.py, 4.py, ...) are the same. What jobs read otherwise, or changed (cache\\x1b.db), "
        "is not compared: study.name=s-2 begins anew"
    )
