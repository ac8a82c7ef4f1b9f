"""Several environments: one configuration is trained in each, on one scale, and judged by the mean."""
