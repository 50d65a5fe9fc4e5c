"""A link that renames groups, and one of another file that publishes groups the other way."""

from __future__ import annotations

from heliostat.config import LinkConfig
from heliostat.config.checks import publishes_groups
from heliostat.groups.published import groups_topic
from heliostat.names import ClusterId
from heliostat.topics.values import SourceTopics


def facing_note(link: LinkConfig, source: SourceTopics, target_id: ClusterId) -> tuple[str, ...]:
    """Return a note if groups that the link renames have a way back that loses the new names.

    The other link is seen by its topics at our source: its mirrors come from our target, and it has
    published groups. In one file such a pair is refused (`config.checks`).
    """
    if link.groups.naming == "same" or not publishes_groups(link):
        return ()
    facing = {feed.link for feed in source.feeds if feed.record.source_cluster == target_id}
    names = sorted(name for name in facing if groups_topic(name) in source.names)
    if not names:
        return ()
    shown = ", ".join(names)
    text = (
        f"groups.naming: link {shown} publishes groups from {link.target} to {link.source}, as its "
        f"topics at {link.source} show, and with renamed groups ({link.groups.name_format()}) a "
        "consumer can't come back: take same in both"
    )
    return (text,)
