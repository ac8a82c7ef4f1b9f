# ruff: noqa: NPY002 - somebody else's program, as single-file implementations of PPO are written
"""PPO for discrete actions in one file, which imports nothing of `tuner`: the flags and names are those of CleanRL."""

import argparse
import json
import random
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions.categorical import Categorical


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=50_000)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=4)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.5)
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    parser.add_argument("--anneal-lr", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--log", choices=("jsonl", "tensorboard"), default="jsonl")
    return parser.parse_args()


def layer_init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    def __init__(self, num_obs: int, num_actions: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(num_obs, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 1), 1.0),
        )  # fmt: skip
        self.actor = nn.Sequential(
            layer_init(nn.Linear(num_obs, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, num_actions), 0.01),
        )  # fmt: skip

    def policy(self, obs: torch.Tensor) -> Categorical:
        return Categorical(logits=self.actor(obs))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(obs).squeeze(-1)


class Writer:
    """`add_scalar` into runs/NAME, as TensorBoard's or as lines of JSON."""

    def __init__(self, kind: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.board = None
        if kind == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder))
        else:
            self.file = (folder / "metrics.jsonl").open("w")

    def add_scalar(self, name: str, value: float, step: int) -> None:
        if self.board is not None:
            self.board.add_scalar(name, value, step)
            self.board.flush()
        else:
            print(json.dumps({"global_step": step, name: value}), file=self.file, flush=True)


def main() -> None:
    args = parse_args()
    writer = Writer(args.log, Path("runs") / f"{args.env_id}__{args.seed}__{int(time.time())}")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id)) for _ in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    agent = Agent(int(np.prod(envs.single_observation_space.shape)), envs.single_action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, *envs.single_observation_space.shape))
    actions, logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))

    global_step, start = 0, time.time()
    next_obs = torch.tensor(envs.reset(seed=args.seed)[0])
    next_done = torch.zeros(args.num_envs)
    batch_size = args.num_envs * args.num_steps
    num_iterations = args.total_timesteps // batch_size
    for iteration in range(1, num_iterations + 1):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1) / num_iterations) * args.learning_rate
        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                policy = agent.policy(next_obs)
                action = policy.sample()
                logprobs[step], values[step] = policy.log_prob(action), agent.value(next_obs)
            actions[step] = action
            new_obs, reward, terminated, truncated, infos = envs.step(action.numpy())
            rewards[step] = torch.tensor(reward)
            next_obs, next_done = torch.tensor(new_obs), torch.tensor(terminated | truncated).float()
            if "final_info" in infos:
                returns = infos["final_info"]["episode"]["r"][infos["final_info"]["_episode"]]
                writer.add_scalar("charts/episodic_return", float(returns.mean()), global_step)
        with torch.no_grad():
            next_value, advantages, last = agent.value(next_obs), torch.zeros(shape), torch.zeros(args.num_envs)
            for t in reversed(range(args.num_steps)):
                alive = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
                following = next_value if t == args.num_steps - 1 else values[t + 1]
                delta = rewards[t] + args.gamma * following * alive - values[t]
                advantages[t] = last = delta + args.gamma * args.gae_lambda * alive * last
            b_returns = (advantages + values).flatten()
        b_obs, b_actions = obs.flatten(0, 1), actions.flatten()
        b_logprobs, b_advantages = logprobs.flatten(), advantages.flatten()
        loss = torch.zeros(())
        for _ in range(args.update_epochs):
            for rows in torch.randperm(batch_size).chunk(args.num_minibatches):
                policy = agent.policy(b_obs[rows])
                ratio = (policy.log_prob(b_actions[rows]) - b_logprobs[rows]).exp()
                advantage = b_advantages[rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
                v_loss = 0.5 * (agent.value(b_obs[rows]) - b_returns[rows]).square().mean()
                loss = pg_loss - args.ent_coef * policy.entropy().mean() + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        writer.add_scalar("losses/total_loss", float(loss.detach()), global_step)
        writer.add_scalar("charts/SPS", global_step / (time.time() - start), global_step)
    envs.close()


if __name__ == "__main__":
    main()
