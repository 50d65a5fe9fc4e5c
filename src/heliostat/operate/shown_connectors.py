"""Connectors as they are: those that are kept on the home, and links that stand for some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from heliostat.config import LinkConfig
from heliostat.connect.connector import StoredConnector
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.link_choice import with_names
from heliostat.connect.link_copies import Copies
from heliostat.connect.link_maps import DerivedLinks, links_of
from heliostat.connect.plugins import CLASS, PLUGINS
from heliostat.connect.positions import offsets_of
from heliostat.connect.statuses import STOPPED, ConnectorView, link_view, partner_view, refused_view
from heliostat.connect.store import ConnectorStore
from heliostat.errors import Refused
from heliostat.mm2.config_connectors import SOURCE
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.status.values import LinkStatus, PartitionStatus
from heliostat.wishes.wish import Place, WishedState

_ALIAS = "source.cluster.alias"


class NoSuchConnector(Refused):
    """No connector has that name."""


class Links(Protocol):
    """What is known of links, and what can be wished of them."""

    def known(self) -> Mapping[LinkName, LinkConfig]:
        """Return all links that are followed."""
        ...

    def status(self, link: LinkName) -> LinkStatus | None:
        """Return the status of a link; None: it is not followed yet."""
        ...

    def partitions(self, link: LinkName) -> Sequence[PartitionStatus]:
        """Return its partitions; none: it is not followed yet."""
        ...

    def wish(self, link: LinkName, target: str, state: WishedState, by: str) -> None:
        """Write what is wished of a link, whose target has this alias."""
        ...

    def restart(self, link: LinkName, places: Sequence[Place], by: str) -> None:
        """Order that a link, or what is stopped of these topics of it, begins anew."""
        ...

    def skip(
        self, link: LinkName, wanted: Mapping[TopicPartition, Offset], by: str
    ) -> Sequence[str]:
        """Have a stopped link go on at these source offsets; return what is left out, in words."""
        ...

    def skipped(self, link: LinkName) -> Mapping[TopicPartition, Offset]:
        """Return at which source offsets a link goes on once it starts, where it skips some."""
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A connector as it is shown."""

    stored: StoredConnector
    view: ConnectorView
    is_declared: bool
    """Whether it stands for a link that is no connector's."""

    def info(self, tasks: int | None = None) -> dict[str, Any]:
        """Return its description."""
        name, count = self.stored.name, len(self.view.tasks) if tasks is None else tasks
        return {
            "name": name,
            "config": dict(self.stored.config),
            "tasks": [{"connector": name, "task": number} for number in range(count)],
            "type": "source",
        }


