"""Behaviour cloning in Keras (Pomerleau 1991, https://doi.org/10.1162/neco.1991.3.1.88)."""

from collections.abc import Sequence
from types import MappingProxyType

import tensorflow as tf

from note_rl.agents.keras.actor_critic import ActorCritic
from note_rl.agents.keras.networks import MakeNetwork
from note_rl.environments import EnvLike


class BC(ActorCritic):
    """Does what an expert did in the same situation; for discrete and for continuous actions.

    It learns from a data set alone, `set(dataset=...)`, and nothing of the rewards in it. There is a network of the
    value as well, which does not learn, so that PPO, A2C and TRPO can start from the weights of both.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions to choose one of.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        entropy_coef: Weight of the entropy bonus.
        initial_log_std: Log deviation of continuous actions at the start; it is learned, the same for all states.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live, as TensorFlow names it.
    """

    on_policy = False
    set_defaults = MappingProxyType({"offline": True, "pool_size": 1_000_000, "train_freq": 100, "num_updates": 100})

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        entropy_coef: float = 0.0,
        initial_log_std: float = 0.0,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            state_dim,
            hidden_size,
            action_dim,
            env=env,
            network=network,
            entropy_coef=entropy_coef,
            initial_log_std=initial_log_std,
            frame_stack=frame_stack,
            device=device,
        )
        self.param = [*self.actor.trainable_variables, *([] if self.log_std is None else [self.log_std])]

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: -log pi(a|s), the least for the most likely policy, minus the entropy bonus.

        Of several actions it is the cross-entropy; of a normal distribution the squared error in units of its
        deviation, and the logarithm of that (Bishop 2006, Pattern Recognition and Machine Learning, section 5.2).
        """
        log_prob, entropy = self.log_prob_and_entropy(s, a)
        self.report(entropy=entropy, log_likelihood=log_prob)
        return -log_prob - self.entropy_coef * entropy
