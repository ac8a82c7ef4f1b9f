"""Rules that choose the winner: the scores of confirmation, all runs of a candidate, or a model of all runs."""
