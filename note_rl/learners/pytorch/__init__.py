"""The learner of agents written in PyTorch: `learner` is the door, `optimizer_step` what follows a loss."""

from note_rl.support.triton import settle_triton

settle_triton()
