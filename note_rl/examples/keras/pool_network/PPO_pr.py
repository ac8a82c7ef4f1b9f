"""Proximal policy optimization with prioritized minibatches: the same agent, with set(PPO=True, PR=True)."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.examples.keras.pool_network.PPO import PPO

__all__ = ["PPO"]
