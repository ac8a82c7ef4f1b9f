"""Double DQN (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461)."""

from note_rl.agents.dqn import DQNSettings


class DoubleDQNSettings(DQNSettings):
    """DQN whose online network chooses the next action and whose target network says what it is worth.

    One network doing both takes the largest of several estimates, which is too large on average. The same as `DQN` with
    `double=True`.
    """

    double: bool = True
