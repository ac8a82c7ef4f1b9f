"""Agents in Keras that act in several environments side by side."""
