"""Input that nobody would type, and files that nobody would write: what the commands make of them.

Shared by the short fuzz among the ordinary tests and the long one in tests/benchmarks/fuzz_input.py.
"""
