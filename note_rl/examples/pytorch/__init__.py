"""Agents in PyTorch."""
