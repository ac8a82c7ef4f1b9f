"""Sampling and pruning: the next configuration, the runs to end early, and the scores of failed runs."""
