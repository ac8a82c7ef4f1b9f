import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy.noise import ClippedNoise, GaussianWhiteNoiseProcess, NoiseSum, OrnsteinUhlenbeckProcess


def rng(seed=0):
    return np.random.default_rng(seed)


def run(noise, num_steps, shape, seed=0):
    generator = rng(seed)
    return np.stack([noise.draw(shape, generator) for _ in range(num_steps)])  # [T, E, A]


def test_white_noise_is_normal_and_independent():
    noise = run(GaussianWhiteNoiseProcess(mu=0.5, sigma=2.0), 2000, (4, 3))
    assert noise.mean() == pytest.approx(0.5, abs=0.05)
    assert noise.std() == pytest.approx(2.0, abs=0.05)
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.03  # over time
    assert abs(np.corrcoef(noise[:, 0].ravel(), noise[:, 1].ravel())[0, 1]) < 0.05  # between environments
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.05  # between numbers of the action


@pytest.mark.parametrize(
    "make", [GaussianWhiteNoiseProcess, lambda **options: OrnsteinUhlenbeckProcess(0.15, **options)]
)
def test_annealing_counts_the_steps_of_all_environments(make):
    noise = make(sigma=1.0, sigma_min=0.2, n_steps_annealing=100)
    seen = []
    for _ in range(6):
        seen.append(noise.current_sigma)
        noise.draw((25, 1), rng())
    np.testing.assert_allclose(seen, [1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert make(sigma=0.7).current_sigma == 0.7


def test_the_annealed_deviation_is_the_one_drawn_with():
    noise = GaussianWhiteNoiseProcess(sigma=1.0, sigma_min=0.1, n_steps_annealing=1)
    assert noise.draw((20_000, 1), rng()).std() == pytest.approx(1.0, abs=0.02)
    assert noise.draw((20_000, 1), rng()).std() == pytest.approx(0.1, abs=0.002)


def test_ornstein_uhlenbeck_against_its_recursion():
    theta, mu, sigma, dt = 0.3, 0.5, 0.2, 0.1
    found = run(OrnsteinUhlenbeckProcess(theta, mu, sigma, dt), 50, (2, 3), seed=4)
    generator = rng(4)
    x = mu + sigma * generator.standard_normal((2, 3))
    for row in found:
        x = x + theta * (mu - x) * dt + sigma * np.sqrt(dt) * generator.standard_normal((2, 3))
        np.testing.assert_allclose(row, x)


def test_ornstein_uhlenbeck_settles_at_its_own_deviation_and_memory():
    theta, sigma, dt = 0.2, 0.5, 1.0
    late = run(OrnsteinUhlenbeckProcess(theta, 1.0, sigma, dt), 4000, (20, 1))[200:]
    assert late.mean() == pytest.approx(1.0, abs=0.03)
    assert late.std() == pytest.approx(sigma / np.sqrt(theta * (2 - theta * dt)), rel=0.03)
    correlation = np.corrcoef(late[:-1].ravel(), late[1:].ravel())[0, 1]
    assert correlation == pytest.approx(1 - theta * dt, abs=0.02)


def test_a_new_episode_starts_anew_there_and_nowhere_else():
    noise = OrnsteinUhlenbeckProcess(theta=1e-6, mu=100.0, sigma=1e-3)
    noise.draw((3, 2), rng())
    noise._x[:] = 0.0
    noise.reset(np.array([1]))
    after = noise.draw((3, 2), rng())
    np.testing.assert_allclose(after[[0, 2]], np.zeros((2, 2)), atol=0.01)
    np.testing.assert_allclose(after[1], [100.0, 100.0], atol=0.01)


def test_single_vector_form():
    noise = OrnsteinUhlenbeckProcess(theta=0.15, mu=0.0, sigma=0.3, dt=1e-2, size=3)
    first = noise.sample()
    assert first.shape == (3,)
    assert np.abs(noise.sample() - first).max() < 0.3  # it wanders
    noise.reset_states()
    assert noise._starts.all()
    assert GaussianWhiteNoiseProcess(size=2).sample().shape == (2,)


def test_sum_and_clipping():
    wandering, white = OrnsteinUhlenbeckProcess(0.15, sigma=0.1), GaussianWhiteNoiseProcess(sigma=0.5)
    total = run(wandering + white, 3, (2, 1), seed=1)
    generator = rng(1)
    first = OrnsteinUhlenbeckProcess(0.15, sigma=0.1)
    expected = [first.draw((2, 1), generator) + 0.5 * generator.standard_normal((2, 1)) for _ in range(3)]
    np.testing.assert_allclose(total, np.stack(expected))
    clipped = run(ClippedNoise(GaussianWhiteNoiseProcess(sigma=1.0), 0.5), 1000, (1, 1))
    assert clipped.max() == 0.5
    assert clipped.min() == -0.5
    assert np.mean(np.abs(clipped) == 0.5) == pytest.approx(0.617, abs=0.05)  # P(|N(0, 1)| > 0.5)


def test_state_brings_every_part_back_bit_for_bit():
    def make():
        walk = OrnsteinUhlenbeckProcess(0.15, sigma=1.0, sigma_min=0.1, n_steps_annealing=40)
        return ClippedNoise(NoiseSum([walk, GaussianWhiteNoiseProcess(sigma_min=0.0, n_steps_annealing=30)]), 0.8)

    noise, other = make(), make()
    run(noise, 5, (3, 2))
    noise.reset(np.array([2]))
    other.set_state({name: array.copy() for name, array in noise.get_state().items()})
    np.testing.assert_array_equal(run(noise, 9, (3, 2), seed=7), run(other, 9, (3, 2), seed=7))
    fresh = make()
    fresh.set_state(make().get_state())  # before the first step there is nothing but counts
    np.testing.assert_array_equal(run(fresh, 2, (1, 1)), run(make(), 2, (1, 1)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianWhiteNoiseProcess(sigma=-1.0),
        lambda: GaussianWhiteNoiseProcess(sigma=0.1, sigma_min=0.2),
        lambda: GaussianWhiteNoiseProcess(n_steps_annealing=0),
        lambda: GaussianWhiteNoiseProcess(size=0),
        lambda: OrnsteinUhlenbeckProcess(theta=0.0),
        lambda: OrnsteinUhlenbeckProcess(theta=3.0, dt=1.0),
        lambda: ClippedNoise(GaussianWhiteNoiseProcess(), 0.0),
    ],
)
def test_values_out_of_range_are_refused(make):
    with pytest.raises(SettingsError, match="got"):
        make()
