"""What rules can't keep anybody from, and why; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from heliostat.names import TopicName

NAMED = 3
"""Most topics named one by one in a line."""


class Why(Enum):
    """Why somebody can't be denied to write."""

    NO_AUTHORIZER = "no_authorizer"
    MAY_NOT_SEE = "may_not_see"
    MAY_NOT_CHANGE = "may_not_change"
    NO_RULE_FOR_LINK = "no_rule_for_link"
    WHO_WE_ARE = "who_we_are"
    SUPER_USERS = "super_users"
    SUPER_USERS_HIDDEN = "super_users_hidden"
    EVERYBODY = "everybody"
    NO_RULE = "no_rule"
    OPEN = "open"
    REFUSED = "refused"


ABOUT_SUPER_USERS = frozenset({Why.SUPER_USERS, Why.SUPER_USERS_HIDDEN})
"""Most clusters have some: brokers are."""
_WORDS = {
    Why.NO_AUTHORIZER: "the brokers have no authorizer: everybody may write",
    Why.MAY_NOT_SEE: "the link may not see rules: grant it Describe and Alter on the cluster",
    Why.MAY_NOT_CHANGE: "the link may not change rules: grant it Alter on the cluster",
    Why.NO_RULE_FOR_LINK: "no rule lets {who} write there, the link itself",
    Why.WHO_WE_ARE: "the link does not know its name at the brokers, and might deny itself: set "
    "clusters.*.security.principal",
    Why.SUPER_USERS: "no rule holds for super users: {who}",
    Why.SUPER_USERS_HIDDEN: "no rule holds for super users, and brokers don't show who they are",
    Why.EVERYBODY: "a rule lets {who} write: one that denies everybody would deny the link",
    Why.NO_RULE: "no rule is there: if brokers have allow.everyone.if.no.acl.found, everybody may "
    "write, and a rule of ours would take reading from them as well",
    Why.OPEN: "no rule is there, so everybody may write (allow.everyone.if.no.acl.found); a rule "
    "of ours would take reading from them as well",
    Why.REFUSED: "the target refuses: {who}",
}


@dataclass(frozen=True, slots=True)
class Cannot:
    """Somebody who can't be denied to write."""

    why: Why
    who: str = ""
    """Whom it is about: principals, or the rule that lets them."""
    topics: tuple[TopicName, ...] = ()
    """Where; empty: everywhere."""

    def text(self) -> str:
        """Return a line about it."""
        words = _WORDS[self.why].format(who=self.who)
        if not self.topics:
            return words
        left = len(self.topics) - NAMED
        more = f" and {left} more" if left > 0 else ""
        return f"{', '.join(self.topics[:NAMED])}{more}: {words}"

    def to_json(self) -> dict[str, object]:
        """Return it for reports."""
        return {
            "why": self.why.value,
            "who": self.who,
            "topics": list(self.topics),
            "text": self.text(),
        }


def gathered(problems: Iterable[tuple[Why, str, TopicName]]) -> tuple[Cannot, ...]:
    """Return one entry for all topics that have the same reason, in order."""
    topics: dict[tuple[Why, str], list[TopicName]] = {}
    for why, who, topic in problems:
        topics.setdefault((why, who), []).append(topic)
    return tuple(Cannot(why, who, tuple(sorted(some))) for (why, who), some in topics.items())
