"""Films of the trained agent: a window, a gif or single pictures (Pillow), or an mp4 file (moviepy, extra `video`)."""

import importlib
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from note_rl.environments import Env, EnvFactory, is_environment
from note_rl.environments.environment_factory import COPY_ADVICE, can_be_made_again
from note_rl.environments.single_environments import copied
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.errors.wording import Name
from note_rl.support.atomic_files import atomic_target
from note_rl.support.value_kinds import described, file_name
from note_rl.types import Array

_log = logging.getLogger(__name__)
_MIN_FRAME_MS = 20  # viewers slow down what is shorter
_DEFAULT_FPS = 30

AsGymnasium = Callable[[Any], Env]
Play = Callable[[Callable[[], Env]], float]


@dataclass(frozen=True)
class FilmFile:
    """File for the pictures of an episode that is played.

    Attributes:
        path: A .gif or .mp4 file; without a suffix, a folder of pictures, 00000.png and so on by their steps.
        every: Of the pictures for a folder, one in this many is kept; films have all of them.
        fps: Pictures a second of a film; None: as the environment says, which is its own speed.
    """

    path: str | os.PathLike[str]
    every: int = 1
    fps: float | None = None

    def __post_init__(self) -> None:
        """Refuses numbers out of range."""
        if self.every < 1:
            raise SettingsError(f"every must be at least 1, got {self.every}")
        if self.fps is not None and not 0 < self.fps < float("inf"):
            raise SettingsError(f"fps must be above 0, got {self.fps}")


FilmPath = str | os.PathLike[str] | FilmFile


@described("the name of a file, FilmFile(...), or a list of these")
def film_files(name: Name, value: Any) -> tuple[FilmFile, ...]:
    """One or several files."""
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(one if isinstance(one, FilmFile) else FilmFile(file_name(name, one)) for one in listed)


def film(play: Play, env: Any, seen_as: AsGymnasium, max_steps: int, files: Sequence[FilmFile] | None) -> float:
    """Plays one episode and shows it in a window, or writes it to files; without a screen it says so and shows nothing.

    Args:
        play: Plays one episode in an environment of the given factory and returns its return.
        env: What the agent acts in.
        seen_as: Turns what was made into an environment of Gymnasium's kind (several agents into a joint one).
        max_steps: The film ends there, if the episode does not end before.
        files: To write; None: a window.

    Returns:
        The return of what was played.

    Raises:
        SettingsError: Another suffix, no step at all, a file that cannot be written, or a codec that is missing.
        EnvironmentMismatchError: The environment draws no pictures.
    """
    if max_steps < 1:
        raise SettingsError(f"max_steps must be at least 1, got {max_steps}")
    if files is None:
        mode = "human" if has_screen() else None
        if mode is None:
            _log.warning("there is no screen to show the episode on: give a path, for example path='film.gif'")
        return play(lambda: FilmedEnvironment(seen_as(drawing_environment(env, mode)), max_steps, None))
    writers = [film_writer(Path(file.path)) for file in files]
    frames: list[Array] = []
    drawn = seen_as(drawing_environment(env, "rgb_array"))
    total = play(lambda: FilmedEnvironment(drawn, max_steps, frames))
    own_fps = float(drawn.metadata.get("render_fps") or _DEFAULT_FPS)
    for file, write in zip(files, writers, strict=True):
        try:
            Path(file.path).parent.mkdir(parents=True, exist_ok=True)
            write(replace(file, fps=file.fps or own_fps), frames)
        except OSError as error:
            raise SettingsError(f"cannot write {file.path}: {error.strerror or error}") from error
    return total


