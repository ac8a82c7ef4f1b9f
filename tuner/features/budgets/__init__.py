"""What longer runs are worth: a study for each of several budgets of steps, and which of them pays."""