class ShownConnectors:
    """Reads connectors. Thread-safe.

    Parameters
    ----------
    store
        Where they are kept; None: only links that are no connector's are shown.
    links
        The links that this service follows.
    file
        Returns what the configuration file says.
    worker_id
        Where this service is: `host:port`.
    """

    def __init__(
        self,
        store: ConnectorStore | None,
        links: Links,
        file: Callable[[], FileClusters],
        worker_id: str,
    ) -> None:
        self._store = store
        self.links = links
        self.file = file
        self._worker_id = worker_id

    def stored(self) -> dict[str, StoredConnector]:
        """Return those that are kept, by name."""
        return {} if self._store is None else dict(self._store.read())

    def all(self) -> dict[str, Shown]:
        """Return all connectors by name."""
        stored = self.stored()
        derived = links_of(stored.values(), self.file())
        shown = {
            name: Shown(connector, self._view(connector, derived), is_declared=False)
            for name, connector in stored.items()
        }
        for name, link in self.links.known().items():
            if name not in derived.links and name not in shown:
                view = self._link_view(name)
                shown[name] = Shown(_declared(link, self.file()), view, is_declared=True)
        return dict(sorted(shown.items()))

    def file_and_links(self) -> FileClusters:
        """Return what the file says, with the names of all links that are no connector's."""
        file = self.file()
        derived = links_of(self.stored().values(), file)
        link_configs = self.links.known().items()
        others = {name: link for name, link in link_configs if name not in derived.links}
        return with_names(file, others, self.copies())

    def copies(self) -> Copies:
        """Return what links of connectors copy, or did."""
        return {} if self._store is None else self._store.copies()

    def get(self, name: str) -> Shown:
        """Return one.

        Raises
        ------
        NoSuchConnector
            There is none of that name.
        """
        connector = self.all().get(name)
        if connector is None:
            raise NoSuchConnector(name)
        return connector

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return what of a link was copied; the others keep no offsets."""
        shown = self.get(name)
        alias = shown.stored.config.get(_ALIAS, "")
        return [
            entry
            for link in self.own_links(shown)
            for entry in offsets_of(alias, self.partitions(shown, link))
        ]

    def partitions(self, shown: Shown, link: LinkName) -> Sequence[PartitionStatus]:
        """Return a link's partitions; of a stopped one as they will go on."""
        partitions = self.links.partitions(link)
        if shown.view.state != STOPPED:
            return partitions
        later = self.links.skipped(link)
        rows = (
            (TopicPartition(TopicName(p.source), PartitionId(p.partition)), p) for p in partitions
        )
        return [replace(row, position=later.get(place, row.position)) for place, row in rows]

    def topics(self, name: str) -> list[str]:
        """Return the names of a connector's topics at the target; none of an unknown one."""
        shown = self.all().get(name)
        if shown is None:
            return []
        names: set[str] = set()
        for link in self.own_links(shown):
            status = self.links.status(link)
            names |= set() if status is None else {topic.target for topic in status.topics}
        return sorted(names)

    def links_of(self, name: str) -> tuple[LinkName, ...]:
        """Return the links that a connector is, or belongs to."""
        stored = self.stored()
        if name in stored:
            return links_of(stored.values(), self.file()).of_connector.get(name, ())
        return (LinkName(name),) if name in self.links.known() else ()

    def own_links(self, shown: Shown) -> tuple[LinkName, ...]:
        """Return the links whose records are this connector's to copy."""
        plugin = shown.stored.plugin
        is_link = shown.is_declared or (plugin is not None and plugin.makes_link)
        return self.links_of(shown.stored.name) if is_link else ()

    def _view(self, stored: StoredConnector, derived: DerivedLinks) -> ConnectorView:
        problems = derived.problems.get(stored.name)
        if problems:
            return refused_view(problems, self._worker_id)
        views = [self._link_view(link) for link in derived.of_connector.get(stored.name, ())]
        if stored.plugin is not None and stored.plugin.makes_link:
            return views[0]
        return partner_view(stored.state, views, self._worker_id)

    def _link_view(self, link: LinkName) -> ConnectorView:
        status = self.links.status(link)
        worker_id = self._worker_id
        if status is not None and status.owner.get("host"):
            worker_id = f"{status.owner['host']}:{worker_id.rpartition(':')[2]}"
        return link_view(status, self.links.partitions(link), worker_id)

    def stopped(self, link: LinkName) -> list[Place]:
        """Return the partitions of a link that wait for a person."""
        status = self.links.status(link)
        problems = [] if status is None else status.problems
        return [
            Place(TopicName(problem.source), PartitionId(problem.partition))
            for problem in problems
            if problem.is_stopped
        ]

    def target(self, link: LinkName) -> str:
        """Return the alias of a link's target."""
        link_config = self.links.known().get(link)
        if link_config is not None:
            return link_config.target
        stored = self.stored()
        return str(links_of(stored.values(), self.file()).links[link]["target"])


def _declared(link: LinkConfig, file: FileClusters) -> StoredConnector:
    """Return a connector that stands for a link which is none's."""
    config = {
        "name": link.name,
        CLASS: next(plugin.name for plugin in PLUGINS if plugin.kind == SOURCE),
        "topics": ",".join(link.topics.include),
        "topics.exclude": ",".join(link.topics.exclude),
    }
    for side, alias in (("source", link.source), ("target", link.target)):
        config[f"{side}.cluster.alias"] = alias
        addresses = sorted(file.addresses.get(alias, ()))
        config[f"{side}.cluster.bootstrap.servers"] = ",".join(addresses)
    return StoredConnector(link.name, {name: text for name, text in config.items() if text})
