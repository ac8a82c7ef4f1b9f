"""The built-in algorithms, one readable file per algorithm and framework."""
