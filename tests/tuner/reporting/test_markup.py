"""Markup of the page."""

from tuner.reporting.markup import Html, tag


def test_markup_escapes_text_and_attributes() -> None:
    made = tag("p", "a < b", Html("<b>x</b>"), title='"quoted" & more', class_="wide", hidden=True, id=None)
    expected = '<p title="&quot;quoted&quot; &amp; more" class="wide" hidden>a &lt; b<b>x</b></p>'
    assert made == expected
