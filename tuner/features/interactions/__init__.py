"""Which parameters of a study act together."""
