"""Settings that messages of several parts are about."""

from note_rl.wording import Setting

PPO, SEQUENCES, PR, HER, TRL, IRL, MARL, OFFLINE = (
    Setting(name, name) for name in ("PPO", "sequences", "PR", "HER", "TRL", "IRL", "MARL", "offline")
)
DATASET = Setting("dataset", "dataset", "ReplaySettings")
FRAME_STACK = Setting("frame_stack", "frame_stack", "ReplaySettings")
TARGET_KL = Setting("target_kl", "target_kl", "RolloutSettings")
NUM_ENVS = Setting("num_envs", "num_envs", "Settings")
