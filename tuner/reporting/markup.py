"""HTML by functions: text is escaped unless a function here made it."""

import html
from collections.abc import Iterable

from tuner.support.plain_text import printable


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | bool | None) -> Html:
    """An element.

    Args:
        name: of the element.
        *children: `Html` as it is, any other text escaped.
        **attributes: escaped; an underscore at the end is dropped (`class_`), others become hyphens (`data_value`).
            True is an attribute without a value; False and None are left out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Elements and text one after the other."""
    return Html("".join(child if isinstance(child, Html) else _escaped(child) for child in children))


def _escaped(text: str) -> str:
    return html.escape(printable(text))
