import logging
from dataclasses import replace

import numpy as np
import pytest

from note_rl.environments.goals import GoalLayout
from note_rl.errors import AgentContractError
from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.hindsight import GoalFunctions, GoalReward, HindsightReader, goal_functions
from note_rl.replay.samplers import PrioritizedSampler
from note_rl.settings.replay_choices import Hindsight, Priority
from note_rl.types import Steps
from tests.note_rl.replay.story import stored_in_pieces

RNG = np.random.default_rng


def reward_done(achieved, desired):
    done = (achieved == desired).all(axis=-1)
    return np.where(done, 0.0, -1.0), done


def goal_story(rng, num_steps, num_envs):
    """obs = (number, desired goal); what step n achieves is n + 0.25, so that every goal tells where it came from."""
    number = np.arange(num_steps * num_envs, dtype=np.float32).reshape(num_steps, num_envs)
    ended = rng.random(number.shape) < 0.15
    desired = np.full_like(number, -7.0)
    return Steps(
        obs=np.stack([number, desired], axis=-1),
        action=number.astype(np.int64),
        reward=np.full_like(number, -1.0),
        next_obs=np.stack([number + 0.5, desired], axis=-1),
        terminated=np.zeros_like(ended),
        ended=ended,
        extras={"achieved_goal": number[..., None] + 0.25},
    )


def parts(strategy="future", fraction=1.0, priority=None):
    episodes = EpisodeIndex()
    goals = GoalFunctions(reward_done=reward_done)
    reader = HindsightReader(Hindsight(strategy=strategy, fraction=fraction), goals, episodes)
    sampler = None if priority is None else PrioritizedSampler(priority)
    return Parts(reader=reader, episodes=episodes, sampler=sampler, chained=True)


def episode_of(story, number):
    """Numbers of the steps of the episode that step `number` belongs to."""
    num_envs = story.ended.shape[1]
    t, e = divmod(number, num_envs)
    begin = t
    while begin > 0 and not story.ended[begin - 1, e]:
        begin -= 1
    end = t
    while not story.ended[end, e] and end + 1 < len(story.ended):
        end += 1
    return [step * num_envs + e for step in range(begin, end + 1)]


@pytest.mark.parametrize("priority", [None, Priority()])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_come_from_the_same_episode_and_the_rest_follows(strategy, priority):
    rng = RNG(0)
    story = goal_story(rng, 70, 3)
    buffer = stored_in_pieces(story, 100, parts(strategy, priority=priority), rng)
    sample = buffer.sample((50, 32), 0.9, np.zeros(50, bool), rng)
    achieved_here = 0
    sources = {}
    for place in np.ndindex(50, 32):
        number, source = int(sample.action[place]), round(float(sample.obs[(*place, 1)]) - 0.25)
        episode = [step for step in episode_of(story, number) if step >= 210 - 100]  # what is stored of it
        allowed = {"future": [s for s in episode if s >= number], "final": episode[-1:], "episode": episode}[strategy]
        assert source in allowed
        sources.setdefault(number, set()).add(source)
        achieved = source == number
        achieved_here += achieved
        assert sample.reward[place] == (0.0 if achieved else -1.0)
        assert sample.terminated[place] == achieved
        np.testing.assert_allclose(sample.discount[place], 0.0 if achieved else 0.9)
        assert sample.next_obs[(*place, 0)] == number + 0.5
        assert sample.next_obs[(*place, 1)] == sample.obs[(*place, 1)]
        assert sample.obs[(*place, 0)] == number
    assert achieved_here
    if strategy == "future":  # all of them are reached
        later = {n: {s for s in episode_of(story, n) if s >= n} for n in sources}
        assert any(sources[n] == later[n] and len(later[n]) > 2 for n in sources)
    assert (sample.weights is None) == (priority is None)


def test_the_share_of_new_goals_is_the_one_asked_for():
    buffer = ReplayBuffer(400, parts(fraction=0.8))
    buffer.add(goal_story(RNG(0), 100, 4))
    sample = buffer.sample((100, 100), 0.9, np.zeros(100, bool), RNG(1))
    changed = sample.obs[..., 1] != -7.0
    np.testing.assert_allclose(changed.mean(), 0.8, atol=0.02)
    assert (sample.reward[~changed] == -1.0).all()


def test_the_pool_itself_keeps_its_goals():
    buffer = ReplayBuffer(400, parts())
    buffer.add(goal_story(RNG(0), 20, 2))
    buffer.sample((5, 50), 0.9, np.zeros(5, bool), RNG(1))
    assert (buffer.ring.obs(np.arange(40))[..., 1] == -7.0).all()
    assert (buffer.ring.column("reward", np.arange(40)) == -1.0).all()


