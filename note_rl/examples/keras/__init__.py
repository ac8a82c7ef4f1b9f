"""Agents in Keras."""
