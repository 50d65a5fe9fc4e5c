"""What was kept ready is granted, as topics are promoted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from heliostat.clusters.acl import AclBinding, PatternKind
from heliostat.errors import BrokerError
from heliostat.names import TopicName
from heliostat.security.ledger import ACL, HELD, PROMOTED, Held, Ledger, acl_key
from heliostat.security.observe import Security, seen_acls
from heliostat.security.wanted_acls import pattern_of


@dataclass(slots=True)
class Granted:
    """What was granted, and what the target refused."""

    granted: list[AclBinding] = field(default_factory=list)
    failed: dict[AclBinding, BrokerError] = field(default_factory=dict)


def grant_held(
    ledger: Ledger,
    target: Security,
    promoted: Collection[TopicName],
    remaining: Collection[TopicName],
) -> Granted:
    """Grant what was kept ready for these topics; it may be called again after a failure.

    From then on nothing is synced about them. A rule for a prefix, or for all topics, is granted
    topic by topic until the last mirror that it is for is promoted.

    Parameters
    ----------
    promoted
        Names at the target of the topics that are promoted now.
    remaining
        Names at the target of the link's other mirrors.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """
    ledger.read()
    ledger.write({f"{PROMOTED}{topic}": {} for topic in promoted})
    answer, there = Granted(), seen_acls(target).bindings
    for held, row in sorted(ledger.held.items(), key=lambda item: item[0].sort_key):
        bindings = list(_now(held, sorted(promoted), remaining))
        if not bindings:
            continue
        if bindings != [held]:  # what stands in for it goes when it is granted itself
            parts = [*row.parts, *(part for part in bindings if _stands_in(part, row, ledger))]
            ledger.write({f"{HELD}{acl_key(held)}": {"parts": [acl_key(part) for part in parts]}})
        new = [acl for acl in bindings if acl in ledger.acls or acl not in there]
        ledger.write({f"{ACL}{acl_key(acl)}": {"made": True} for acl in new})
        failed = False
        for binding, error in (target.create_acls(new) if new else {}).items():
            if error is None:
                answer.granted.append(binding)
            else:
                failed = True
                answer.failed[binding] = error
                ledger.write({f"{ACL}{acl_key(binding)}": None})
        if bindings == [held] and not failed:
            _replaced(ledger, target, held, row)
    return answer


def to_grant(
    ledger: Ledger, promoted: Collection[TopicName], remaining: Collection[TopicName]
) -> list[AclBinding]:
    """Return what `grant_held` would grant; changes nothing."""
    ledger.read()
    held = sorted(ledger.held, key=lambda binding: binding.sort_key)
    return [rule for binding in held for rule in _now(binding, sorted(promoted), remaining)]


def _stands_in(binding: AclBinding, row: Held, ledger: Ledger) -> bool:
    """Return whether the source has no such rule itself."""
    is_own = binding in ledger.acls or binding in ledger.held
    return not is_own and binding not in row.parts


def _now(
    held: AclBinding, promoted: Collection[TopicName], remaining: Collection[TopicName]
) -> Iterator[AclBinding]:
    """Yield what is granted of a held rule: itself, or the like for single topics."""
    pattern = pattern_of(held)
    covered = [topic for topic in promoted if pattern.covers(topic)]
    if covered and not any(pattern.covers(topic) for topic in remaining):
        yield held
        return
    for topic in covered:
        rule = replace(held.rule, name=topic, pattern=PatternKind.LITERAL)
        yield replace(held, rule=rule)


def _replaced(ledger: Ledger, target: Security, held: AclBinding, row: Held) -> None:
    """Remove what was granted in place of a rule that is granted itself now."""
    parts = [part for part in row.parts if part in ledger.acls and part != held]
    answers = target.delete_acls(parts) if parts else {}
    gone = [part for part, answer in answers.items() if not isinstance(answer, BrokerError)]
    rows: dict[str, None] = {f"{ACL}{acl_key(part)}": None for part in gone}
    ledger.write(rows | {f"{HELD}{acl_key(held)}": None})
