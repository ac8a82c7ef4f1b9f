"""What the runs of a study tell besides who won: pure functions over its records."""
