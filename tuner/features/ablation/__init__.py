"""From the default configuration of a study to its winner, one change at a time; and how far each may move."""
