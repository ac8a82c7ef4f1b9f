"""The built-in algorithms, a folder for each: what it takes, and the agent in each framework."""
