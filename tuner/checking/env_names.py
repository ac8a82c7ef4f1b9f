"""Names of environments as others give them: ids of Gymnasium and games of Atari in the place of our choices."""

import re
from typing import Final

GROUP: Final = "env"

_GAMES: Final = """
adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist basic_math
battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede chopper_command
crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk earthworld elevator_action enduro
entombed et fishing_derby flag_capture freeway frogger frostbite galaxian gopher gravitar hangman haunted_house hero
human_cannonball ice_hockey jamesbond journey_escape kaboom kangaroo keystone_kapers king_kong klax koolaid krull
kung_fu_master laser_gates lost_luggage mario_bros miniature_golf montezuma_revenge mr_do ms_pacman name_this_game
othello pacman phoenix pitfall pitfall2 pong pooyan private_eye qbert riverraid road_runner robotank seaquest
sir_lancelot skiing solaris space_invaders space_war star_gunner superman surround tennis tetris tic_tac_toe_3d
time_pilot trondead turmoil tutankham up_n_down venture video_checkers video_chess video_cube video_pinball
wizard_of_wor word_zapper yars_revenge zaxxon
"""
"""As ALE calls them, which is known without the extra, too."""

GAMES: Final = tuple(_GAMES.split())

_MINATAR: Final = re.compile(r"MinAtar/(Asterix|Breakout|Freeway|Seaquest|SpaceInvaders)-v[01]")
_ATARI: Final = re.compile(r"(?:ALE/|Atari/)?(\w+?)(?:-ram)?(?:NoFrameskip|Deterministic)?(?:-v[045])?")
_ID: Final = re.compile(r"[\w.:/-]+-v\d+")


def as_typed_here(name: str) -> str | None:
    """The override that selects an environment known elsewhere by that name; None: the name is unknown.

    Args:
        name: Such as `Pong`, `PongNoFrameskip-v4`, `ALE/Pong-v5` or `HalfCheetah-v5`.
    """
    game = _ATARI.fullmatch(name)
    known = {known.replace("_", ""): known for known in GAMES}
    if game is not None and (meant := known.get(game[1].replace("_", "").lower())):
        return f"env=atari env.game={meant}"
    if (small := _MINATAR.fullmatch(name)) is not None:
        return f"env=minatar env.game={known[small[1].lower()]}"
    return f"env.id={name}" if _ID.fullmatch(name) else None
