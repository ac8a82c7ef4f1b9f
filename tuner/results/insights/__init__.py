"""Insights from the runs of a study beyond its winner: pure functions over its records."""
