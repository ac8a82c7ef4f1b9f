"""Names of environments in other libraries."""

import pytest

from note_rl.environments.atari import GAMES as PLAYED
from tuner.checking.env_names import GAMES, as_typed_here


def test_all_games_are_known_by_name() -> None:
    assert tuple(sorted(GAMES)) == tuple(PLAYED)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("SpaceInvaders", "env=atari env.game=space_invaders"),
        ("space_invaders", "env=atari env.game=space_invaders"),
        ("UpNDownDeterministic-v4", "env=atari env.game=up_n_down"),
        ("Breakout-ramNoFrameskip-v4", "env=atari env.game=breakout"),
        ("ALE/TicTacToe3D-v5", "env=atari env.game=tic_tac_toe_3d"),
        ("MinAtar/SpaceInvaders-v1", "env=minatar env.game=space_invaders"),
        ("Blackjack-v1", "env.id=Blackjack-v1"),
        ("my_pkg:MyEnv-v0", "env.id=my_pkg:MyEnv-v0"),
        ("cartpol", None),
    ],
)
def test_names_of_others_are_turned_into_what_is_typed_here(name: str, typed: str | None) -> None:
    assert as_typed_here(name) == typed
