"""The coordination game by hand, and as PettingZoo checks it."""

import warnings

from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments.multi_agent import joint_environments
from note_rl.examples.coordination import CoordinationGame


def test_the_coordination_game_by_hand():
    env = CoordinationGame(num_buttons=4, num_signs=3, length=3)
    seen, _ = env.reset(seed=5)
    sign = int(seen["left"].argmax())
    rewards = []
    for buttons in [(1, (sign - 1) % 4), None, (4, 0)]:
        if buttons is None:
            buttons = (1, int(seen["left"].argmax()))  # one more than the sign
        seen, reward, terminated, truncated, _ = env.step(dict(zip(env.possible_agents, buttons, strict=True)))
        rewards.append(reward["right"])
    assert rewards == [1.0, -1.0, 0.1]
    assert not any(terminated.values())
    assert all(truncated.values())
    assert env.render().shape == (120, 160, 3)


def test_the_coordination_game_keeps_to_pettingzoos_interface():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of PettingZoo, about its own environments
        from pettingzoo.test import parallel_api_test, parallel_seed_test
    parallel_api_test(CoordinationGame(), 50)
    parallel_seed_test(CoordinationGame, 50)


def test_what_random_players_get():
    # passing: 1 - (4/5)^2 = 0.36; else a quarter of the pairs win: 0.36*0.1 + 0.16 - 0.48 = -0.284, 20 times
    returns = random_policy_returns(joint_environments(CoordinationGame), 400, seed=0)
    assert abs(returns.mean() + 5.68) < 3 * returns.std() / 20
