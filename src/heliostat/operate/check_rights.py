"""Whether we have the rights that `heliostat acls` prints for a link, by asking brokers for each.

A rule for a prefix is asked about for each topic that is there, and for one that nobody has: topics
that are made later need the right, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from heliostat.clusters.acl import CLUSTER_NAME, PatternKind, ResourceKind
from heliostat.clusters.admin.right_calls import NOBODY, May, Right
from heliostat.names import TopicName
from heliostat.operate.acls import ClusterGrants, Grant
from heliostat.operate.finding import Finding, fine, note, problem
from heliostat.topics.reach import Reach

NAMED = 3
"""Most resources named one by one in a line."""


def rights_asked(
    grants: Iterable[Grant], topics: Collection[TopicName]
) -> dict[Grant, list[Right]]:
    """Return for each grant what to ask brokers for.

    Parameters
    ----------
    topics
        That the link has, or will have, at this side.
    """
    return {grant: list(_rights_of(grant, topics)) for grant in grants}


def _rights_of(grant: Grant, topics: Collection[TopicName]) -> Iterator[Right]:
    rule = grant.rule
    if rule.kind is ResourceKind.CLUSTER:
        yield Right(rule.kind, CLUSTER_NAME, rule.operation)
        return
    reach = Reach(rule.name, rule.pattern)
    if rule.kind is ResourceKind.TOPIC:
        for topic in sorted(topics):
            if reach.covers(Reach(topic)):
                yield Right(rule.kind, topic, rule.operation)
    name = made_up_name(reach)
    if name not in topics:
        yield Right(rule.kind, name, rule.operation)


def made_up_name(reach: Reach) -> str:
    """Return a name that a rule covers; of rules for many, one that nobody has."""
    if reach.is_everything:
        return NOBODY
    return f"{reach.name}{NOBODY}" if reach.pattern is PatternKind.PREFIXED else reach.name


def refused(rights: Iterable[Right], answers: May) -> list[Right]:
    """Return what brokers refuse; what they don't show is not in it."""
    return [right for right in rights if answers.get(right) is False]


def real(rights: Iterable[Right]) -> list[Right]:
    """Return rights without those for names that nobody has yet."""
    return [right for right in rights if not right.name.endswith(NOBODY)]


def rights_findings(
    subject: str, side: ClusterGrants, asked: Mapping[Grant, list[Right]], answers: May
) -> Iterator[Finding]:
    """Yield what is missing, one line a rule, or one line that nothing is."""
    hidden: list[str] = []
    missing = 0
    for grant, rights in asked.items():
        lacking = refused(rights, answers)
        if any(answers.get(right) is None for right in rights):
            hidden.append(rule_text(grant))
        if not lacking:
            continue
        missing += 1
        yield _missing(subject, side, grant, rights, lacking)
    if hidden:
        yield note(
            *(subject, "RIGHT_NOT_SHOWN"),
            f"the {side.side} does not show whether it gives: {'; '.join(hidden)}",
            "check --try tries most of them at the target",
        )
    if not missing:
        yield fine(subject, f"{len(asked) - len(hidden)} of {len(asked)} rights at the {side.side}")


def _missing(
    subject: str, side: ClusterGrants, grant: Grant, rights: list[Right], lacking: list[Right]
) -> Finding:
    named, there = real(lacking), real(rights)
    text = f"the {side.side} does not give {rule_text(grant)}"
    if named and len(named) < len(there):
        text += f", refused for {_names(named)}"
    elif not named and there:
        text += f"; for the {len(there)} topics that are there it does, not for those to come"
    hint = f"it is needed to {grant.why}; heliostat acls prints the commands"
    if not named and there:
        return note(subject, "RIGHT_MISSING_FOR_NEW_TOPICS", text, hint)
    return problem(subject, "RIGHT_MISSING", text, hint)


def rule_text(grant: Grant) -> str:
    """Return a rule in words, without its principal."""
    rule = grant.rule
    if rule.kind is ResourceKind.CLUSTER:
        return f"{rule.operation.value} on the cluster"
    prefixed = "names that begin with " if rule.pattern is PatternKind.PREFIXED else ""
    return f"{rule.operation.value} on {rule.kind.value} {prefixed}{rule.name}"


def _names(rights: list[Right]) -> str:
    left = len(rights) - NAMED
    names = ", ".join(right.name for right in rights[:NAMED])
    return names + (f" and {left} more" if left > 0 else "")


def all_rights(asked: Iterable[Mapping[Grant, list[Right]]]) -> set[Right]:
    """Return every right that is asked for, once."""
    return {right for by_grant in asked for rights in by_grant.values() for right in rights}
