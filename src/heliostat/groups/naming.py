"""Name of a group at the source → its name at the target."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.config import LinkConfig
from heliostat.names import GroupId

GROUP = "${group}"


@dataclass(frozen=True, slots=True)
class GroupNaming:
    """A link's rule for groups: a format with `${group}`, everything else already filled in.

    No two groups get the same name: the rest of it is the same for all.
    """

    rule: str = GROUP

    def target_name(self, source: GroupId) -> GroupId:
        """Name under which offsets of a group are published."""
        return GroupId(self.rule.replace(GROUP, source))

    def source_name(self, target: GroupId) -> GroupId | None:
        """Return the group whose offsets are published under a name; None: of no group."""
        before, _, after = self.rule.partition(GROUP)
        source = GroupId(target[len(before) : len(target) - len(after)])
        return source if source and self.target_name(source) == target else None


SAME_NAMES = GroupNaming()


def group_naming_of(link: LinkConfig) -> GroupNaming:
    """The rule of a link."""
    return GroupNaming(link.groups.name_format().replace("${source}", link.source))
