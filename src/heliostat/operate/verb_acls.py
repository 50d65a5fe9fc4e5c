"""What the verbs need that move a link, beside what the link itself needs: by verb, at both sides.

Tests run each verb with just these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from heliostat.clusters.acl import (
    CLUSTER_NAME,
    EVERYTHING,
    AclRule,
    Operation,
    PatternKind,
    ResourceKind,
)
from heliostat.clusters.admin.topic_calls import PROBE_TOPIC
from heliostat.config import STATE_TOPIC_PREFIX, Config, LinkConfig
from heliostat.handover.drill import PREFIX
from heliostat.mm2.adopt_plan import Peer
from heliostat.operate.acls import (
    MIRROR_TOPIC,
    PROBE,
    SOURCE_TOPIC,
    STATE_OF_LINKS,
    STATE_TOPIC,
    TARGET_CLUSTER,
    ClusterGrants,
    Grant,
    link_grants,
)
from heliostat.topics.reach import Reach, reach_of

SWITCH, FAILOVER, REVERSE, DRILL = "switch", "failover", "reverse", "drill"
_OPTIONAL = "without it they are stopped by hand"
FENCE: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.ALTER: f"keep the source's producers out by rules; {_OPTIONAL}",
        Operation.DESCRIBE_CONFIGS: "see whether there are super users, whom no rule keeps out",
    }
)
READERS: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.DESCRIBE: "see every group that reads at the source; without it only those that "
        "the link may see are named and waited for"
    }
)
RUN_ID: Mapping[Operation, str] = MappingProxyType(
    {Operation.WRITE: "carry out a run of steps, fenced by a transactional id"}
)
WRITERS: Mapping[Operation, str] = MappingProxyType(
    {Operation.DESCRIBE: "name transactional ids that still write at the source (--rolling)"}
)
SHUT_OUT: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.ALTER: "keep the link out of its mirrors by rules where its driver is silent; "
        "without it its leases are waited out",
        Operation.DESCRIBE_CONFIGS: "see whether the link is a super user, for who is not the link "
        "itself; without it leases are waited out",
    }
)
MADE_UP_TOPIC: Mapping[Operation, str] = MappingProxyType(
    dict.fromkeys({**SOURCE_TOPIC, **MIRROR_TOPIC}, "make, write, read, mirror and delete topics")
)
MADE_UP_STATE: Mapping[Operation, str] = MappingProxyType(
    {
        **dict.fromkeys(STATE_TOPIC, "keep the state of the drill's links"),
        Operation.DELETE: "leave nothing of it",
    }
)
MADE_UP_GROUP: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.READ: "read as groups, and publish their offsets",
        Operation.DELETE: "leave nothing of them",
    }
)
MADE_UP_ID: Mapping[Operation, str] = MappingProxyType(
    {Operation.WRITE: "own the drill's links, and carry out their runs"}
)
LAST_TO_MOVE: Mapping[Operation, str] = MappingProxyType(
    {Operation.READ: "follow groups that still run where a way back leads"}
)
MADE_ANEW: Mapping[Operation, str] = MappingProxyType(
    {Operation.DELETE: "make topics anew whose tail was rescued (--tail recreate)"}
)
STATE_OF_OTHERS: Mapping[Operation, str] = MappingProxyType(
    dict.fromkeys(STATE_OF_LINKS, "see which mirrors other links have, to leave them alone")
)
NOTES: Mapping[Operation, str] = MappingProxyType(
    {Operation.DELETE: "remove the topic of drills' rows"}
)


@dataclass(frozen=True, slots=True)
class VerbRight:
    """Operations on one resource that a verb needs."""

    verb: str
    kind: ResourceKind
    reach: Reach
    operations: Mapping[Operation, str]


def grants_of_verbs(
    config: Config, link: LinkConfig, principal: str | None = None, peer: Peer | None = None
) -> tuple[ClusterGrants, ClusterGrants]:
    """Return a link's permissions and those of each verb that moves it; contacts no cluster.

    Parameters
    ----------
    principal, peer
        As `link_grants`.
    """
    source, target = link_grants(config, link, principal, peer)
    source = _with(source, [*_at_source(link), *_back(config, link, 1)])
    target = _with(target, [*_at_target(link), *_back(config, link, 0)])
    if not _ways_back(config, link):
        verb = "switch --finish" if link.topics.merges else "reverse"
        note = (
            f"{verb} needs what a link from {link.target} to {link.source} needs: add one to the "
            "configuration, and it is printed, too"
        )
        source = replace(source, notes=(*source.notes, note))
    note = "tail needs no more than the link; its records' new topic (--to-topic) needs Write"
    return source, replace(target, notes=(*target.notes, note))


def _at_source(link: LinkConfig) -> Iterator[VerbRight]:
    yield VerbRight(SWITCH, ResourceKind.CLUSTER, Reach(CLUSTER_NAME), FENCE)
    if link.topics.merges:
        yield VerbRight(SWITCH, ResourceKind.TRANSACTIONAL_ID, Reach(EVERYTHING), WRITERS)
    yield VerbRight(SWITCH, ResourceKind.GROUP, Reach(EVERYTHING), READERS)
    yield from _made_up()


def _at_target(link: LinkConfig) -> Iterator[VerbRight]:
    own = f"{STATE_TOPIC_PREFIX}{link.name}."
    cluster = ResourceKind.CLUSTER
    yield VerbRight(SWITCH, ResourceKind.TRANSACTIONAL_ID, Reach(f"{own}run"), RUN_ID)
    yield VerbRight(FAILOVER, cluster, Reach(CLUSTER_NAME), SHUT_OUT)
    yield from _made_up()
    yield VerbRight(DRILL, ResourceKind.TOPIC, Reach(f"{own}drills"), NOTES)


def made_up_names() -> Iterator[VerbRight]:
    """Yield what a drill needs on topics and ids whose names it makes up, at either side."""
    prefixed, topic = PatternKind.PREFIXED, ResourceKind.TOPIC
    own = Reach(f"{STATE_TOPIC_PREFIX}{PREFIX}", prefixed)
    yield VerbRight(DRILL, topic, Reach(PREFIX, prefixed), MADE_UP_TOPIC)
    yield VerbRight(DRILL, topic, own, MADE_UP_STATE)
    yield VerbRight(DRILL, ResourceKind.TRANSACTIONAL_ID, own, MADE_UP_ID)


def _made_up() -> Iterator[VerbRight]:
    """Yield what a drill needs at either side: both are its source once, and its target."""
    prefixed, topic = PatternKind.PREFIXED, ResourceKind.TOPIC
    yield from made_up_names()
    yield VerbRight(DRILL, topic, Reach(STATE_TOPIC_PREFIX, prefixed), STATE_OF_OTHERS)
    yield VerbRight(DRILL, topic, Reach(PROBE_TOPIC), PROBE)
    yield VerbRight(DRILL, ResourceKind.GROUP, Reach(PREFIX, prefixed), MADE_UP_GROUP)
    yield VerbRight(DRILL, ResourceKind.CLUSTER, Reach(CLUSTER_NAME), TARGET_CLUSTER)
    yield VerbRight(DRILL, ResourceKind.CLUSTER, Reach(CLUSTER_NAME), FENCE)


def _ways_back(config: Config, link: LinkConfig) -> list[LinkConfig]:
    return [
        back
        for back in config.links
        if (back.source, back.target) == (link.target, link.source)
        and back.topics.fan_in is None
        and not back.pipelines
    ]


def _back(config: Config, link: LinkConfig, side: int) -> Iterator[VerbRight]:
    """Yield what the links need that lead back; their target is the link's source.

    Where topics are merged they copy already, and the end of a rolling switch ends them as well.
    """
    verb = SWITCH if link.topics.merges else REVERSE
    for back in _ways_back(config, link):
        for grant in link_grants(config, back)[side].grants:
            reach = Reach(grant.rule.name, grant.rule.pattern)
            operations = {grant.rule.operation: f"link {back.name}: {grant.why}"}
            yield VerbRight(verb, grant.rule.kind, reach, operations)
            is_made_anew = verb == REVERSE and side == 1
            if is_made_anew and grant.why == MIRROR_TOPIC[Operation.CREATE]:
                yield VerbRight(REVERSE, ResourceKind.TOPIC, reach, MADE_ANEW)
        if side == 1 and link.groups.sync and verb == REVERSE:
            for group_reach in reach_of(link.groups.include):
                yield VerbRight(REVERSE, ResourceKind.GROUP, group_reach, LAST_TO_MOVE)


def _with(side: ClusterGrants, rights: list[VerbRight]) -> ClusterGrants:
    """Return a side's grants with those that it does not have yet."""
    grants = list(side.grants)
    for right in rights:
        for operation, why in right.operations.items():
            rule = AclRule(
                side.principal, operation, right.kind, right.reach.name, right.reach.pattern
            )
            if not any(_covers(grant.rule, rule) for grant in grants):
                grants.append(Grant(rule, why, right.verb))
    return replace(side, grants=tuple(grants))


def _covers(held: AclRule, rule: AclRule) -> bool:
    return (held.kind, held.operation) == (rule.kind, rule.operation) and Reach(
        held.name, held.pattern
    ).covers(Reach(rule.name, rule.pattern))
