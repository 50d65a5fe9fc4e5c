"""The permissions that a link needs at its source and at its target, and no others.

The tables of operations (`SOURCE_TOPIC`, `MIRROR_TOPIC`, `STATE_TOPIC` and so on) are the only
place that says which operations Heliostat requests of a cluster. A test runs a whole link with
just these permissions, and revokes each in turn. WRITE on any topic is enough for a producer id
since 2.8 (KIP-679); READ and WRITE on a topic imply DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from heliostat.clusters.acl import CLUSTER_NAME, AclRule, Operation, PatternKind, ResourceKind
from heliostat.clusters.admin.topic_calls import PROBE_TOPIC
from heliostat.config import STATE_TOPIC_PREFIX, Config, LinkConfig, StartAtGroup
from heliostat.groups.naming import GROUP, group_naming_of
from heliostat.groups.progress import progress_group
from heliostat.mm2.adopt_plan import Peer
from heliostat.names import Alias, LinkName, TopicName
from heliostat.state_topics import DEFINITIONS_TOPIC, PRODUCERS_TOPIC
from heliostat.topics.naming import TOPIC, naming_of
from heliostat.topics.reach import Reach, reach_of
from heliostat.topics.replication_policy import HEARTBEATS, policy_of

PRINCIPAL_DEFAULT = "User:heliostat"
"""Principal if neither an option nor the configuration names a user."""

SOURCE_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.READ: "copy and verify records",
        Operation.DESCRIBE_CONFIGS: "give mirrors the same settings",
    }
)
MIRROR_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.WRITE: "append records",
        Operation.READ: "verify what arrived",
        Operation.CREATE: "create mirrors",
        Operation.ALTER: "add partitions",
        Operation.DELETE: "delete padding below the source's first offset, and what the source has "
        "deleted (topics.follow_deletes); recreate a mirror",
        Operation.ALTER_CONFIGS: "compare and sync settings (implies DescribeConfigs)",
    }
)
STATE_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.WRITE: "store the link's state and reports",
        Operation.READ: "continue after a restart, show status",
        Operation.CREATE: "create the link's own topics",
        Operation.DESCRIBE_CONFIGS: "check that they are compacted",
    }
)
PROBE: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.CREATE: "ask what a new topic would inherit (only validated, never created)",
        Operation.DESCRIBE_CONFIGS: "read the answer",
    }
)
HEARTBEATS_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.WRITE: "write heartbeats (heartbeats.emit, heartbeats.at_target)",
        Operation.CREATE: "create the topic, if it is missing",
    }
)
CHECKPOINTS_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.WRITE: "write groups' offsets (checkpoints.emit)",
        Operation.READ: "know what was written before a restart",
        Operation.CREATE: "create the topic, if it is missing",
    }
)
OFFSET_SYNCS_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.WRITE: "write pairs of offsets (offset_syncs.emit)",
        Operation.CREATE: "create the topic, if it is missing",
    }
)
SOURCE_GROUP: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE: "see groups and what they have committed"}
)
START_GROUP: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE: "let new mirrors begin where it stands (topics.start)"}
)
TARGET_GROUP: Mapping[Operation, str] = MappingProxyType(
    {Operation.READ: "publish groups' offsets (groups.sync), see whether they have members"}
)
PROGRESS_GROUP: Mapping[Operation, str] = MappingProxyType(
    {Operation.READ: "commit how far the link has copied (metrics.progress_group)"}
)
OWNER_ID: Mapping[Operation, str] = MappingProxyType(
    {Operation.WRITE: "announce the link's owner, fenced by a transactional id (I10)"}
)
POSITIONS_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.READ: "read what MirrorMaker 2 has committed (adopt)",
        Operation.WRITE: "write where it continues (adopt --back)",
    }
)
STATE_OF_LINKS: Mapping[Operation, str] = MappingProxyType(
    {Operation.READ: "see which mirrors other links have, to leave them to those links (adopt)"}
)
MERGED_BESIDE: Mapping[Operation, str] = MappingProxyType(
    {Operation.READ: "see what other links have merged there: where groups go on"}
)
STATE_AT_SOURCE: Mapping[Operation, str] = MappingProxyType(
    {Operation.READ: "see other links' mirrors there, so that none of them is mirrored back"}
)
WORKERS_GROUP: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE: "check that MirrorMaker 2's workers are gone (adopt)"}
)
TARGET_CLUSTER: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE_CONFIGS: "read producer.id.expiration.ms of the brokers"}
)
SOURCE_RIGHTS: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE: "see ACLs (access.sync_acls) and SCRAM users (access.users_file)"}
)
SOURCE_QUOTAS: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE_CONFIGS: "see client quotas (access.sync_quotas)"}
)
TARGET_RIGHTS: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.ALTER: "make and remove ACLs (access.sync_acls), make SCRAM users "
        "(access.users_file)",
        Operation.DESCRIBE: "see ACLs, to leave other people's alone (access.sync_acls)",
    }
)
TARGET_QUOTAS: Mapping[Operation, str] = MappingProxyType(
    {Operation.ALTER_CONFIGS: "set client quotas (access.sync_quotas)"}
)
"""To describe them `DescribeConfigs` is needed, which every link has at its target."""
RULES: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.ALTER: "see and change rules that protect mirrors (topics.protect); it is the "
        "right to give any right"
    }
)
MARKERS: Mapping[Operation, str] = MappingProxyType(
    {Operation.CLUSTER_ACTION: "fill holes with transaction markers (topics.offsets: exact)"}
)


HOME_TOPIC: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.READ: "know the links and connectors that are made by API (service.home)",
        Operation.WRITE: "make, change and delete them (serve, links create, Kafka Connect's API)",
        Operation.CREATE: "create the topic, if it is missing",
        Operation.DESCRIBE_CONFIGS: "check that it is compacted",
    }
)
MERGING: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.READ: "tell which records links have brought there (topics.naming: merge)",
        Operation.WRITE: "name the link's own producer ids, so that its records don't come back",
        Operation.CREATE: "create the topic, if it is missing",
        Operation.DESCRIBE_CONFIGS: "check that it is compacted",
    }
)
MERGED_SOURCE: Mapping[Operation, str] = MappingProxyType(
    {operation: MERGING[operation] for operation in MERGING if operation is not Operation.WRITE}
)
_Wanted: TypeAlias = tuple[ResourceKind, Reach, Mapping[Operation, str]]


@dataclass(frozen=True, slots=True)
class Grant:
    """One ACL rule, and what it is for."""

    rule: AclRule
    why: str
    verb: str = ""
    """The verb that needs it; empty: the link itself."""


@dataclass(frozen=True, slots=True)
class ClusterGrants:
    """Permissions that a link needs on one side.

    Parameters
    ----------
    side
        `source`, `target` or `home`.
    cluster
        Alias of the cluster.
    bootstrap
        Its bootstrap servers, separated by commas.
    principal
        Principal that gets the permissions.
    grants
        Rules by resource, the most important first.
    notes
        Where a rule allows more than the link needs, and other remarks.
    """

    side: str
    cluster: str
    bootstrap: str
    principal: str
    grants: tuple[Grant, ...]
    notes: tuple[str, ...]

    @property
    def rules(self) -> tuple[AclRule, ...]:
        """The rules, without their purpose."""
        return tuple(grant.rule for grant in self.grants)

    @property
    def verbs(self) -> tuple[str, ...]:
        """Who needs some of them: the link itself first, as an empty name."""
        return tuple(dict.fromkeys(grant.verb for grant in self.grants))

    def commands(self, verb: str | None = None) -> tuple[str, ...]:
        """Return one `kafka-acls` command for each resource, of one verb or of all."""
        by_resource: dict[tuple[ResourceKind, str, PatternKind], list[Operation]] = {}
        for rule in (grant.rule for grant in self.grants if verb in (None, grant.verb)):
            by_resource.setdefault((rule.kind, rule.name, rule.pattern), []).append(rule.operation)
        return tuple(self._command(*key, operations) for key, operations in by_resource.items())

    def _command(
        self, kind: ResourceKind, name: str, pattern: PatternKind, operations: Iterable[Operation]
    ) -> str:
        words = ["kafka-acls.sh --bootstrap-server", self.bootstrap]
        words += ["--command-config admin.properties --add"]
        words += ["--allow-principal", f"'{self.principal}'"]
        words += [f"--operation {operation.value}" for operation in operations]
        if kind is ResourceKind.CLUSTER:
            words.append("--cluster")
        else:
            words += [f"--{kind.value} '{name}'", f"--resource-pattern-type {pattern.value}"]
        return " ".join(words)

    def to_json(self) -> dict[str, object]:
        """Return the answer for `--json`."""
        return {
            "side": self.side,
            "cluster": self.cluster,
            "principal": self.principal,
            "acls": [
                {
                    "resource_type": grant.rule.kind.name,
                    "pattern_type": grant.rule.pattern.name,
                    "name": grant.rule.name,
                    "operation": grant.rule.operation.name,
                    "why": grant.why,
                    "verb": grant.verb,
                }
                for grant in self.grants
            ],
            "commands": list(self.commands()),
            "notes": list(self.notes),
        }


def link_grants(
    config: Config,
    link: LinkConfig,
    principal: str | None = None,
    peer: Peer | None = None,
) -> tuple[ClusterGrants, ClusterGrants]:
    """Return the permissions a link needs at its source and at its target; contacts no cluster.

    Parameters
    ----------
    config
        The configuration.
    link
        The link.
    principal
        Principal on both clusters; by default the user name in each cluster's configuration.
    peer
        MirrorMaker 2 that the link is to take over from, and may hand back to; None if there is
        none.
    """
    reaches = reach_of(link.topics.include)
    mirrors = [_mirrored(link, topic_reach) for topic_reach in reaches]
    topic, own = ResourceKind.TOPIC, f"{STATE_TOPIC_PREFIX}{link.name}."
    target: list[_Wanted] = [
        *((topic, mirror, MIRROR_TOPIC) for mirror in mirrors),
        (topic, Reach(own, PatternKind.PREFIXED), STATE_TOPIC),
        (topic, Reach(PROBE_TOPIC), PROBE),
        (ResourceKind.TRANSACTIONAL_ID, Reach(f"{own}owner"), OWNER_ID),
        (ResourceKind.CLUSTER, Reach(CLUSTER_NAME), TARGET_CLUSTER),
    ]
    if link.topics.offsets == "exact":
        target.append((ResourceKind.CLUSTER, Reach(CLUSTER_NAME), MARKERS))
    source: list[_Wanted] = [(topic, topic_reach, SOURCE_TOPIC) for topic_reach in reaches]
    if link.topics.merges:
        source.append((topic, Reach(PRODUCERS_TOPIC), MERGED_SOURCE))
        target.append((topic, Reach(PRODUCERS_TOPIC), MERGING))
        target.append((topic, Reach(STATE_TOPIC_PREFIX, PatternKind.PREFIXED), MERGED_BESIDE))
    for side, operations in _rights(link):
        wanted = source if side == "source" else target
        wanted.append((ResourceKind.CLUSTER, Reach(CLUSTER_NAME), operations))
    if not any(topic_reach.is_everything for topic_reach in reaches):
        source.append((topic, Reach(STATE_TOPIC_PREFIX, PatternKind.PREFIXED), STATE_AT_SOURCE))
    if link.groups.sync or link.checkpoints.emit:
        group, at_target = ResourceKind.GROUP, TARGET_GROUP if link.groups.sync else SOURCE_GROUP
        for group_reach in reach_of(link.groups.include):
            source.append((group, group_reach, SOURCE_GROUP))
            target.append(
                (group, _renamed(group_reach, group_naming_of(link).rule, GROUP), at_target)
            )
    start = link.topics.start
    if isinstance(start, StartAtGroup):
        reach = Reach(start.group)
        if not any(k is ResourceKind.GROUP and wide.covers(reach) for k, wide, _ in source):
            source.append((ResourceKind.GROUP, reach, START_GROUP))
    progress = progress_group(config.metrics.progress_group, LinkName(link.name))
    if progress is not None:
        source.append((ResourceKind.GROUP, Reach(progress), PROGRESS_GROUP))
    for side, name, operations in _interchange(link):
        wanted = source if side == "source" else target
        if not _is_held(name, operations, wanted):
            wanted.append((topic, Reach(name), operations))
    target += _adoption(peer)
    return (
        _side(config, ("source", link.source), principal, source, link),
        _side(config, ("target", link.target), principal, target, link),
    )


def home_grants(config: Config, principal: str | None = None) -> tuple[ClusterGrants, ...]:
    """Return what is needed where links by API are kept; nothing without such a cluster.

    Who only runs links may do with `Read`.
    """
    if config.service.home is None:
        return ()
    wanted: list[_Wanted] = [(ResourceKind.TOPIC, Reach(DEFINITIONS_TOPIC), HOME_TOPIC)]
    return (_side(config, ("home", config.service.home), principal, wanted),)


def _rights(link: LinkConfig) -> Iterator[tuple[str, Mapping[Operation, str]]]:
    """Yield what is needed to follow others' rights, and to keep others out: side, operations."""
    if link.access.sync_acls or link.access.users_file is not None:
        yield "source", SOURCE_RIGHTS
        yield "target", TARGET_RIGHTS
    elif link.topics.protect:
        yield "target", RULES
    if link.access.sync_quotas:
        yield "source", SOURCE_QUOTAS
        yield "target", TARGET_QUOTAS


