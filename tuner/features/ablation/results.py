"""An ablation in the results of a study."""

from tuner.features.ablation.facts import ABLATE, ABLATION
from tuner.results.features import InResults

PART = InResults(facts=(ABLATION,), stages=(ABLATE,))
