"""Rules of a configuration: its schema, the signatures of the classes in it, and the ranges of numbers."""
