"""What to try next, what to end early, and what a sampler is told of runs that ended badly."""
