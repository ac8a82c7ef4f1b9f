"""Comparisons of optimizers or agents over the same seeds: who is best, and who is not significantly worse."""
