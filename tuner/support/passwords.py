"""Passwords of databases, wherever they can stand in a text: nothing that is printed or written down may hold one.

A password stands in a URL before the host (`postgresql://me:secret@host/db`) or among its parameters
(`?password=secret`); in an override the URL may be a value of its own, quoted, or part of a mapping
(`storage={url: ...}`). What is no URL at all is hidden up to its last @: it was meant to be one.
"""

import re
import shlex
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

_HIDDEN: Final = "***"
_STORAGES = ("storage", "hydra.sweeper.storage")
"""Settings whose value is a URL, or a mapping with one."""

_FILES = ("sqlite:", "journal:")
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
# Up to the last @ before another URL begins: a password that should have been percent-encoded may hold anything.
_BEFORE_HOST = re.compile(rf"(\b(?!https?:){_SCHEME}:/+[^\s:/]*:)((?:(?!\b{_SCHEME}://)[^\n])*)@")
_BEFORE_WEB_HOST = re.compile(r"(https?://[^\s:/@]*:)([^\s/@]*)@")
_WITHOUT = re.compile(rf"\b{_SCHEME}://[^\s:@]*@[^@]*$")
_NO_PORT = re.compile(rf"(\b(?!https?:){_SCHEME}://[^\s:/@]+:)(?=[^\s/@]*[^\s/@\d])[^\s/@]+(?=/|\s|$)")  # no host
_PARAMETER = re.compile(r"([?&;\s'\"({,]|^)([\w%]+)=('[^'\n]*'|\"[^\"\n]*\"|[^&;\s'\"})]*)")
NAMES: Final = "password|passwd|passphrase|pwd|secret"
"""Parts of the names of secrets, for regular expressions."""
_SECRET = re.compile(rf"(?i)\w*({NAMES})|pass")


def hidden(text: str) -> str:
    """A text without the passwords of the URLs in it."""
    text = _BEFORE_HOST.sub(rf"\1{_HIDDEN}@", text)
    text = _BEFORE_WEB_HOST.sub(rf"\1{_HIDDEN}@", text)
    text = _NO_PORT.sub(rf"\1{_HIDDEN}", text)
    return _PARAMETER.sub(_without_secret, text)


def shown(url: str) -> str:
    """The URL of a storage as it may be printed and stored, whether or not it is one."""
    found = hidden(url)
    is_meant_as_one = "@" in url and ":" in url and not url.startswith(_FILES) and not _WITHOUT.search(url)
    return f"{_HIDDEN}@{url.rpartition('@')[2]}" if found == url and is_meant_as_one else found


def without_password(word: str) -> str:
    """A word of a command line as it may be printed and stored."""
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    return f"{key}{equals}{shown(value)}" if name.removesuffix(".url") in _STORAGES else hidden(word)


def command_line(words: Iterable[str]) -> str:
    """A command as it may be printed and stored, quoted for a POSIX shell."""
    return shlex.join(map(without_password, words))


def _without_secret(match: re.Match[str]) -> str:
    before, key, value = match.groups()
    return f"{before}{key}={_HIDDEN}" if value and _SECRET.fullmatch(unquote(key)) else match[0]
