"""What a link has made at the target, and keeps ready there: `heliostat.<link>.access`.

    acl/...        an ACL that the link has made, or is about to make
    quota/...      a limit that it has set, or is about to set
    held/...       an ACL kept ready until its topics are promoted
    promoted/...   a former mirror: nothing is synced about it any more
    source         the source's id when something was made first
    confirmed      removals that a person has confirmed

A row is durable before the request that it is about, so nothing of ours is forgotten if the driver
dies in between. If the topic is lost, what was made stays at the target, as somebody else's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from heliostat.access import Reachable
from heliostat.clusters.acl import (
    AclBinding,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import KeyedTopic, OwnRows, missing_topics
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.names import ClusterId, LinkName, TopicName

ACL, QUOTA, HELD, PROMOTED = "acl/", "quota/", "held/", "promoted/"
SOURCE, CONFIRMED = "source", "confirmed"
Row = Mapping[str, Any]


class Limit(NamedTuple):
    """One limit of an entity's quotas, such as `producer_byte_rate`."""

    entity: QuotaEntity
    key: str

    @property
    def text(self) -> str:
        """Return it for people."""
        return f"{self.key} of {self.entity}"


@dataclass(frozen=True, slots=True)
class Held:
    """An ACL that is kept ready; `parts` are granted in its place, and go when it is granted."""

    parts: tuple[AclBinding, ...] = ()


class Rows(Protocol):
    """A topic of rows, as `KeyedTopic`."""

    def read_all(self) -> dict[str, dict[str, Any]]:
        """All rows; none if there is no topic."""
        ...

    def write_many(self, values: Mapping[str, Row | None], /) -> Any:
        """Write rows, and remove those given as None; durable when it returns."""
        ...


def access_topic(link: LinkName) -> TopicName:
    """Name of the topic that holds these rows."""
    return TopicName(f"{STATE_TOPIC_PREFIX}{link}.access")


class AccessTopic:
    """That topic, created with the first row.

    Parameters
    ----------
    target
        The cluster that keeps it.
    link
        Name of the link.
    admin
        Asks the cluster whether it is there.
    replication_factor
        For its creation.
    """

    def __init__(
        self,
        target: Reachable,
        link: LinkName,
        admin: ClusterAdmin,
        *,
        replication_factor: int | None = None,
        foreign: ForeignRecords | None = None,
    ) -> None:
        self.foreign = foreign or ForeignRecords()
        self._admin = admin
        self._replicas = replication_factor
        own = OwnRows((), self.foreign)
        self._topic = KeyedTopic(target, access_topic(link), "heliostat-rights", own)
        self.name = self._topic.topic

    def read_all(self) -> dict[str, dict[str, Any]]:
        """All rows; none if there is no topic."""
        return self._topic.read_all()

    def write_many(self, values: Mapping[str, Row | None], /) -> None:
        """Write rows, and remove those given as None; durable when it returns."""
        if missing_topics(self._admin, [self.name]):
            self._topic.ensure(self._replicas)
        self._topic.write_many(values)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()


class Ledger:
    """The rows, read by `read` and changed only here.

    Parameters
    ----------
    topic
        Where they are.
    foreign
        Told of records that are no rows; they are ignored.
    """

    def __init__(self, topic: Rows, foreign: ForeignRecords | None = None) -> None:
        self._topic = topic
        self._foreign = foreign or ForeignRecords()
        self._clear()

    def _clear(self) -> None:
        self.acls: dict[AclBinding, tuple[bool, ...]] = {}
        self.limits: dict[Limit, tuple[float, ...]] = {}
        self.held: dict[AclBinding, Held] = {}
        self.promoted: set[TopicName] = set()
        self.source: ClusterId | None = None
        self.confirmed = ""

    @property
    def owned(self) -> int:
        """How many items the link has made or keeps ready."""
        return len(self.acls) + len(self.limits) + len(self.held)

    def read(self) -> None:
        """Read all rows again."""
        rows = self._topic.read_all()
        self._clear()
        for key, value in rows.items():
            try:
                self._take(key, value)
            except NOT_A_ROW as error:
                self._foreign.note(TopicName("access"), None, key, error)

    def write(self, rows: Mapping[str, Row | None]) -> None:
        """Write rows, and remove those given as None; known here once they are durable."""
        if rows:
            self._topic.write_many(rows)
            for key, value in rows.items():
                self._take(key, value)

    def _take(self, key: str, value: Row | None) -> None:
        kind, _, rest = key.partition("/")
        if kind == "acl":
            _put(self.acls, acl_of(rest), value and (True,))
        elif kind == "quota":
            values = value and tuple(float(number) for number in value["values"])
            _put(self.limits, limit_of(rest), values)
        elif kind == "held":
            parts = value and Held(tuple(acl_of(part) for part in value["parts"]))
            _put(self.held, acl_of(rest), parts)
        elif kind == "promoted":
            change = self.promoted.discard if value is None else self.promoted.add
            change(TopicName(rest))
        elif key == SOURCE:
            self.source = ClusterId(str(value["cluster_id"])) if value else None
        elif key == CONFIRMED:
            self.confirmed = str(value["removals"]) if value else ""
        else:
            raise ValueError("no row of this topic")

    def forget_promoted(self, topics: Iterable[TopicName]) -> None:
        """Take topics for mirrors again, as after a way back."""
        self.write({f"{PROMOTED}{topic}": None for topic in topics if topic in self.promoted})


def _put(rows: dict[Any, Any], key: Any, value: Any) -> None:
    if value:
        rows[key] = value
    else:
        rows.pop(key, None)


def acl_key(binding: AclBinding) -> str:
    """Return the text that stands for a binding in keys."""
    return json.dumps(list(binding.sort_key), separators=(",", ":"))


def acl_of(text: str) -> AclBinding:
    """Return the binding that a text stands for.

    Raises
    ------
    ValueError
        It stands for none.
    """
    kind, name, pattern, principal, host, permission, operation = json.loads(text)
    rule = AclRule(principal, Operation(operation), ResourceKind(kind), name, PatternKind(pattern))
    return AclBinding(rule, Permission(permission), host)


def limit_key(limit: Limit) -> str:
    """Return the text that stands for a limit in keys."""
    return json.dumps([limit.entity.parts, limit.key], separators=(",", ":"))


def limit_of(text: str) -> Limit:
    """Return the limit that a text stands for.

    Raises
    ------
    ValueError
        It stands for none.
    """
    parts, key = json.loads(text)
    return Limit(QuotaEntity(tuple((kind, name) for kind, name in parts)), key)
