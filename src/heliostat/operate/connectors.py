"""What operators do by Kafka Connect's API: connectors that are links, and those that help them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heliostat.clock import Clock
from heliostat.connect.connector import StoredConnector
from heliostat.connect.link_choice import LinkChoice, choose_link
from heliostat.connect.link_maps import links_of
from heliostat.connect.plugins import CLASS
from heliostat.connect.positions import change_of, check_reset
from heliostat.connect.statuses import OF_STATE, STOPPED, ConnectorView
from heliostat.connect.store import ConnectorStore
from heliostat.connect.validation import Validation, validate
from heliostat.errors import Refused
from heliostat.names import LinkName
from heliostat.operate.shown_connectors import NoSuchConnector, Shown, ShownConnectors
from heliostat.wishes.wish import WishedState

NO_HOME = (
    "connectors are kept on a cluster of their own choice: set service.home to a cluster of the "
    "configuration file, and start the service anew"
)


class NoHome(Refused):
    """There is no cluster on which connectors could be kept."""


class DeclaredElsewhere(Refused):
    """The link is declared in the configuration file, or was made by another API."""


class ConnectorExists(Refused):
    """A connector of that name exists."""


class NotStopped(Refused):
    """Offsets are altered only of a link that is stopped."""


class Invalid(Refused):
    """A configuration is wrong; the validation says where."""

    def __init__(self, validation: Validation) -> None:
        super().__init__(validation.message())
        self.validation = validation


@dataclass(frozen=True, slots=True)
class PutAnswer:
    """What became of a configuration that was put."""

    info: Mapping[str, Any]
    """The connector with its new configuration, and the tasks that it had before."""
    is_new: bool
    link: LinkName | None = None
    """The link that it is; None: it is none."""
    notes: tuple[str, ...] = ()
    """What else must be known."""

    def tried(self) -> dict[str, Any]:
        """Return it for who only asked what would be done."""
        return {
            **self.info,
            "dry_run": True,
            "did": "created" if self.is_new else "changed",
            "link": self.link,
            "notes": list(self.notes),
        }


class Connectors:
    """Makes and changes connectors. Thread-safe.

    Parameters
    ----------
    store
        Where they are kept; None: none can be made.
    shown
        Reads them.
    clock
        The clock.
    tell
        Told what was changed, and who asked so; what is wished of links, their owners tell.
    """

    def __init__(
        self,
        store: ConnectorStore | None,
        shown: ShownConnectors,
        clock: Clock,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self.shown = shown
        self._clock = clock
        self._tell = tell
        self._changing = threading.Lock()
        self._altering = threading.Lock()
        """Held while offsets are altered, which waits for a link's owner."""

    def validate(self, class_name: str, config: Mapping[str, str]) -> Validation:
        """Check a configuration beside the other connectors; nothing is changed."""
        name = config.get("name", "")
        others = self.shown.stored()
        before = others.pop(name, StoredConnector(name, {}))
        stored = replace(before, config=dict(config))
        return validate(class_name, stored, others.values(), self.shown.file())

    def put(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        by: str,
        state: WishedState | None = None,
        only_new: bool = False,
        dry_run: bool = False,
    ) -> PutAnswer:
        """Make a connector, or give it another configuration; return what became of it.

        Parameters
        ----------
        state
            How a new one begins; None: it runs.
        only_new
            Whether to refuse if there is one of that name.
        dry_run
            Whether only to tell what would become of it.

        Raises
        ------
        NoHome, DeclaredElsewhere, ConnectorExists, Invalid
            It is refused, and nothing is changed.
        """
        with self._changing:
            store, before = self._changeable(name)
            if before is not None and only_new:
                raise ConnectorExists(name)
            tasks = 0 if before is None else len(self.shown.get(name).view.tasks)
            stored = StoredConnector(name, {}, state or WishedState.RUNNING)
            stored = replace(
                before or stored, config=dict(config), by=by, at_ms=self._clock.wall_ms()
            )
            others = self.shown.stored()
            others.pop(name, None)
            file = self.shown.file_and_links()
            checked = validate(config.get(CLASS, ""), stored, others.values(), file)
            if checked.problems:
                raise Invalid(checked)
            choice = None
            if stored.plugin is not None and stored.plugin.makes_link:
                copies = self.shown.copies()
                choice = choose_link(stored, before, list(others.values()), file, copies)
                stored = replace(stored, link=choice.link)
            shown = Shown(stored, ConnectorView("", ""), is_declared=False)
            link, notes = (None, ()) if choice is None else (choice.link, choice.notes())
            answer = PutAnswer(shown.info(tasks), before is None, link, notes)
            if dry_run:
                return answer
            if choice is None:
                store.write(stored)
            else:
                self._begin(choice, name, state if before is None else None, by)
                store.write(stored, choice.copies)
            did = "created" if answer.is_new else "changed"
            self._tell(f"connector {name}{_of(link)} is {did}: {by} asks so")
            return answer

    def _begin(self, choice: LinkChoice, name: str, state: WishedState | None, by: str) -> None:
        """Wish of a link that begins what was wished of it, or of the one in whose place it is."""
        if choice.before is not None:
            state = OF_STATE.get(self.shown.get(name).view.state, WishedState.RUNNING)
        if state is not None:
            self.shown.links.wish(choice.link, choice.content["target"], state, by)

    def delete(self, name: str, by: str) -> None:
        """Remove a connector: its link ends, mirrors and state stay.

        Raises
        ------
        NoSuchConnector, NoHome, DeclaredElsewhere
            It is refused.
        """
        with self._changing:
            store, before = self._changeable(name)
            if before is None:
                raise NoSuchConnector(name)
            store.remove(name, by, self._clock.wall_ms())
            link = LinkName(before.link) if before.link else None
            self._tell(f"connector {name}{_of(link)} is deleted: {by} asks so")

    def wish(self, name: str, state: WishedState, by: str) -> None:
        """Have a connector pause, stop or go on.

        Raises
        ------
        NoSuchConnector
            There is none of that name.
        """
        shown = self.shown.get(name)
        plugin = shown.stored.plugin
        if shown.is_declared or (plugin is not None and plugin.makes_link):
            for link in self.shown.links_of(name):
                self.shown.links.wish(link, self.shown.target(link), state, by)
            return
        with self._changing:
            store, before = self._changeable(name)
            if before is None:
                raise NoSuchConnector(name)
            at_ms = self._clock.wall_ms()
            store.wish(replace(before, state=state, by=by, at_ms=at_ms))
            self._tell(f"connector {name} is {state.value}: {by} asks so")

    def restart(
        self, name: str, by: str, *, include_tasks: bool = True, only_failed: bool = False
    ) -> ConnectorView:
        """Have a connector begin anew, or what has failed of it; return how it is shown then.

        Raises
        ------
        NoSuchConnector
            There is none of that name.
        """
        shown = self.shown.get(name)
        failed = [task for task in shown.view.tasks if task.trace]
        for link in self.shown.own_links(shown):
            if only_failed:
                if not failed:
                    continue
                places = self.shown.stopped(link)
            else:
                places = []
            self.shown.links.restart(link, places, by)
        view = shown.view.restarting(only_failed=only_failed)
        return view if include_tasks else replace(view, tasks=shown.view.tasks)

    def restart_task(self, name: str, task: int, by: str) -> None:
        """Have what is stopped of a task's partitions begin anew.

        Raises
        ------
        NoSuchConnector
            There is no such connector, or it has no such task.
        """
        shown = self.shown.get(name)
        if not 0 <= task < len(shown.view.tasks):
            raise NoSuchConnector(f"{name}-{task}")
        named = set(shown.view.tasks[task].partitions)
        for link in self.shown.own_links(shown):
            places = [place for place in self.shown.stopped(link) if str(place) in named]
            if places:
                self.shown.links.restart(link, places, by)

    def alter_offsets(self, name: str, wanted: Sequence[Mapping[str, Any]] | None, by: str) -> None:
        """Set offsets forwards; what is between is never copied, and recorded as gaps.

        Parameters
        ----------
        wanted
            The changes, all of them or none; None: all are to be forgotten.

        Raises
        ------
        NoSuchConnector, NotStopped
            There is none of that name, or it is not stopped.
        OffsetsRefused
            Records would be copied twice.
        Refused
            A mirror may not skip records.
        """
        with self._altering:
            shown = self.shown.get(name)
            if shown.view.state != STOPPED:
                raise NotStopped(name)
            for link in self.shown.own_links(shown):
                partitions = self.shown.partitions(shown, link)
                if wanted is None:
                    check_reset(partitions)
                elif forwards := change_of(wanted, partitions):
                    for text in self.shown.links.skip(link, forwards, by):
                        self._tell(f"connector {name}{_of(link)}: {text}")

    def _changeable(self, name: str) -> tuple[ConnectorStore, StoredConnector | None]:
        """Return the store, and the connector as it is; refuse one that is not kept here."""
        if self._store is None:
            if name in self.shown.links.known():
                raise DeclaredElsewhere(name)
            raise NoHome(NO_HOME)
        stored = self.shown.stored()
        if name not in stored:
            derived = links_of(stored.values(), self.shown.file())
            if name in self.shown.file().links or (
                name in self.shown.links.known() and name not in derived.links
            ):
                raise DeclaredElsewhere(name)
        return self._store, stored.get(name)


def _of(link: LinkName | None) -> str:
    return "" if link is None else f" (link {link})"
