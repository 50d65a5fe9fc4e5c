"""`heliostat scan`: what a cluster has; reads only."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from heliostat.clusters.acl import AclListing
from heliostat.clusters.admin import (
    EARLIEST,
    LATEST,
    ClusterAdmin,
    ConfigEntry,
    ListedGroup,
    ListedOffset,
    TopicInfo,
)
from heliostat.clusters.admin.group_calls import FetchedOffsets
from heliostat.clusters.admin.log_dir_calls import Sizes
from heliostat.clusters.client_quota import Quotas
from heliostat.clusters.scram_user import ScramCredential
from heliostat.config import ClusterConfig, compile_pattern
from heliostat.errors import BrokerError, HeliostatError
from heliostat.names import BrokerId, TopicName, TopicPartition
from heliostat.operate.reach import require_answer
from heliostat.operate.scanned import ScannedCluster, ScannedGroup, ScannedTopic, cares
from heliostat.ops.asked import each_answer
from heliostat.schemas import HttpRegistry
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.over_http import Timeouts
from heliostat.schemas.registry.retries import Retries

CLIENT_ID = "heliostat-scan"
AT_ONCE = 8
REQUEST_MS = 10_000
"""A broker that hangs costs this, not half a minute."""
REGISTRY_S = 5.0
CARED_FOR = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "remote.storage.enable",
    "retention.ms",
)
"""Settings that count where a topic inherits them, too."""

Ends = Mapping[TopicPartition, ListedOffset | BrokerError]


def scan(cluster: ClusterConfig, *, window_s: float = 0.0, topics: str = ".*") -> ScannedCluster:
    """Return what a cluster has; changes nothing.

    What is not shown is said in `unread`, and the rest is there.

    Parameters
    ----------
    window_s
        For how long to watch for rates; 0: no rates.
    topics
        Expression that matches whole names.

    Raises
    ------
    ConnectionLost
        It does not answer.
    """
    require_answer(cluster)
    access = cluster.access()
    with ClusterAdmin(access, CLIENT_ID, request_timeout_ms=REQUEST_MS) as admin:
        return _Scan(cluster, admin, topics).scanned(window_s)


class _Scan:
    """One look at a cluster."""

    def __init__(self, cluster: ClusterConfig, admin: ClusterAdmin, topics: str) -> None:
        self._cluster, self._admin = cluster, admin
        selected = compile_pattern(topics)
        infos = admin.describe_topics()
        self._infos = {
            name: info
            for name, info in sorted(infos.items())
            if info.error is None and selected.fullmatch(name)
        }
        self._partitions = [
            TopicPartition(name, part.partition)
            for name, info in self._infos.items()
            for part in info.partitions
            if part.leader is not None
        ]
        self._unread: list[str] = []

    def scanned(self, window_s: float) -> ScannedCluster:
        """Ask for everything at once, then for what follows."""
        admin, own = self._admin, self._partitions
        asks: dict[str, Callable[[], Any]] = {
            "begins": lambda: admin.list_offsets(dict.fromkeys(own, EARLIEST)),
            "ends": lambda: (time.monotonic(), admin.list_offsets(dict.fromkeys(own, LATEST))),
            "sizes": admin.security.log_sizes,
            "configs": lambda: admin.describe_configs(self._infos),
            "transactions": lambda: admin.open_transactions(own),
            "groups": self._groups,
            "acls": admin.security.describe_acls,
            "quotas": admin.security.describe_quotas,
            "SCRAM users": admin.security.describe_scram_users,
            "schemas": self._subjects,
        }
        answers = {
            what: self._sound(what, answer) for what, answer in each_answer(asks, AT_ONCE).items()
        }
        rates = self._rates(answers["ends"], window_s)
        topics = tuple(
            self._topic(info, answers, rates if window_s else None) for info in self._infos.values()
        )
        groups: tuple[ScannedGroup, ...] = answers["groups"] or ()
        acls: AclListing | None = answers["acls"]
        access = self._cluster.access()
        return ScannedCluster(
            access.alias,
            ",".join(access.bootstrap),
            admin.cluster_id(),
            admin.oldest_release(),
            tuple(f"{b.broker_id}: {b.host}:{b.port}" for b in admin.brokers()),
            None if acls is None else acls.has_authorizer,
            window_s,
            topics,
            groups,
            None if acls is None else tuple(sorted(map(str, acls.bindings))),
            _quotas(answers["quotas"]),
            _users(answers["SCRAM users"]),
            answers["schemas"],
            cares(topics, groups),
            tuple(self._unread),
        )

    def _sound(self, what: str, answer: Any) -> Any:
        """Return an answer; None if it is an error, which is noted."""
        if isinstance(answer, HeliostatError):
            self._unread.append(f"{what}: {answer.text}")
            return None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _subjects(self) -> int | None:
        access = self._cluster.registry_access()
        if access is None:
            return None
        limits = Timeouts(REGISTRY_S, REGISTRY_S, REGISTRY_S)
        with HttpRegistry(access, retries=Retries(turns=1), timeouts=limits) as registry:
            return len(registry.ask(calls.subjects()))

    def _rates(self, first: tuple[float, Ends] | None, window_s: float) -> dict[TopicName, float]:
        """Watch logs grow; return records per second."""
        if first is None or not window_s:
            return {}
        began_s, before = first
        time.sleep(max(0.0, window_s - (time.monotonic() - began_s)))
        after = self._admin.list_offsets(dict.fromkeys(self._partitions, LATEST))
        took_s = time.monotonic() - began_s
        rates: dict[TopicName, float] = defaultdict(float)
        for partition in self._partitions:
            earlier, other = before.get(partition), after.get(partition)
            if isinstance(earlier, ListedOffset) and isinstance(other, ListedOffset):
                rates[partition.topic] += (other.offset - earlier.offset) / took_s
        return rates

    def _topic(
        self, info: TopicInfo, answers: Mapping[str, Any], rates: Mapping[TopicName, float] | None
    ) -> ScannedTopic:
        own = [TopicPartition(info.name, part.partition) for part in info.partitions]
        records = _records(own, answers["begins"], (answers["ends"] or (0.0, None))[1])
        size = _size(info, answers["sizes"])
        rate = None if rates is None else rates.get(info.name, 0.0)
        configs = (answers["configs"] or {}).get(info.name, {})
        opened = answers["transactions"] or {}
        return ScannedTopic(
            info.name,
            len(info.partitions),
            info.replication_factor,
            info.is_internal,
            size,
            records,
            rate,
            None if rate is None or size is None else rate * size / max(records or 0, 1),
            {} if isinstance(configs, BrokerError) else _settings(configs),
            sum(part.leader is None for part in info.partitions),
            sum(
                len(opened[partition])
                for partition in own
                if isinstance(opened.get(partition), tuple)
            ),
        )

    def _groups(self) -> tuple[ScannedGroup, ...]:
        admin = self._admin
        listing = admin.list_groups()
        for broker, error in listing.failed.items():
            self._unread.append(f"groups of broker {broker}: {error.text}")
        committed = admin.committed_offsets(listing.groups)
        wanted = {
            partition
            for offsets in committed.values()
            if not isinstance(offsets, BrokerError)
            for partition in offsets
        }
        ends = admin.list_offsets(dict.fromkeys(wanted, LATEST))
        return tuple(
            _group(listing.groups[group], committed.get(group, {}), ends)
            for group in sorted(listing.groups)
        )


def _group(listed: ListedGroup, offsets: FetchedOffsets | BrokerError, ends: Ends) -> ScannedGroup:
    if isinstance(offsets, BrokerError):
        return ScannedGroup(listed.group, listed.kind, listed.state, 0, None)
    lag, topics = 0, set[TopicName]()
    for place, row in offsets.items():
        end = ends.get(place)
        if isinstance(row, BrokerError) or row.offset < 0:
            continue
        topics.add(place.topic)
        if isinstance(end, ListedOffset):
            lag += max(0, end.offset - row.offset)
    return ScannedGroup(listed.group, listed.kind, listed.state, len(topics), lag)


def _records(own: Iterable[TopicPartition], begins: Ends | None, ends: Ends | None) -> int | None:
    if begins is None or ends is None:
        return None
    count = 0
    for place in own:
        begin, end = begins.get(place), ends.get(place)
        if isinstance(begin, ListedOffset) and isinstance(end, ListedOffset):
            count += end.offset - begin.offset
    return count


def _size(info: TopicInfo, sizes: Mapping[BrokerId, Sizes | HeliostatError] | None) -> int | None:
    """Return the bytes of a topic at its leaders; None if one of them does not tell."""
    total = 0
    for part in info.partitions:
        leader = None if part.leader is None else (sizes or {}).get(part.leader)
        place = TopicPartition(info.name, part.partition)
        if leader is None or isinstance(leader, HeliostatError) or place not in leader:
            return None
        total += leader[place]
    return total


def _settings(configs: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Return what differs from Kafka's defaults, of all that matters, and what a topic sets."""
    return {
        key: entry.value
        for key, entry in sorted(configs.items())
        if entry.value is not None and (entry.is_own or (key in CARED_FOR and not entry.is_default))
    }


def _quotas(quotas: Quotas | None) -> dict[str, dict[str, float]] | None:
    if quotas is None:
        return None
    return {str(entity): dict(limits) for entity, limits in quotas.items()}


def _users(credentials: frozenset[ScramCredential] | None) -> tuple[str, ...] | None:
    return (
        None
        if credentials is None
        else tuple(sorted({credential.user for credential in credentials}))
    )
