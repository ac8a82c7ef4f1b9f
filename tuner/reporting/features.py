"""Contributions of a feature to the report page and to the printed results of a study."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from rich.console import RenderableType

from tuner.features import nothing
from tuner.reporting.markup import Html
from tuner.results.findings import Verdict
from tuner.results.records import StudySummary
from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class InReporting:
    """Contributions of a feature to the report page and to the printed results of a study.

    Attributes:
        figures: By id of its place in the page.
        result_figures: The same, of what came out.
        result_sections: Of the page, behind the comparison of winner and default.
        test_tables: Printed behind that of the test runs.
        search: Sections of the page in place of those about the search, given its figures.
        search_sections: Of the page, before those of the search.
        parameter_sections: Of the page, behind the importances of parameters.
        printed: By `tuner report`, behind the verdict; text is printed as it is.
        commands: Next commands, printed behind the study: purpose -> command line.
        watching: The same, to watch an agent.
    """

    figures: Callable[[StudySummary], Mapping[str, JsonDict | None]] = nothing
    result_figures: Callable[[StudySummary], Mapping[str, JsonDict]] = nothing
    result_sections: Callable[[StudySummary, Verdict], Iterable[Html]] = nothing
    test_tables: Callable[[StudySummary], Iterable[RenderableType]] = nothing
    search: Callable[[StudySummary, Container[str]], Iterable[Html]] = nothing
    search_sections: Callable[[StudySummary, Verdict], Iterable[Html]] = nothing
    parameter_sections: Callable[[StudySummary, Verdict], Iterable[Html]] = nothing
    printed: Callable[[StudySummary], Iterable[RenderableType]] = nothing
    commands: Callable[[StudySummary, Verdict], Mapping[str, str]] = nothing
    watching: Callable[[StudySummary], Mapping[str, str]] = nothing
