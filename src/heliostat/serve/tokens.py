"""Tokens of those who may ask: read from a file, again when it changes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stat
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from heliostat.errors import ConfigError

LINE = re.compile(r"(?P<name>[^:\s]+):(?P<role>view|operate|admin):(?P<digest>[0-9a-fA-F]{64})")


class Role(IntEnum):
    """What a token allows; a higher one includes the lower."""

    VIEW = 1
    OPERATE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    name: str
    role: Role


class Tokens:
    """The tokens of a file. Not thread-safe.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ConfigError
        It can't be read, others can read it, or a line is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_of: tuple[int, int] = (0, 0)
        self._callers: dict[bytes, Caller] = {}
        self._refresh()

    @property
    def count(self) -> int:
        """How many there were when the file was read last."""
        return len(self._callers)

    def caller(self, authorization: str) -> Caller | None:
        """Return whose token is in an `Authorization` header, as Bearer or as Basic's password.

        A file that became unreadable lets nobody in.
        """
        token = _token_in(authorization)
        if token is None:
            return None
        try:
            self._refresh()
        except ConfigError:
            return None
        digest = hashlib.sha256(token).digest()
        matching = [who for own, who in self._callers.items() if hmac.compare_digest(own, digest)]
        return matching[0] if matching else None

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_size) == self._read_of:
                return
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"service.tokens_file: {self._path} can't be read: {error}",
                hint="give a file with lines of name:role:sha256",
            ) from None
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(
                f"service.tokens_file: others than its owner can use {self._path}",
                hint=f"chmod 600 {self._path}",
            )
        self._callers = dict(_callers_in(text, self._path))
        self._read_of = status.st_mtime_ns, status.st_size


def _callers_in(text: str, path: Path) -> list[tuple[bytes, Caller]]:
    callers: list[tuple[bytes, Caller]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise ConfigError(
                f"service.tokens_file: line {number} of {path} is no token",
                hint="write name:role:sha256, with role view, operate or admin, and the token's "
                "SHA-256 in hexadecimal digits: printf %s TOKEN | sha256sum",
            )
        who = Caller(match["name"], Role[match["role"].upper()])
        callers.append((bytes.fromhex(match["digest"]), who))
    return callers


def _token_in(authorization: str) -> bytes | None:
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return None
    return None