def test_an_agent_can_say_what_is_achieved_and_where_a_goal_belongs():
    class Agent:
        def reward_done_func(self, achieved, desired):
            return reward_done(achieved, desired)

        def achieved_goal(self, s):
            return s[:, :1] * 10.0

        def with_goal(self, s, goal):
            return np.concatenate([s[:, :1], goal + 1000.0], axis=1)

    story = goal_story(RNG(0), 30, 1)
    story = Steps(story.obs, story.action, story.reward, story.next_obs, story.terminated, story.ended)
    episodes = EpisodeIndex()
    reader = HindsightReader(Hindsight(strategy="final", fraction=1.0), goal_functions(Agent(), None), episodes)
    buffer = ReplayBuffer(100, Parts(reader=reader, episodes=episodes))
    buffer.add(story)
    sample = buffer.sample((1, 50), 0.9, np.zeros(1, bool), RNG(1))
    for number, goal in zip(sample.action[0], sample.obs[0, :, 1], strict=True):
        assert goal == (episode_of(story, int(number))[-1] + 0.5) * 10.0 + 1000.0


def test_the_agents_function_wins_over_that_of_the_environment():
    class Agent:
        pass

    layout = GoalLayout(1, 1, lambda achieved, desired, info: -np.abs(achieved - desired)[:, 0], None)
    reward, done = goal_functions(Agent(), layout).reward_done(np.array([[1.0]]), np.array([[3.0]]))
    assert reward.tolist() == [-2.0]
    assert done.tolist() == [False]
    ending = GoalLayout(1, 1, layout.compute_reward, lambda achieved, desired, info: (achieved == desired)[:, 0])
    assert goal_functions(Agent(), ending).reward_done(np.zeros((1, 1)), np.zeros((1, 1)))[1].tolist() == [True]
    Agent.reward_done_func = lambda self, achieved, desired: reward_done(achieved, desired)
    assert goal_functions(Agent(), layout).reward_done(np.zeros((1, 1)), np.ones((1, 1)))[0].tolist() == [-1.0]
    assert goal_functions(object(), GoalLayout(1, 1, None)) is None


def test_a_function_for_one_pair_is_called_row_by_row_with_one_warning(caplog):
    def manual(achieved_goal, desired_goal):
        distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        done = distance < 0.05
        reward = -1.0 if not done else 0.0
        return reward, done

    one_by_one = GoalReward(manual)
    achieved, desired = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [0.0], [2.01]])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reward, done = one_by_one(achieved, desired)
    assert reward.tolist() == [0.0, -1.0, 0.0]
    assert done.tolist() == [True, False, True]
    assert len(caplog.records) == 1
    assert one_by_one(achieved[:1], desired[:1])[0].tolist() == [0.0]


def test_a_function_of_another_shape_is_refused():
    with pytest.raises(AgentContractError, match=r"one reward and one done per pair of goals, \[3\]"):
        GoalReward(lambda achieved, desired: (np.zeros(2), np.zeros(2)))(np.zeros((3, 1)), np.zeros((3, 1)))


def test_a_task_without_achieved_goals_is_refused():
    buffer = ReplayBuffer(10, parts())
    story = goal_story(RNG(0), 5, 1)
    buffer.add(Steps(story.obs, story.action, story.reward, story.next_obs, story.terminated, story.ended))
    with pytest.raises(AgentContractError, match="achieved_goal"):
        buffer.sample((1, 4), 0.9, np.zeros(1, bool), RNG(0))


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_an_end_that_no_goal_explains_stays_an_end(fraction, caplog):
    """As a fall; where the goal that was desired explains it, it depends on the goal."""
    rng = RNG(0)
    story = goal_story(rng, 70, 3)
    number = story.obs[..., 0]
    fell, reached = number % 7 == 3, number % 7 == 5
    story.obs[reached, 1] = story.next_obs[reached, 1] = number[reached] + 0.25  # what the step achieves
    story = replace(
        story,
        reward=np.where(reached, 0.0, -1.0).astype(np.float32),
        terminated=fell | reached,
        ended=story.ended | fell | reached,
    )
    buffer = stored_in_pieces(story, 210, parts("episode", fraction), rng)
    sample = buffer.sample((50, 32), 0.9, np.zeros(50, bool), rng)
    step, goal = sample.obs[..., 0], sample.obs[..., 1]
    expected = (step % 7 == 3) | (goal == step + 0.25)
    np.testing.assert_array_equal(sample.terminated, expected)
    np.testing.assert_allclose(sample.discount, np.where(expected, 0.0, 0.9))
    assert (sample.terminated[step % 7 == 5] == 0.0).any(), "another goal was not reached there"
    assert "hindsight mixes both" not in caplog.text


def test_other_rewards_than_those_of_hindsight_cause_a_warning(caplog):
    rng = RNG(0)
    story = goal_story(rng, 30, 2)
    buffer = stored_in_pieces(replace(story, reward=10.0 * story.reward), 60, parts(), rng)
    for _ in range(2):
        buffer.sample((2, 8), 0.9, np.zeros(2, bool), rng)
    assert caplog.text.count("gave a reward of -10 where its compute_reward, or reward_done_func, gives -1") == 1


def test_a_function_of_one_pair_of_two_numbers_is_called_pair_by_pair():
    def distance(achieved, desired):
        x, y = achieved
        return -abs(x - desired[0]) - 10.0 * abs(y - desired[1])

    achieved, desired = np.array([[0.0, 1.0], [2.0, 3.0]]), np.zeros((2, 2))
    reward, done = GoalReward(distance)(achieved, desired)
    np.testing.assert_allclose(reward, [-10.0, -32.0])
    assert not done.any()
