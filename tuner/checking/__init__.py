"""Checks the configuration of each command, and words the refusals."""