def _interchange(link: LinkConfig) -> Iterator[tuple[str, str, Mapping[Operation, str]]]:
    """Yield topics written or mirrored for MirrorMaker 2's clients: side, name, operations."""
    policy = policy_of(link)
    if link.heartbeats.are_mirrored:
        yield "source", HEARTBEATS, SOURCE_TOPIC
        yield "target", naming_of(link).target_name(HEARTBEATS), MIRROR_TOPIC
    if link.heartbeats.emit:
        yield "source", HEARTBEATS, HEARTBEATS_TOPIC
    if link.heartbeats.at_target:
        yield "target", HEARTBEATS, HEARTBEATS_TOPIC
    if link.checkpoints.emit:
        yield "target", policy.checkpoints_topic(link.source), CHECKPOINTS_TOPIC
    syncs = link.offset_syncs
    if syncs.emit:
        other = link.target if syncs.location == "source" else link.source
        yield syncs.location, policy.offset_syncs_topic(other), OFFSET_SYNCS_TOPIC


def _adoption(peer: Peer | None) -> Iterator[_Wanted]:
    """Yield what a takeover needs at the target besides the link's own permissions."""
    if peer is None:
        return
    yield ResourceKind.TOPIC, Reach(peer.offsets_topic), POSITIONS_TOPIC
    yield ResourceKind.TOPIC, Reach(STATE_TOPIC_PREFIX, PatternKind.PREFIXED), STATE_OF_LINKS
    if peer.group is not None:
        yield ResourceKind.GROUP, Reach(peer.group), WORKERS_GROUP


