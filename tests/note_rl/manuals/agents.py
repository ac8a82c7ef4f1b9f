"""The manuals' chapter on building an agent: as printed, and with what keeps it from learning corrected."""

from typing import Any

import gymnasium


def keras_dqn(as_printed: bool = False, env: Any = "CartPole-v1") -> Any:
    """The Keras agent. The chapter shows no Qnet; this one has what the chapter uses of it."""
    import keras
    import tensorflow as tf

    import note_rl

    class Qnet(keras.Model):
        def __init__(self, state_dim, hidden_dim, action_dim):
            super().__init__()
            self.layer1 = keras.layers.Dense(hidden_dim, activation="relu")
            self.layer2 = keras.layers.Dense(action_dim)
            self(tf.zeros((1, state_dim)))

        @property
        def param(self):
            return self.trainable_variables

        def call(self, x):
            return self.layer2(self.layer1(x))

    class DQN(note_rl.RL):
        def __init__(self, state_dim, hidden_dim, action_dim):
            super().__init__()
            self.q_net = Qnet(state_dim, hidden_dim, action_dim)
            self.target_q_net = Qnet(state_dim, hidden_dim, action_dim)
            self.param = self.q_net.param
            self.env = env

        def action(self, s):
            return self.q_net(s)

        def __call__(self, s, a, next_s, r, d):
            q = tf.gather(self.q_net(s), a[:, None], axis=1, batch_dims=1)  # [B, 1]
            chosen = tf.argmax(self.q_net(next_s), axis=1, output_type=tf.int32)[:, None]
            next_q = tf.gather(self.target_q_net(next_s), chosen, axis=1, batch_dims=1)  # [B, 1]
            if not as_printed:
                q, next_q = q[:, 0], next_q[:, 0]
            target = r + 0.99 * next_q * (1.0 - d)  # as printed [B, B]: r and d are [B]
            return tf.reduce_mean(tf.square(q - tf.stop_gradient(target)))

        def update_param(self):
            for target, param in zip(self.target_q_net.param, self.q_net.param, strict=True):
                target.assign(0.005 * param + 0.995 * target)

    return DQN


def pytorch_dqn(as_printed: bool = False, env: Any = "CartPole-v1") -> Any:
    """The same in PyTorch."""
    import torch
    from torch import nn

    import note_rl

    class Qnet(nn.Module):
        def __init__(self, state_dim, hidden_dim, action_dim):
            super().__init__()
            self.layer1 = nn.Linear(state_dim, hidden_dim)
            self.layer2 = nn.Linear(hidden_dim, action_dim)

        def forward(self, x):
            return self.layer2(torch.relu(self.layer1(x)))

    class DQN(note_rl.RL_pytorch):
        def __init__(self, state_dim, hidden_dim, action_dim):
            super().__init__()
            self.q_net = Qnet(state_dim, hidden_dim, action_dim)
            self.target_q_net = Qnet(state_dim, hidden_dim, action_dim)
            self.param = list(self.q_net.parameters())
            self.env = env

        def action(self, s):
            return self.q_net(s)

        def __call__(self, s, a, next_s, r, d):
            q = self.q_net(s).gather(1, a[:, None])  # [B, 1]
            with torch.no_grad():
                chosen = self.q_net(next_s).argmax(1, keepdim=True)
                next_q = self.target_q_net(next_s).gather(1, chosen)  # [B, 1]
            if not as_printed:
                q, next_q = q[:, 0], next_q[:, 0]
            target = r + 0.99 * next_q * (1.0 - d)  # as printed [B, B]: r and d are [B]
            return (q - target).square().mean()

        def update_param(self):
            for target, param in zip(self.target_q_net.parameters(), self.q_net.parameters(), strict=True):
                target.mul_(0.995).add_(0.005 * param)

    return DQN


def dqn(package: str, as_printed: bool = False, env: Any = "CartPole-v1") -> Any:
    """The class of that framework."""
    return (pytorch_dqn if package == "pytorch" else keras_dqn)(as_printed, env)


def environment_without_time_limit() -> gymnasium.Env[Any, Any]:
    """The environment that `gym.make(...).env` of the manuals gives."""
    return gymnasium.make("CartPole-v1").unwrapped
