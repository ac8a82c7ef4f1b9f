"""Elements of the page's sections: headings, figures, tables and their cells."""

import html
import re
from collections.abc import Mapping, Sequence

from tuner.reporting.markup import Html, tag
from tuner.results.number_format import format_number, format_value
from tuner.results.records import Scalar


def section(name: str, title: str, *content: str) -> Html:
    """A section with its heading."""
    return tag("section", tag("h2", title), *content, id=name)


def reason(text: str) -> Html:
    """Why something is not shown."""
    return tag("p", text, class_="reason")


def note(text: str) -> Html:
    """How something is to be read."""
    return tag("p", text, class_="note")


def figure(name: str, caption: str) -> Html:
    """The place of a figure, drawn by page.js."""
    return tag("figure", _place(name), tag("figcaption", caption))


def figure_grid(names: Sequence[str], caption: str) -> Html:
    """The places of small figures, as many side by side as there is room for."""
    return tag("figure", tag("div", *map(_place, names), class_="plots"), tag("figcaption", caption))


def _place(name: str) -> Html:
    """Scrolls sideways where the figure needs more room than there is."""
    return tag("div", tag("div", id=name), class_="plot")


def table(name: str, heads: Sequence[str], rows: Sequence[Html], titles: Mapping[str, str] | None = None) -> Html:
    """A table sorted by a click on a heading."""
    headings = [
        tag("th", tag("button", breakable(head), type="button", title=(titles or {}).get(head)), scope="col")
        for head in heads
    ]
    head, body = tag("thead", tag("tr", *headings)), tag("tbody", *rows)
    return tag("div", tag("table", head, body, id=name, class_="sortable"), class_="scroll")


def breakable(name: str) -> Html:
    """A parameter's name that may be broken at its underscores and dots where paper is narrow."""
    return Html(re.sub(r"([_.])", r"\1<wbr>", html.escape(name)))


def text_cell(content: str) -> Html:
    """A cell."""
    return tag("td", content)


def number_cell(value: float | None, shown: str | None = None) -> Html:
    """A cell sorted by its value; an empty one is sorted last."""
    if value is None:
        return tag("td", "", class_="number")
    return tag("td", format_number(value) if shown is None else shown, class_="number", data_value=repr(float(value)))


def value_cell(value: Scalar) -> Html:
    """A parameter's cell, with the full value to hover."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return tag("td", format_value(value), class_="number", data_value=repr(float(value)), title=repr(value))
    return tag("td", "" if value is None else format_value(value))


def copied_command(name: str, command: str) -> Html:
    """A command line with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", data_target=name)
    return tag("div", tag("pre", tag("code", command, id=name)), button, class_="command")
