"""Settings that messages of several parts are about."""

from note_rl.errors.wording import SettingName

PPO, SEQUENCES, PR, HER, TRL, IRL, MARL, OFFLINE = (
    SettingName(name, name) for name in ("PPO", "sequences", "PR", "HER", "TRL", "IRL", "MARL", "offline")
)
DATASET = SettingName("dataset", "dataset", "ReplaySettings")
FRAME_STACK = SettingName("frame_stack", "frame_stack", "ReplaySettings")
TARGET_KL = SettingName("target_kl", "target_kl", "RolloutSettings")
NUM_ENVS = SettingName("num_envs", "num_envs", "Settings")
PROCESSES = SettingName("processes", "processes", "WorkerSettings")
POOL_NETWORK = SettingName("pool_network", "pool_network")
MATMUL = SettingName("matmul", "matmul", "Settings")
DEVICE = SettingName("device", "device", "Settings")
JIT_COMPILE = SettingName("jit_compile", "jit_compile", "TrainOptions")
