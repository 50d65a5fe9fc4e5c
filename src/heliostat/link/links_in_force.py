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
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.follow import HomeFollower
from heliostat.definitions.home_links import Contents, HomeLook, Rows
from heliostat.link.held_changes import NotInForce
from heliostat.link.home_in_force import HomeInForce
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events, Subject

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
        Called when the file has changed.
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
        self._running = running
        self._of_home = HomeInForce(file, _defined(whole, file.config), running.source_topics)
        self._remarks: Mapping[LinkName, NotInForce] = {}
        self._only = only
        self._events = events
        self._on_file = on_file
        self._lock = threading.Lock()
        self._follower: HomeFollower | None = None
        if self._home is not None:
            self._follower = HomeFollower(
                self.file, self.home_is, events.warn, contents=self._contents
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

    def change_to(self, config: Config, file: ConfigFile, *, is_confirmed: bool = False) -> None:
        """Go by another configuration of the file; returns when links that end have ended."""
        with self._lock:
            differs = config != self._in_force
            self._file, self._in_force = file, config
            self._of_home.file_is(file, is_confirmed=is_confirmed)
            self._apply()
        if self._follower is not None:
            self._follower.file_changed()
        if differs:
            self._on_file()

    def home_is(self, look: HomeLook) -> None:
        """Go by other links of the home, or by what another file makes of them."""
        with self._lock:
            before = self._of_home.held
            self._of_home.take(look)
            for held in self._of_home.held:
                if held not in before and self._only in {None, held.link}:
                    text = f"link {held.link}: {held.line()}"
                    self._events.warn(text, Subject(link=held.link))
            self._apply()

    def _contents(self, file: ConfigFile, rows: Rows) -> Contents:
        """Return what is defined, also what is no link any more by a file that isn't confirmed."""
        before = self._of_home.file
        contents = home_contents(file, rows)
        return contents if before.raw == file.raw else {**home_contents(before, rows), **contents}

    def _apply(self) -> None:
        of_file = self._in_force.links
        names = {link.name for link in of_file}
        links = (*of_file, *(link for link in self._of_home.links if link.name not in names))
        chosen = [link for link in links if self._only in {None, link.name}]
        clusters = {**self._of_home.clusters, **self._in_force.clusters}
        update = {"links": links, "clusters": clusters}
        self._running.change_to(self._in_force.model_copy(update=update), chosen)
        self._remark()

    def source_topics(self, link: LinkName) -> frozenset[TopicName] | None:
        """Return all topics of a link's source, as seen last; None: not yet."""
        return self._running.source_topics(link)

    def remark(self, remarks: Mapping[LinkName, NotInForce]) -> None:
        """Say this in the status of links until it is called again."""
        with self._lock:
            self._remarks = remarks
            self._remark()

    def _remark(self) -> None:
        """Say in the status of links what of the file is not in force, for those of the home, too.

        Who asks with the new file does not see a link that the file ends: all say so.
        """
        ending = [held for held in self._of_home.held if not held.field]
        of_all = tuple(f"link {held.link}: {held.line()}" for held in ending)
        remarks = dict(self._remarks)
        for link in (*self._in_force.links, *self._of_home.links):
            name = LinkName(link.name)
            told = remarks.get(name, NotInForce())
            own = tuple(
                held.line() for held in self._of_home.held if held.field and held.link == name
            )
            if of_all or own:
                remarks[name] = replace(told, lines=(*told.lines, *of_all, *own))
        self._running.remark(remarks)


def _defined(whole: Config, of_file: Config) -> tuple[LinkConfig, ...]:
    """Return the links that are not in the file."""
    names = {link.name for link in of_file.links}
    return tuple(link for link in whole.links if link.name not in names)
