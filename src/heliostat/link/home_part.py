"""Links of the file and of the home as one configuration, while they run.

The file's part is what is in force of it, which may be less than what it says; the home's follows
the home. Each of the two changes by itself, and the other's links stay as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from heliostat.config import Config, ConfigFile, LinkConfig, read_config_file
from heliostat.config.defined import WholeConfig
from heliostat.definitions.follow import HomeFollower, OpenBook, open_home
from heliostat.errors import ConfigError

Apply = Callable[[Config, tuple[LinkConfig, ...]], object]


class HomePart:
    """Has links go by the file and the home. Thread-safe.

    Parameters
    ----------
    file
        The configuration file as it was read.
    config
        What the links began with: the file's, and those of the home that were known.
    only
        The only link that runs; None: all do.
    apply
        Has links go by another configuration: by it, and by which of its links.
    tell
        Receives lines for the log.
    open_book
        Opens the home's definitions.
    """

    def __init__(
        self,
        file: ConfigFile,
        config: Config,
        only: str | None,
        apply: Apply,
        tell: Callable[[str], None],
        *,
        open_book: OpenBook = open_home,
    ) -> None:
        self._file = file
        self._in_force = file.config
        self._only = only
        self._apply = apply
        self._home = _without(config.links, file.config.links)
        self._lock = threading.Lock()
        self._follower: HomeFollower | None = None
        if file.config.service.home is not None:
            self._follower = HomeFollower(lambda: self._file, self._take, tell, open_book)

    def start(self) -> None:
        """Begin to follow the home, if the file names one."""
        if self._follower is not None:
            self._follower.start()

    def stop(self) -> None:
        """End it."""
        if self._follower is not None:
            self._follower.stop()

    def file_is(self, config: Config) -> None:
        """Take it that this is in force of the file; returns when links go by it."""
        try:
            file = read_config_file(self._file.path)  # for its defaults, and checks beside it
        except ConfigError:  # it has changed again, which whoever follows it tells
            file = self._file
        with self._lock:
            self._file, self._in_force = file, config
            self._apply_both()
        if self._follower is not None:
            self._follower.file_changed()

    def _take(self, whole: WholeConfig) -> None:
        with self._lock:
            self._home = _without(whole.config.links, self._file.config.links)
            self._apply_both()

    def _apply_both(self) -> None:
        links = (*self._in_force.links, *_without(self._home, self._in_force.links))
        config = self._in_force.model_copy(update={"links": links})
        self._apply(config, tuple(link for link in links if self._only in (None, link.name)))


def _without(
    links: tuple[LinkConfig, ...], others: tuple[LinkConfig, ...]
) -> tuple[LinkConfig, ...]:
    names = {link.name for link in others}
    return tuple(link for link in links if link.name not in names)
