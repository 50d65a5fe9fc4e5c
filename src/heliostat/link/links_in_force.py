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
from heliostat.config.changes import LinkChange, LinkFate, changes_between
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.definition import DefinitionKind
from heliostat.definitions.follow import HomeFollower
from heliostat.definitions.home_links import Contents, HomeLook, Rows, said_of
from heliostat.link.held_changes import NotInForce
from heliostat.link.home_in_force import HomeInForce
from heliostat.link.wish_part import told
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events, Subject

if TYPE_CHECKING:
    from heliostat.link.running import Running

Said = Callable[[LinkName], str]
"""Returns by whom a link is changed, and why; empty: that is not known."""


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
        self._running = running
        self._of_home = HomeInForce(file, _defined(whole, file.config), running.source_topics)
        self._remarks: Mapping[LinkName, NotInForce] = {}
        self._look: HomeLook | None = None
        self._of_file = {link.name for link in file.config.links}
        self._applied = whole
        """What runs, as it was given last."""
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
            is_other = file.config != self._file.config
            self._file, self._in_force = file, config
            self._of_home.file_is(file, is_confirmed=is_confirmed)
            self._apply(lambda _: _by_file(file))
        if self._follower is not None:
            self._follower.file_changed()
        if is_other:
            self._on_file()

    def home_is(self, look: HomeLook) -> None:
        """Go by other links of the home, or by what another file makes of them."""
        with self._lock:
            before, is_first = self._of_home.held, self._look is None
            self._of_home.take(look)
            said, self._look = self._said(look), look
            for held in self._of_home.held:
                if held not in before and self._only in {None, held.link}:
                    text = f"link {held.link}: {held.line()}"
                    self._events.warn(text, Subject(link=held.link))
            self._apply(None if is_first else said)

    def _contents(self, file: ConfigFile, rows: Rows) -> Contents:
        """Return what is defined, also what is no link any more by a file that isn't confirmed."""
        before = self._of_home.file
        contents = home_contents(file, rows)
        return contents if before.raw == file.raw else {**home_contents(before, rows), **contents}

    def _said(self, look: HomeLook) -> Said:
        """Return what says by whom and why a link of the home is another one than at last look."""
        before = self._look
        is_file = before is not None and before.file.raw != look.file.raw
        known = {} if before is None else before.rows
        new = {row.key: row for row in look.rows.values() if row != known.get(row.key)}
        of_links = said_of(new)
        connectors = [row for row in new.values() if row.key.kind is DefinitionKind.CONNECTOR]

        def said(link: LinkName) -> str:
            if (row := of_links.get(link)) is not None:
                return told(row)
            if connectors:  # several make a link
                return told(max(connectors, key=lambda row: row.generation))
            return _by_file(look.file) if is_file else ""

        return said

    def _apply(self, said: Said | None) -> None:
        """Have links run as they are in force; say of each of the home what changes, and by whom.

        Parameters
        ----------
        said
            Returns that; None: they are not changed, but only known now.
        """
        of_file = self._in_force.links
        names = {link.name for link in of_file}
        links = (*of_file, *(link for link in self._of_home.links if link.name not in names))
        chosen = [link for link in links if self._only in {None, link.name}]
        clusters = {**self._of_home.clusters, **self._in_force.clusters}
        config = self._in_force.model_copy(update={"links": links, "clusters": clusters})
        before, self._applied = self._applied, config.model_copy(update={"links": tuple(chosen)})
        lines: list[tuple[LinkChange, str]] = []
        if said is not None:
            changes = changes_between(before, self._applied).links
            lines = [
                (change, ": ".join(filter(None, (line, said(change.link)))))
                for change in changes
                if change.link not in names and change.link not in self._of_file
                for line in change.lines()
            ]
        self._of_file = names
        for change, line in lines:  # while it still runs: its history has it
            if change.fate is not LinkFate.NEW:
                self._running.tell(change.link, line)
        self._running.change_to(config, chosen)
        for change, line in lines:
            if change.fate is LinkFate.NEW:
                self._running.tell(change.link, line)
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


def _by_file(file: ConfigFile) -> str:
    return f"as {file.path.name} has it"


def _defined(whole: Config, of_file: Config) -> tuple[LinkConfig, ...]:
    """Return the links that are not in the file."""
    names = {link.name for link in of_file.links}
    return tuple(link for link in whole.links if link.name not in names)
