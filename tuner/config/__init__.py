"""What a configuration may say: its schema, the signatures of what it names, and the ranges of numbers."""
