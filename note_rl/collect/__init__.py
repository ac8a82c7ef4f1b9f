"""Gathering experience."""
