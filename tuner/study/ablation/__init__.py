"""From the default configuration to the winner of a study, step by step."""
