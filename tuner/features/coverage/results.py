"""Details of the verdict about unsearched parts of the search space."""

from tuner.features.coverage.facts import COVERAGE
from tuner.features.coverage.sentences import sentences
from tuner.results.features import InResults

PART = InResults(facts=(COVERAGE,), sentences=sentences)
