"""Gradient steps that several devices, processes or machines take together."""
