"""The configuration file while links run: a change is checked whole, told, and carried out.

    config/changed_file    when it is read again
    config/changes         what differs, and how that takes effect
    held_changes           what waits for SIGHUP
    here                   reads, decides, tells

An invalid file changes nothing. What of a file is not in force is said in the status of the links.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from heliostat.config import Config, ConfigFile, read_config_file
from heliostat.config.changed_file import ChangedFile
from heliostat.config.changes import ConfigChanges, Effect, changes_between
from heliostat.errors import ConfigError
from heliostat.link.held_changes import NotInForce, TakenConfig, hold_back
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events, Subject, shortened

LOOK_S = 0.25
LISTED_MAX = 20
ENDS_WITHIN_S = 5.0


class FileUsers(Protocol):
    """What goes by the file: the links of a process."""

    def change_to(self, config: Config, file: ConfigFile, *, is_confirmed: bool) -> None:
        """Go by another configuration, taken from this file; returns when links have ended.

        Parameters
        ----------
        is_confirmed
            Whether nothing of the file is to be held back.
        """
        ...

    def source_topics(self, link: LinkName) -> frozenset[TopicName] | None:
        """Return all topics of a link's source, as seen last; None: not yet."""
        ...

    def remark(self, remarks: Mapping[LinkName, NotInForce]) -> None:
        """Say this in the status of links until it is called again."""
        ...


class FollowedFile:
    """Follows a configuration file on a thread of its own.

    Parameters
    ----------
    changed
        Notices changes of the file.
    config
        What was read of it.
    only
        The only link of it that runs; None: all do.
    users
        What goes by it.
    events
        Where changes are told.
    confirm
        Set by SIGHUP: the file is read at once, and nothing of it is held back.
    """

    def __init__(
        self,
        changed: ChangedFile,
        config: Config,
        only: str | None,
        users: FileUsers,
        *,
        events: Events,
        confirm: threading.Event,
    ) -> None:
        self._changed = changed
        self._begun = self._in_force = config
        self._only = only
        self._users = users
        self._events = events
        self._confirm = confirm
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="configuration", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it; a change that is under way ends as the links do."""
        self._stopping.set()
        self._thread.join(ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                self.turn()
            except Exception as error:  # noqa: BLE001  # links run on; that this ends must be seen
                what = f"{type(error).__name__}: {error}"
                self._events.warn(f"{self._changed.path.name} is no longer followed: {what}")
                return

    def turn(self) -> None:
        """Look once, and go by the file if it has changed or a person says so."""
        if self._confirm.is_set():
            self._confirm.clear()
            self._changed.is_read()
            self._read(is_confirmed=True)
        elif self._changed.is_due():
            self._read(is_confirmed=False)

    def _read(self, *, is_confirmed: bool) -> None:
        try:
            file = read_config_file(self._changed.path)
        except ConfigError as error:
            self._refuse(error)
            return
        wanted = file.config
        if is_confirmed:
            taken = TakenConfig(wanted)
        else:
            taken = hold_back(self._in_force, wanted, self._users.source_topics)
        changes = changes_between(self._of_ours(self._in_force), self._of_ours(taken.config))
        self._tell(changes, taken)
        # Of other links, too: they write to the same targets. Some of the home may be held.
        if taken.config != self._in_force or is_confirmed:
            self._users.change_to(taken.config, file, is_confirmed=is_confirmed)
        self._in_force = taken.config
        self._remark(taken)

    def _tell(self, changes: ConfigChanges, taken: TakenConfig) -> None:
        name = self._changed.path.name
        lines = shortened(changes.lines(), LISTED_MAX, "changes")
        what = f"{len(changes.lines())} change(s) take effect" if changes else "nothing changes"
        self._events.info(f"{name} is read again: {what}")
        for line in lines:
            self._events.info(f"{name}: {line}")
        for held in taken.held:
            if self._is_ours(held.link):
                about = Subject(link=held.link)
                self._events.warn(f"link {held.link}: {held.line()}", about)

    def _refuse(self, error: ConfigError) -> None:
        """Tell all that is wrong with the file, in the log and in the status of each link."""
        name, problems = self._changed.path.name, error.problems
        about = Subject(code=error.code)
        self._events.warn(f"{name} is refused and changes nothing: {'; '.join(problems)}", about)
        first = "; ".join(shortened(problems, 3, "problems"))
        text = f"{name} is refused, what was read before is in force: {first}"
        told = NotInForce((text,), is_refused=True)
        self._users.remark({LinkName(link.name): told for link in self._in_force.links})

    def _remark(self, taken: TakenConfig) -> None:
        """Say in the status of each link what of the file is not in force for it."""
        of_process = changes_between(self._begun, taken.config).process
        later = [each.line() for each in of_process if each.effect is Effect.RESTART]
        of_ours = [held for held in taken.held if self._is_ours(held.link)]
        # Who asks with the new file does not see a link that is gone from it: all say so.
        later += [f"link {held.link}: {held.line()}" for held in of_ours if not held.field]
        remarks = {LinkName(link.name): list(later) for link in taken.config.links}
        for held in of_ours:
            if held.field:
                remarks[held.link].append(held.line())
        told = {link: NotInForce(tuple(lines)) for link, lines in remarks.items() if lines}
        self._users.remark(told)

    def _of_ours(self, config: Config) -> Config:
        """Return the configuration with the links that run here."""
        links = tuple(link for link in config.links if self._is_ours(link.name))
        return config.model_copy(update={"links": links})

    def _is_ours(self, link: str) -> bool:
        return self._only in {None, link}
