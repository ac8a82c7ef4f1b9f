"""Rows as CSV text that a spreadsheet reads as it was meant."""

import csv
import io
from collections.abc import Iterable
from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""As spreadsheets have them; the last four are the wide forms of the first."""


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """One line for each row: floats in full precision, nothing for None, and text that stays text."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> str:
    """A value as it stands in a cell.

    A spreadsheet takes text with one of these beginnings for a formula, and formulas can send files away; an apostrophe
    before it says that it is none (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    if isinstance(value, str):
        value = value.replace("\r\n", "\n").replace("\r", "\n")  # which Python does not quote, and others end a row at
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
