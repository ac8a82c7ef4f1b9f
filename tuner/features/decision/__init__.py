"""What chooses the winner of a study: the scores of confirmation, all runs of a candidate, or a model of all runs."""