def has_screen() -> bool:
    """Whether there can be a window. Without a screen, SDL may end the whole process (seen with TensorFlow in it)."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names)


class FilmedEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends the first episode after `max_steps` and keeps its pictures; a window draws itself."""

    def __init__(self, env: Env, max_steps: int, frames: list[Array] | None) -> None:
        super().__init__(env)
        self._left = max_steps
        self._frames = frames
        self._filming = True

    def reset(self, **arguments: Any) -> Any:
        """The first picture; whatever comes after the first episode is no longer of interest."""
        returned = self.env.reset(**arguments)
        self._keep()
        return returned

    def step(self, action: Any) -> Any:
        """One more picture."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._left -= 1
        self._keep()
        truncated = truncated or self._left <= 0
        self._filming = self._filming and not (truncated or np.all(terminated))
        return obs, reward, terminated, truncated, info

    def _keep(self) -> None:
        if self._frames is None or not self._filming:
            return
        frame = self.env.render()
        if not isinstance(frame, np.ndarray) or frame.ndim != 3:
            raise EnvironmentMismatchError(f"{self.env} draws no pictures: it needs the render mode rgb_array")
        self._frames.append(frame.copy())  # many environments draw into one array


def drawing_environment(env: Any, render_mode: str | None) -> Any:
    """A fresh environment like `env`, made so that it draws; None: so that it does not.

    Raises:
        EnvironmentMismatchError: It cannot draw in this mode.
    """
    if isinstance(env, list | tuple):
        return drawing_environment(env[0], render_mode)
    if isinstance(env, str):
        env = EnvFactory(env)
    if isinstance(env, EnvFactory):
        return replace(env, kwargs={**env.kwargs, "render_mode": render_mode})()
    made = env if is_environment(env) else env()
    if can_be_made_again(made) and (made is env or made.render_mode != render_mode):
        return _drawing(made, render_mode, is_users=made is env)
    if made is env:
        made = copied(env, COPY_ADVICE)
    inner = getattr(made, "unwrapped", made)
    modes = (getattr(inner, "metadata", None) or {}).get("render_modes") or ()
    if getattr(inner, "render_mode", None) != render_mode:
        if render_mode is not None and render_mode not in modes:
            raise EnvironmentMismatchError(
                f"{type(inner).__name__} cannot be drawn: its metadata name the render modes {list(modes)}, and "
                f"{render_mode!r} is needed"
            )
        inner.render_mode = render_mode
    return made


def _drawing(env: Env, render_mode: str | None, is_users: bool) -> Env:
    """An environment like one of Gymnasium's that draws, with what was changed in it since it was made.

    That is a copy, which also has what wrappers have measured. Where a copy cannot be made, or does not draw, and for a
    window, which may be opened when an environment is made, it is another one with the same plain attributes.
    """
    if render_mode != "human":
        try:
            drawn = copied(env, COPY_ADVICE) if is_users else env
            drawn.unwrapped.render_mode = render_mode
            if render_mode is None or _draws(copied(drawn, COPY_ADVICE)):
                return drawn
        except Exception as error:  # noqa: BLE001 - of whatever kind: then it has to be made to draw
            _log.debug("%s is made again to be filmed: %s", env, error)
    assert env.spec is not None
    again, before = gymnasium.make(env.spec, render_mode=render_mode), gymnasium.make(env.spec)
    for name, value in vars(env.unwrapped).items():
        if name != "render_mode" and _is_plain(value) and not _is_same(value, vars(before.unwrapped).get(name)):
            setattr(again.unwrapped, name, value)
    for unused in [before] if is_users else [before, env]:
        unused.close()
    return again


def _draws(env: Env) -> bool:
    """Whether pictures come of an environment, which is used up by asking."""
    env.reset()
    drawn = isinstance(env.render(), np.ndarray)
    env.close()
    return drawn


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str | np.ndarray | np.generic)


def _is_same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and np.array_equal(value, other)


WriteFilm = Callable[[FilmFile, list[Array]], None]


def film_writer(path: Path) -> WriteFilm:
    """Returns the function that writes frames [height, width, 3] uint8 to such a file, whose `fps` are then known.

    Raises:
        SettingsError: Films are not written in that format.
        ModuleNotFoundError: What it needs is not installed.
    """
    writers: dict[str, tuple[str, str, WriteFilm]] = {
        ".gif": ("PIL.Image", "pillow", _write_gif),
        ".mp4": ("moviepy", "note-rl[video]", _write_mp4),
        "": ("PIL.Image", "pillow", _write_pictures),
    }
    suffix = path.suffix.lower()
    if suffix not in writers:
        raise SettingsError(f"{path}: films are written as .gif or .mp4, so let its name end in one of them")
    module, package, write = writers[suffix]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"writing {suffix} files needs {error.name}, which is not installed: pip install '{package}'",
            name=error.name,
        ) from error
    return write


def _write_gif(file: FilmFile, frames: list[Array]) -> None:
    assert file.fps is not None
    image = importlib.import_module("PIL.Image")
    pictures = [image.fromarray(frame).quantize(64) for frame in frames]
    duration = max(_MIN_FRAME_MS, round(1000 / file.fps))
    with atomic_target(Path(file.path)) as aside:
        pictures[0].save(aside, "GIF", save_all=True, append_images=pictures[1:], duration=duration, loop=0)


def _write_pictures(file: FilmFile, frames: list[Array]) -> None:
    """Those of an earlier film in the folder are removed, as it may have been a longer one."""
    image = importlib.import_module("PIL.Image")
    folder = Path(file.path)
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if re.fullmatch(r"\d{5,}\.png", old.name):
            old.unlink()
    for number in range(0, len(frames), file.every):
        image.fromarray(frames[number]).save(folder / f"{number:05d}.png")


def _write_mp4(file: FilmFile, frames: list[Array]) -> None:
    moviepy = importlib.import_module("moviepy")
    path = Path(file.path)
    even = [frame[: len(frame) // 2 * 2, : frame.shape[1] // 2 * 2] for frame in frames]  # H.264 needs even sides
    clip = moviepy.ImageSequenceClip(even, fps=file.fps)
    path.unlink(missing_ok=True)  # or it would not be known whether there is a new one
    try:
        clip.write_videofile(str(path), codec=_CODEC, audio=False, logger=None)
    except OSError as error:
        if error.errno is not None:
            raise
        raise _no_codec(path, str(error)) from error
    finally:
        clip.close()
    if not path.is_file() or not path.stat().st_size:  # a few pictures fit into the pipe of a process that has ended
        raise _no_codec(path, "ffmpeg has written nothing")


_CODEC = "libx264"
_MOST_WORDS = 300


def _no_codec(path: Path, said: str) -> SettingsError:
    """The error for moviepy's message, which quotes that of ffmpeg."""
    return SettingsError(
        f"cannot write {path}: ffmpeg could not encode it as H.264 ({_CODEC}): {' '.join(said.split())[:_MOST_WORDS]}; "
        "install an ffmpeg that has this codec and name it in FFMPEG_BINARY, or write a .gif"
    )
