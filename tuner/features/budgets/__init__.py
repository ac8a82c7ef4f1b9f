"""The value of longer runs: a study for each of several budgets of steps, and which of them pays."""
