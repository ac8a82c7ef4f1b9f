"""Several objectives: in place of a winner a Pareto front, each of whose configurations is the best for somebody."""
