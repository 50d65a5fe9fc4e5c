"""What a cluster has, as values, and what of it needs care before it is mirrored; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from heliostat.clusters.admin.group_values import SHARE_KIND, STREAMS_KIND
from heliostat.config import BUILT_IN_EXCLUDE, compile_pattern
from heliostat.config.model import REQUEST_BYTES_LIMIT
from heliostat.names import metric_name

MESSAGE_BYTES = "max.message.bytes"
MESSAGE_BYTES_DEFAULT = 1_048_588
SHORT_MS = 3_600_000
NAMED = 10


@dataclass(frozen=True, slots=True)
class ScannedTopic:
    """One topic.

    Parameters
    ----------
    bytes
        Of one copy; None: not shown.
    records
        Offsets between begin and end: no more records than that.
    records_per_s, bytes_per_s
        Over the window; None without one.
    settings
        Those that the topic sets itself, other than its brokers.
    """

    name: str
    partitions: int
    replication_factor: int
    is_internal: bool
    bytes: int | None
    records: int | None
    records_per_s: float | None
    bytes_per_s: float | None
    settings: Mapping[str, str]
    without_leader: int = 0
    open_transactions: int = 0

    @property
    def is_mirrored(self) -> bool:
        """Whether a link may mirror it at all."""
        excluded = any(compile_pattern(entry).fullmatch(self.name) for entry in BUILT_IN_EXCLUDE)
        return not (excluded or self.is_internal)

    @property
    def is_compacted(self) -> bool:
        """Whether its log is cleaned."""
        return "compact" in self.settings.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True)
class ScannedGroup:
    """One consumer group; `lag` is None where it is not shown."""

    group: str
    kind: str
    state: str
    topics: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Care:
    """Something that can't move, or needs care; `code` is for scripts."""

    code: str
    text: str
    items: tuple[str, ...] = ()

    def line(self) -> str:
        """Return it with the first of its items."""
        left = len(self.items) - NAMED
        names = ", ".join(self.items[:NAMED]) + (f" and {left} more" if left > 0 else "")
        return f"{self.text}: {names}" if names else self.text


@dataclass(frozen=True, slots=True)
class ScannedCluster:
    """Everything that was seen.

    Parameters
    ----------
    acls, quotas, scram_users
        None: not shown.
    subjects
        Of its schema registry; None: it has none in the configuration, or it does not answer.
    unread
        Why a part is not shown.
    """

    name: str
    addresses: str
    cluster_id: str
    release: str
    brokers: tuple[str, ...]
    has_authorizer: bool | None
    window_s: float
    topics: tuple[ScannedTopic, ...]
    groups: tuple[ScannedGroup, ...]
    acls: tuple[str, ...] | None
    quotas: Mapping[str, Mapping[str, float]] | None
    scram_users: tuple[str, ...] | None
    subjects: int | None
    care: tuple[Care, ...]
    unread: tuple[str, ...]

    @property
    def mirrored(self) -> tuple[ScannedTopic, ...]:
        """Topics that a link may mirror, the largest first."""
        own = [topic for topic in self.topics if topic.is_mirrored]
        return tuple(sorted(own, key=lambda topic: (-(topic.bytes or 0), topic.name)))

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


def cares(topics: Collection[ScannedTopic], groups: Iterable[ScannedGroup]) -> tuple[Care, ...]:
    """Return what can't move, or needs care."""
    own = [topic for topic in topics if topic.is_mirrored]
    return tuple(
        care for care in (*_of_topics(own), *_of_names(topics), *_of_groups(groups)) if care.items
    )


def _of_topics(topics: Collection[ScannedTopic]) -> Iterator[Care]:
    def named(holds: Iterable[bool]) -> tuple[str, ...]:
        return tuple(topic.name for topic, is_one in zip(topics, holds, strict=True) if is_one)

    yield Care(
        "COMPACTED",
        "compacted, so offsets have holes: mirrors have the source's offsets with topics.offsets: "
        "exact, else a map; tombstones go after delete.retention.ms, so copy within it",
        named(topic.is_compacted for topic in topics),
    )
    yield Care(
        "OPEN_TRANSACTIONS",
        "transactions are open now: records behind them are copied when they end",
        named(topic.open_transactions > 0 for topic in topics),
    )
    yield Care(
        "TIERED",
        "with remote storage: what is there is read through brokers, more slowly; mirrors have "
        "none unless their cluster sets it",
        named(topic.settings.get("remote.storage.enable") == "true" for topic in topics),
    )
    yield Care(
        "LOG_APPEND_TIME",
        "stamped by brokers (LogAppendTime): mirrors keep those stamps, with CreateTime",
        named(topic.settings.get("message.timestamp.type") == "LogAppendTime" for topic in topics),
    )
    sizes = [int(topic.settings.get(MESSAGE_BYTES, 0)) for topic in topics]
    yield Care(
        "LARGE_MESSAGES",
        "batches above Kafka's default of 1 MB: mirrors get the same limit; brokers of the target "
        "must replicate, and consumers there fetch them",
        named(MESSAGE_BYTES_DEFAULT < size <= REQUEST_BYTES_LIMIT for size in sizes),
    )
    yield Care(
        "TOO_LARGE_MESSAGES",
        f"batches above {REQUEST_BYTES_LIMIT >> 20} MiB, more than a request of brokers' default "
        "may have: such a batch can't be copied",
        named(size > REQUEST_BYTES_LIMIT for size in sizes),
    )
    yield Care(
        "SHORT_RETENTION",
        "kept for less than an hour: a link that stops for as long loses records",
        named(0 <= int(topic.settings.get("retention.ms", -1)) < SHORT_MS for topic in topics),
    )
    yield Care(
        "NO_LEADER",
        "partitions without a leader: they can't be read now",
        named(topic.without_leader > 0 for topic in topics),
    )


def _of_names(topics: Iterable[ScannedTopic]) -> Iterator[Care]:
    by_metric: dict[str, list[str]] = defaultdict(list)
    internal, both = [], []
    for topic in topics:
        by_metric[metric_name(topic.name)].append(topic.name)
        if not topic.is_mirrored:
            internal.append(topic.name)
        elif "." in topic.name and "_" in topic.name:
            both.append(topic.name)
    clashes = tuple(" = ".join(names) for names in by_metric.values() if names[1:])
    yield Care("NAME_COLLISION", "names that differ only in . and _, which Kafka refuses", clashes)
    yield Care(
        "DOTS_AND_UNDERSCORES",
        "names with both . and _: a target refuses a name that differs from one of its own only "
        "in them",
        tuple(both),
    )
    yield Care("NEVER_MIRRORED", "internal topics: each cluster writes its own", tuple(internal))


def _of_groups(groups: Iterable[ScannedGroup]) -> Iterator[Care]:
    groups = tuple(groups)
    yield Care(
        "SHARE_GROUPS",
        "share groups: no request reads what they have acknowledged, so they begin anew",
        tuple(group.group for group in groups if group.kind == SHARE_KIND),
    )
    yield Care(
        "STREAMS_GROUPS",
        "groups of Kafka Streams: their changelogs and repartition topics must move along",
        tuple(group.group for group in groups if group.kind == STREAMS_KIND),
    )
