"""Labels of figures."""

from tuner.reporting.figures import style
from tuner.support.plain_text import shortened


def test_long_labels_are_broken_and_escaped() -> None:
    assert style.lines_of("target_update_interval", 14) == "target_update_<br>interval"
    assert style.lines_of("half area under the curve, half final score", 24) == (
        "half area under the<br>curve, half final score"
    )
    assert style.lines_of("a<b & c", 3) == "a&lt;b<br>&amp; c"
    assert shortened("hyperbolic_tangent", 14) == "hyperbolic_ta…"
