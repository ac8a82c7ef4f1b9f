"""What is said in the verdict of where the search has looked."""

from tuner.features.coverage.facts import COVERAGE
from tuner.features.coverage.sentences import warnings
from tuner.results.features import InResults

PART = InResults(facts=(COVERAGE,), warnings=warnings)
