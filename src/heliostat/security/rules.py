"""How a link follows ACLs, as its configuration says."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heliostat.config import ClusterConfig, LinkConfig
from heliostat.groups.naming import GROUP, group_naming_of
from heliostat.groups.select import compile_selection
from heliostat.names import TopicName
from heliostat.security.names import ResourceNames
from heliostat.security.sync import AccessPlan, AccessSync
from heliostat.security.wanted_acls import AclRules
from heliostat.topics.naming import TOPIC, naming_of
from heliostat.topics.select import selection_of


def acl_rules_of(link: LinkConfig, target: ClusterConfig) -> AclRules:
    """Return the rules of a link; its own principal is what the target's configuration says."""
    groups = compile_selection(link.groups)
    own = {target.security.known_principal}
    return AclRules(
        ResourceNames(naming_of(link).rule, TOPIC, selection_of(link).selects),
        ResourceNames(
            group_naming_of(link).rule, GROUP, lambda name: groups.by_name(name).skip is None
        ),
        link.access.principals,
        frozenset(principal for principal in own if principal is not None),
    )


def followed_topics(
    link: LinkConfig, at_source: Iterable[TopicName], mirrored: Iterable[TopicName]
) -> frozenset[TopicName]:
    """Return the source's topics whose ACLs concern a link: selected ones, and mirrored ones."""
    return frozenset(selection_of(link).choose(at_source)) | frozenset(mirrored)


def left_alone(
    link: LinkConfig, topics: Collection[TopicName], promoted: Collection[TopicName]
) -> Collection[TopicName]:
    """Return those of a link's topics whose ACLs at the target are that side's own.

    Promoted ones; and all where both sites write: a rule that was removed at one of them would come
    back from the other, by the link back.
    """
    return topics if link.topics.merges else promoted


def is_over(mirrored: Iterable[TopicName], promoted: Iterable[TopicName]) -> bool:
    """Return whether a link's last mirror was promoted: its target is no copy any more."""
    return any(True for _ in promoted) and not any(True for _ in mirrored)


def looked(
    link: LinkConfig,
    sync: AccessSync,
    at_source: Iterable[TopicName],
    mirrored: Collection[TopicName],
    promoted: Collection[TopicName],
) -> AccessPlan:
    """Return what a link would do about ACLs and quotas; changes nothing, raises as `look`.

    Parameters
    ----------
    at_source
        All topics of the source.
    mirrored, promoted
        Source topics that are mirrored now, and those whose mirrors were promoted.
    """
    topics = followed_topics(link, at_source, mirrored)
    own = left_alone(link, topics, promoted)
    return sync.look(topics, own, is_over=is_over(mirrored, promoted))
