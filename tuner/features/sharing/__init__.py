"""A trained agent as one file for others: packed by `tuner push`, unpacked by `tuner pull`, played as any run."""
