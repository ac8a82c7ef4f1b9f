"""Observers of a study: the live table, trackers, the dashboard."""
