"""Changing hyperparameters while training goes on: what is measured, and what follows from it."""
