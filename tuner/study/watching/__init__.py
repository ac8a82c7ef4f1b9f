"""Whoever watches a study: the live table, trackers, the dashboard."""
