"""Warnings in the verdict about unsearched parts of the search space."""

from tuner.features.coverage.facts import COVERAGE
from tuner.features.coverage.sentences import warnings
from tuner.results.features import InResults

PART = InResults(facts=(COVERAGE,), warnings=warnings)
