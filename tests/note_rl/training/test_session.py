"""The account that is kept of one call of train()."""

from note_rl.training.session import RecentReturns


def test_the_mean_is_that_of_the_last_episodes_once_there_are_enough() -> None:
    recent = RecentReturns(2, 3.0, [9.0])
    assert recent.mean() is None
    assert not recent.good_enough
    recent.add(1.0)
    assert recent.mean() == 5.0
    assert recent.good_enough
    recent.add(2.0)
    assert recent.mean() == 1.5
    assert not recent.good_enough
    recent.replace([4.0, 2.0, 6.0])
    assert list(recent) == [2.0, 6.0]
    assert recent.mean() == 4.0
    recent.replace([])
    assert recent.mean() is None
