"""The links that a process runs: those of its file, as far as it is in force, and of its home.

Either may change at any time. Whoever changes has the links changed as a whole: where file and home
name the same link the file counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from heliostat.config import Config, ConfigFile, LinkConfig
from heliostat.config.defined import WholeConfig
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.follow import HomeFollower
from heliostat.link.held_changes import NotInForce
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events

if TYPE_CHECKING:
    from heliostat.link.running import Running


class LinksInForce:
    """What goes by file and home, see `FileUsers`.

    Parameters
    ----------
    file
        The file as it was read first.
    whole
        The same with the links that its home held then.
    running
        The links.
    only
        The only link that runs; None: all do.
    events
        Where changes of the home are told.
    on_file
        Called when the file says something else than before.
    """

    def __init__(
        self,
        file: ConfigFile,
        whole: Config,
        running: Running,
        only: str | None,
        *,
        events: Events,
        on_file: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._home = file.config.service.home
        self._in_force = file.config
        self._defined = _defined(whole, file.config)
        self._running = running
        self._only = only
        self._on_file = on_file
        self._lock = threading.Lock()
        self._follower: HomeFollower | None = None
        if self._home is not None:
            self._follower = HomeFollower(
                self.file, self.home_is, events.warn, contents=home_contents
            )

    def start(self) -> None:
        """Begin to follow the home, if there is one."""
        if self._follower is not None:
            self._follower.start()

    def stop(self) -> None:
        """End that."""
        if self._follower is not None:
            self._follower.stop()

    def file(self) -> ConfigFile:
        """Return the file as it was read last; another home needs another process."""
        service = self._file.config.service.model_copy(update={"home": self._home})
        config = self._file.config.model_copy(update={"service": service})
        return replace(self._file, config=config)

    def change_to(self, config: Config, file: ConfigFile) -> None:
        """Go by another configuration of the file; returns when links that end have ended."""
        with self._lock:
            is_other = file.config != self._file.config
            self._file, self._in_force = file, config
            self._apply()
        if self._follower is not None:
            self._follower.file_changed()
        if is_other:
            self._on_file()

    def home_is(self, whole: WholeConfig) -> None:
        """Go by other links of the home."""
        with self._lock:
            self._defined = _defined(whole.config, self._file.config)
            self._apply()

    def _apply(self) -> None:
        of_file = self._in_force.links
        names = {link.name for link in of_file}
        links = (*of_file, *(link for link in self._defined if link.name not in names))
        chosen = [link for link in links if self._only in {None, link.name}]
        self._running.change_to(self._in_force.model_copy(update={"links": links}), chosen)

    def source_topics(self, link: LinkName) -> frozenset[TopicName] | None:
        """Return all topics of a link's source, as seen last; None: not yet."""
        return self._running.source_topics(link)

    def remark(self, remarks: Mapping[LinkName, NotInForce]) -> None:
        """Say this in the status of links until it is called again."""
        self._running.remark(remarks)


def _defined(whole: Config, of_file: Config) -> tuple[LinkConfig, ...]:
    """Return the links that are not in the file."""
    names = {link.name for link in of_file.links}
    return tuple(link for link in whole.links if link.name not in names)