def _is_held(name: str, operations: Mapping[Operation, str], wanted: Iterable[_Wanted]) -> bool:
    """Return whether permissions in the list already include these."""
    return any(
        reach.covers(Reach(name)) and set(operations) <= set(given)
        for kind, reach, given in wanted
        if kind is ResourceKind.TOPIC
    )


def _mirrored(link: LinkConfig, reach: Reach) -> Reach:
    """Return the mirrors' names for a set of source topics."""
    naming = naming_of(link)
    if reach.pattern is PatternKind.LITERAL and not reach.is_everything:
        return Reach(naming.target_name(TopicName(reach.name)))
    return _renamed(reach, naming.rule, TOPIC)


def _renamed(reach: Reach, rule: str, variable: str) -> Reach:
    """Return the names at the target for a set of names at the source."""
    before, _, after = rule.partition(variable)
    if reach.is_everything:
        if not before:
            return reach
        return Reach(before, PatternKind.PREFIXED, exact=reach.exact and not after)
    if reach.pattern is PatternKind.LITERAL:
        return Reach(rule.replace(variable, reach.name))
    return Reach(before + reach.name, PatternKind.PREFIXED, exact=reach.exact and not after)


def _side(
    config: Config,
    place: tuple[str, Alias],
    principal: str | None,
    wanted: Iterable[_Wanted],
    link: LinkConfig | None = None,
) -> ClusterGrants:
    side, alias = place
    cluster = config.clusters[alias]
    user = cluster.security.known_principal
    who = principal or user or PRINCIPAL_DEFAULT
    grants: list[Grant] = []
    notes: list[str] = []
    for kind, reach, operations in wanted:
        for operation, why in operations.items():
            grants.append(Grant(AclRule(who, operation, kind, reach.name, reach.pattern), why))
        if link is not None and operations in (SOURCE_TOPIC, MIRROR_TOPIC):
            notes.extend(_notes(reach, link))
        elif kind is ResourceKind.GROUP and not reach.exact:
            notes.append(f"all groups that begin with {reach.name} are allowed")
        elif operations == POSITIONS_TOPIC:
            notes.append(f"Write on {reach.name} is for `adopt --back` only")
    if link is not None and link.heartbeats.are_mirrored:
        notes.append("heartbeats topics of clusters further upstream need these permissions, too")
    if principal is None and user is None:
        notes.append(f"no user name is configured: replace {who} by the principal that connects")
    return ClusterGrants(side, alias, ",".join(cluster.bootstrap), who, tuple(grants), tuple(notes))


def _notes(reach: Reach, link: LinkConfig) -> Iterator[str]:
    if reach.is_everything:
        yield "the expressions begin with no fixed text, so all topics are allowed"
    elif not reach.exact:
        yield f"all topics that begin with {reach.name} are allowed; the link selects some of them"
    if link.topics.exclude and reach.pattern is PatternKind.PREFIXED and reach.exact:
        yield f"excluded topics that begin with {reach.name} are allowed as well"
