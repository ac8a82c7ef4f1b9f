"""What to try next, what to end early, and what a sampler gets for runs that ended badly."""
