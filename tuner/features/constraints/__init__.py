"""Constraints: what a configuration must hold to be chosen, such as a limit of seconds or of parameters."""
