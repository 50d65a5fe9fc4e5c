"""What can't be done with merged topics, or can't be done yet: refused rather than half done."""

from __future__ import annotations

from heliostat.config import LinkConfig
from heliostat.errors import Refused


def refuse_if_merged(link: LinkConfig, what: str) -> None:
    """Refuse to do something that is made for mirrors which only a link writes.

    Raises
    ------
    Refused
        The link merges its topics with the target's.
    """
    if link.topics.merges:
        raise Refused(
            f"link {link.name} merges its topics (topics.naming), and {what} is for mirrors that "
            "only a link writes",
            hint="docs/merge.md says what can be done instead",
        )


def refuse_unless_merged(link: LinkConfig, hint: str) -> None:
    """Refuse what is for merged topics only, before any cluster is asked.

    Raises
    ------
    Refused
        The link merges none.
    """
    if not link.topics.merges:
        raise Refused(f"link {link.name} merges no topics (topics.naming)", hint=hint)
