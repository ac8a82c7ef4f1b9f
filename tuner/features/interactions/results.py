"""Interactions in the results of a study."""

from tuner.features.interactions.facts import INTERACTIONS
from tuner.results.features import InResults

PART = InResults(facts=(INTERACTIONS,))
