"""Studies of jobs that each run once: Hydra sweeps, finders, grids."""
