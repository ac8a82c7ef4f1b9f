"""Training: `agent` is what users call, `trainer` the loop, and beside them what is saved, restored and drawn."""
