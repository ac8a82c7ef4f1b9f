"""A benchmark: several agents or settings in several environments, on the same seeds, pooled on one scale."""
