"""The same agent; its fifth argument says in how many environments it acts."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.examples.pytorch.MADDPG import DDPG

__all__ = ["DDPG"]
