"""Levels of this process's loggers, as Connect's `/admin/loggers`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from heliostat.clock import Clock
from heliostat.serve.connect.answers import ConnectError

ROOT, OURS = "root", "heliostat"
_TO_PYTHON = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
    "ALL": logging.DEBUG,
}
_TO_CONNECT = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}


class Loggers:
    """Reads and sets levels; each is a logger of this process alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed_ms: dict[str, int] = {}

    def all(self) -> dict[str, Any]:
        """Return those that have a level of their own."""
        names = sorted(logging.root.manager.loggerDict)
        own = [name for name in names if logging.getLogger(name).level != logging.NOTSET]
        return {name: self._row(name) for name in sorted({ROOT, OURS, *own})}

    def get(self, name: str) -> dict[str, Any]:
        """Return one.

        Raises
        ------
        ConnectError
            There is none of that name.
        """
        if name not in {ROOT, OURS} and name not in logging.root.manager.loggerDict:
            raise ConnectError(404, f"Logger {name} not found.")
        return self._row(name)

    def set(self, name: str, body: Mapping[str, Any]) -> list[str]:
        """Set a level; return the loggers that have it now.

        Raises
        ------
        ConnectError
            No level is given, or none of that name.
        """
        level = body.get("level")
        if not isinstance(level, str):
            raise ConnectError(400, "Desired 'level' parameter was not specified in request.")
        if level.upper() not in _TO_PYTHON:
            raise ConnectError(404, f"invalid log level '{level}'.")
        below = [
            logger_name
            for logger_name in logging.root.manager.loggerDict
            if name == ROOT or logger_name.startswith(f"{name}.")
        ]
        changed = sorted({name, *below})
        for logger_name in changed:
            _logger(logger_name).setLevel(_TO_PYTHON[level.upper()])
            self._changed_ms[logger_name] = self._clock.wall_ms()
        return changed

    def _row(self, name: str) -> dict[str, Any]:
        level = _logger(name).getEffectiveLevel()
        return {
            "level": _TO_CONNECT.get(level, "OFF" if level > logging.CRITICAL else "DEBUG"),
            "last_modified": self._changed_ms.get(name),
        }


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
