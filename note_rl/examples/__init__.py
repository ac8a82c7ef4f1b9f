"""Agents under the manuals' import paths and with their arguments, and small environments of our own."""
