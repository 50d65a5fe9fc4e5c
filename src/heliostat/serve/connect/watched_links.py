"""Links as a service follows them, for Kafka Connect's API."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.store import ConnectorStore, HomeConnectors
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.errors import HeliostatError
from heliostat.names import LinkName, Offset, TopicPartition
from heliostat.operate.connectors import Connectors, NotStopped
from heliostat.operate.orders import order_restart
from heliostat.operate.shown_connectors import ShownConnectors
from heliostat.operate.skip import skip, skipped_positions
from heliostat.operate.wishes import make_wish
from heliostat.serve.watch import Watch
from heliostat.status.values import LinkStatus, PartitionStatus
from heliostat.wishes.wish import Place, WishedState

WITHIN_S = 0.0
"""Connect answers once a wish is recorded; that it is carried out, the status tells."""


class WatchedLinks:
    """What a watch knows of links, and what can be wished of them."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def known(self) -> Mapping[LinkName, LinkConfig]:
        """Return all links that are followed."""
        return {name: self._watch.follower(name).link for name in self._watch.names}

    def status(self, link: LinkName) -> LinkStatus | None:
        """Return the status of a link; None: it is not followed yet."""
        try:
            return self._watch.observe(link).observation.status
        except KeyError:
            return None

    def partitions(self, link: LinkName) -> Sequence[PartitionStatus]:
        """Return its partitions; none: it is not followed yet."""
        try:
            return self._watch.partitions(link)
        except KeyError:
            return ()

    def wish(self, link: LinkName, target: str, state: WishedState, by: str) -> None:
        """Write what is wished of a link, whose target has this alias."""
        config = self._watch.config
        wished = self.known().get(link) or _barely(config, link, target)
        make_wish(config, wished, state, by=by, within_s=WITHIN_S)

    def restart(self, link: LinkName, places: Sequence[Place], by: str) -> None:
        """Order that a link, or what is stopped of these topics of it, begins anew."""
        link_config = self.known().get(link)
        if link_config is None:
            return  # nothing runs yet that could begin anew
        order_restart(self._watch.config, link_config, places, by=by, within_s=WITHIN_S)

    def skip(
        self, link: LinkName, wanted: Mapping[TopicPartition, Offset], by: str
    ) -> Sequence[str]:
        """Have a stopped link go on at these source offsets; return what is left out, in words."""
        link_config = self.known().get(link)
        if link_config is None:
            raise NotStopped(link)
        return skip(self._watch.config, link_config, wanted, by=by).told()

    def skipped(self, link: LinkName) -> Mapping[TopicPartition, Offset]:
        """Return at which source offsets a link goes on once it starts, where it skips some."""
        link_config = self.known().get(link)
        return {} if link_config is None else skipped_positions(self._watch.config, link_config)


def _barely(config: Config, link: LinkName, target: str) -> LinkConfig:
    """Return as much of a link as a wish needs: it is not followed yet."""
    source = next(alias for alias in config.clusters if alias != target)
    return LinkConfig.model_validate({"name": link, "source": source, "target": target})


def connectors_of(watch: Watch, file: FileClusters, port: int) -> Connectors:
    """Return the connectors of a service; without a home, none can be made."""
    config = watch.config
    home = config.service.home
    store: ConnectorStore | None = None
    if home is not None:
        store = HomeConnectors(DefinitionBook(config.clusters[home].access()))
    worker_id = f"{socket.gethostname()}:{port}"
    shown = ShownConnectors(store, WatchedLinks(watch), lambda: file, worker_id)
    return Connectors(store, shown, watch.clock, watch.service_events.info)


def home_cluster_id(config: Config) -> Callable[[], str]:
    """Return what returns the id of the home cluster, asked once; empty: it does not answer."""
    ids: list[str] = []

    def cluster_id() -> str:
        home = config.service.home
        if not ids and home is not None:
            try:
                with ClusterAdmin(config.clusters[home].access(), "heliostat-connect") as admin:
                    ids.append(str(admin.cluster_id()))
            except HeliostatError:
                return ""
        return ids[0] if ids else ""

    return cluster_id
