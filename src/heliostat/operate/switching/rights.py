"""Which of the rights that `heliostat acls --switch` prints for a switch are not there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.handover.desk import Problem, Weight
from heliostat.handover.steps import first_of
from heliostat.names import TopicName
from heliostat.operate.acls import ClusterGrants, Grant
from heliostat.operate.check_rights import all_rights, real, refused, rights_asked, rule_text
from heliostat.operate.verb_acls import FENCE, READERS, RUN_ID, SWITCH, grants_of_verbs

HINT = "`heliostat acls --switch` prints the commands that grant them"


def for_switch(side: ClusterGrants, *, sees_all: bool = True) -> ClusterGrants:
    """Return what the link and its switch need; what its fence needs is judged with its rules."""
    others = {*FENCE.values(), *(() if sees_all else READERS.values())}
    grants = (each for each in side.grants if each.verb in ("", SWITCH) and each.why not in others)
    return replace(side, grants=tuple(grants))


def missing_rights(
    config: Config,
    link: LinkConfig,
    mirrors: Mapping[TopicName, TopicName],
    source: ClusterAdmin,
    target: ClusterAdmin,
    *,
    sees_all: bool = True,
) -> list[tuple[Grant, str]]:
    """Return what brokers refuse for these topics, in words; what they don't show is not named.

    Parameters
    ----------
    mirrors
        By their topic at the source.
    sees_all
        Whether groups are to be seen that the link has nothing to do with.

    Raises
    ------
    ConnectionLost
        No broker answers.
    """
    sides = grants_of_verbs(config, link)
    here, there = (for_switch(side, sees_all=sees_all) for side in sides)
    return [
        *_missing_at(here, mirrors.keys(), source),
        *_missing_at(there, mirrors.values(), target),
    ]


def _missing_at(
    side: ClusterGrants, topics: Collection[TopicName], admin: ClusterAdmin
) -> Iterator[tuple[Grant, str]]:
    asked = rights_asked(side.grants, topics)
    answers = admin.may(all_rights([asked]))
    for grant, rights in asked.items():
        lacking = refused(rights, answers)
        names = [right.name for right in real(lacking)]
        if names or (lacking and grant.why in READERS.values()):
            topic = (
                f", refused for {first_of(names)}" if names not in ([], [grant.rule.name]) else ""
            )
            yield grant, f"{rule_text(grant)} at the {side.side}{topic}"


def problems_of_rights(missing: Collection[tuple[Grant, str]]) -> Iterator[Problem]:
    """Yield what is missing: a switch can't begin without its own id."""
    own = [text for grant, text in missing if grant.why in RUN_ID.values()]
    rest = [text for _, text in missing if text not in own]
    if own:
        text = f"the run can't be carried out without {first_of(own)}"
        yield Problem("right_missing", text, HINT, Weight.STOPS)
    if rest:
        text = f"the link does not have {first_of(rest)}"
        yield Problem("right_missing", text, HINT, Weight.TOLD)
