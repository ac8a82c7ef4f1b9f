"""Algorithms of Stable-Baselines3 and sb3-contrib in the place of an agent (`agent=sb3`).

`sb3_algorithms.py` knows the algorithms without importing them, `sb3_policies.py` the arguments of their policies, and
`sb3_values.py` the values they take. `sb3_trainer.py` is what a run does, `sb3_grid.py` evaluates and saves while a
model learns, `sb3_state.py` is what of a model is saved, and `sb3_internals.py` holds the private names of these
libraries. `sbx_trainer.py` and `sbx_state.py` are what differs for SBX, whose networks are in JAX
(`agent.library=sbx`).
"""
