"""Agents in PyTorch that act in several environments side by side."""
