"""Files in the form of those of RL Baselines3 Zoo, with everything that stands in one; the numbers are ours."""

from pathlib import Path
from typing import Final

PPO: Final = """
default: &base
  n_timesteps: !!float 2e4
  policy: 'MlpPolicy'

atari:
  env_wrapper:
    - stable_baselines3.common.atari_wrappers.AtariWrapper
  frame_stack: 4
  policy: 'CnnPolicy'
  n_envs: 4
  n_steps: 64
  n_epochs: 2
  batch_size: 32
  n_timesteps: !!float 3e5
  learning_rate: lin_1.5e-4
  clip_range: lin_0.15

CartPole-v1:
  n_envs: 4
  n_timesteps: !!float 3e4
  policy: 'MlpPolicy'
  n_steps: 16
  batch_size: 64
  gae_lambda: 0.9
  gamma: 0.97
  n_epochs: 5
  learning_rate: lin_0.002
  clip_range: 0.25

Pendulum-v1:
  <<: *base
  normalize: "dict(norm_obs=True, norm_reward=False)"
  n_envs: 2
  clip_range: lin_0.3
  ent_coef: 0.002
  policy_kwargs: "dict(log_std_init=-1,
                       ortho_init=False,
                       activation_fn=nn.ELU,
                       net_arch=dict(pi=[32], vf=[48, 48])
                       )"

MountainCarContinuous-v0:
  <<: *base
  normalize: true
  n_steps: 8
  batch_size: 256
  learning_rate: 7e-5
  use_sde: True
  sde_sample_freq: 4
  target_kl: 0.02
  policy_kwargs: "dict(log_std_init=-3, net_arch=[64])"
  env_wrapper: my_wrappers.Shaped
  env_kwargs: {goal_velocity: 0.01}

Unknown-v7:
  <<: *base
  max_grad_norm: -1
  clip_range_vf: 0.3
  callback: my.Callback
"""
A2C: Final = """
default:
  n_timesteps: !!float 1e4
  policy: 'MlpPolicy'
Acrobot-v1:
  n_envs: 8
  n_timesteps: !!float 5e4
  policy: 'MlpPolicy'
  ent_coef: .0
  use_rms_prop: False
  learning_rate: lin_7e-4
  policy_kwargs: "dict(optimizer_class=RMSpropTFLike, optimizer_kwargs=dict(eps=1e-4))"
Pendulum-v1:
  n_envs: 4
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 16
  use_sde: True
  policy_kwargs: "dict(log_std_init=-2, ortho_init=False, full_std=False, use_expln=True)"
"""
DQN: Final = """
CartPole-v1:
  n_timesteps: !!float 5e4
  policy: 'MlpPolicy'
  learning_rate: !!float 2.3e-3
  batch_size: 64
  buffer_size: 100000
  learning_starts: 1000
  gamma: 0.99
  target_update_interval: 10
  train_freq: 256
  gradient_steps: 128
  exploration_fraction: 0.16
  exploration_final_eps: 0.04
  policy_kwargs: "dict(net_arch=[256, 256])"
MountainCar-v0:
  n_timesteps: !!float 1.2e5
  policy: 'MlpPolicy'
  learning_rate: lin_4e-3
  train_freq: [16, step]
  gradient_steps: -1
  n_envs: 2
"""
SAC: Final = """
Pendulum-v1:
  n_timesteps: 20000
  policy: 'MlpPolicy'
  learning_rate: !!float 1e-3
  ent_coef: 'auto_0.1'
MountainCarContinuous-v0:
  n_timesteps: !!float 5e4
  policy: 'MlpPolicy'
  ent_coef: 0.1
  target_entropy: -2
  train_freq: [1, "episode"]
  gradient_steps: -1
  policy_kwargs: "dict(n_critics=1, net_arch=dict(pi=[64], qf=[128]))"
  env_wrapper:
    - sb3_contrib.common.wrappers.TimeFeatureWrapper
BipedalWalker-v3:
  n_timesteps: !!float 5e5
  policy: 'MlpPolicy'
  learning_starts: 500
  train_freq: 64
  gradient_steps: 64
  use_sde: True
  use_sde_at_warmup: True
  policy_kwargs: "dict(log_std_init=-3.5, clip_mean=1.5, net_arch=[400, 300])"
"""
TD3: Final = """
Pendulum-v1:
  n_timesteps: 20000
  policy: 'MlpPolicy'
  gamma: 0.98
  noise_type: 'normal'
  noise_std: 0.1
  gradient_steps: -1
  train_freq: 1
MountainCarContinuous-v0:
  n_timesteps: 20000
  policy: 'MlpPolicy'
"""
DDPG: Final = """
MountainCarContinuous-v0:
  n_timesteps: 300000
  policy: 'MlpPolicy'
  noise_type: 'ornstein-uhlenbeck'
  noise_std: 0.5
"""
TRPO: Final = """
CartPole-v1:
  n_envs: 2
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 512
  batch_size: 512
  cg_damping: !!float 1e-3
  n_critic_updates: 20
  sub_sampling_factor: 2
Pendulum-v1:
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
"""
QRDQN: Final = """
CartPole-v1:
  n_timesteps: !!float 5e4
  policy: 'MlpPolicy'
  learning_rate: lin_2.3e-3
  batch_size: 64
  target_update_interval: 10
  exploration_fraction: 0.16
  policy_kwargs: "dict(net_arch=[256, 256], n_quantiles=10)"
LunarLander-v3:
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  learning_rate: lin_1.5e-3
  batch_size: 128
  exploration_fraction: 0.24
  policy_kwargs: "dict(net_arch=[256, 256], n_quantiles=170)"
"""
CROSSQ: Final = """
Pendulum-v1:
  n_timesteps: 20000
  policy: 'MlpPolicy'
  policy_delay: 2
  policy_kwargs: "dict(n_critics=3, net_arch=[128, 128])"
MountainCarContinuous-v0:
  n_timesteps: 50000
  policy: 'MlpPolicy'
  train_freq: 32
  gradient_steps: 32
  use_sde: True
"""
TQC: Final = """
Pendulum-v1:
  n_timesteps: 20000
  policy: 'MlpPolicy'
  learning_rate: !!float 1e-3
  top_quantiles_to_drop_per_net: 3
  policy_kwargs: "dict(n_critics=5, n_quantiles=20, net_arch=[400, 300])"
MountainCarContinuous-v0:
  n_timesteps: !!float 5e4
  policy: 'MlpPolicy'
  train_freq: 32
  gradient_steps: 32
  use_sde: True
  policy_kwargs: "dict(log_std_init=-3.67, n_critics=2)"
"""
FILES: Final = {
    "ppo": PPO,
    "a2c": A2C,
    "dqn": DQN,
    "sac": SAC,
    "td3": TD3,
    "ddpg": DDPG,
    "trpo": TRPO,
    "crossq": CROSSQ,
    "tqc": TQC,
    "qrdqn": QRDQN,
}


def write_zoo(folder: Path) -> Path:
    """The files as the installed package has them. Returns the folder of the package."""
    package = folder / "rl_zoo3"
    (package / "hyperparams").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it is not to be imported')\n")
    for algorithm, text in FILES.items():
        (package / "hyperparams" / f"{algorithm}.yml").write_text(text)
    return package
