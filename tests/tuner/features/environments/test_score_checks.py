"""A score that was changed in the storage is found by the curves of its parts."""

import pytest

from tests.tuner.study.test_score_checks import record
from tuner.errors import UserError
from tuner.features.environments.scales import ScoreScale
from tuner.results.metric import Curve, make_metric
from tuner.study.score_checks import check_scores


def test_a_score_that_was_changed_is_found_by_the_curve_on_its_scale() -> None:
    mixed = make_metric("mixed")
    scales = {"a": ScoreScale(random=0.0, good=50.0), "b": ScoreScale(random=20.0, good=40.0)}

    def rescale(name: str, curve: Curve) -> Curve:
        return scales[name].curve(curve)

    parts = tuple(record(value, environment=name) for name, value in (("a", 0.5), ("b", 0.25)))
    check_scores([record(0.375, parts=parts)], mixed, (), rescale)
    with pytest.raises(UserError, match=r"holds 0\.5 as the score of run test/3, and 0\.375 comes of"):
        check_scores([record(0.5, parts=parts)], mixed, (), rescale)
    parts = (record(1.5, environment="a"), parts[1])
    with pytest.raises(UserError, match=r"holds 1\.5 as the score of run test/3 in a, and 0\.5 comes of"):
        check_scores([record(0.875, parts=parts)], mixed, (), rescale)
