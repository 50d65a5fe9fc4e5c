"""Which link a connector is with the configuration that it is given; pure.

One that copies the same under the same names goes on as its link. One whose alias, separator,
policy or clusters change is another link from then on: it begins its mirrors beside the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heliostat.config import LinkConfig
from heliostat.connect.connector import StoredConnector
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.link_copies import Copies, LinkCopies
from heliostat.connect.link_maps import links_of
from heliostat.names import LinkName


@dataclass(frozen=True, slots=True)
class LinkChoice:
    """The link that a connector is to be.

    Parameters
    ----------
    link, content
        Its name, and what `links:` would have of it.
    copies
        What it copies, and what the one before did; to be noted with the connector.
    before
        The link that the connector has been; None: it is new, or goes on as it was.
    """

    link: LinkName
    content: Mapping[str, Any]
    copies: Copies
    before: LinkName | None = None

    def notes(self) -> tuple[str, ...]:
        """Return what an operator must know."""
        if self.before is None:
            return ()
        begins = (
            f"link {self.link} begins mirrors beside those of {self.before}: "
            f"{self.copies[self.link].words()}"
        )
        ends = (
            f"link {self.before} ends ({self.copies[self.before].words()}): its mirrors and its "
            "state stay, and it goes on where it ended once the configuration is put back"
        )
        same = (
            f"what both would call alike, as the mirror of heartbeats may be, stays {self.before}'s"
            f", and is refused to {self.link}"
        )
        return begins, ends, same


def choose_link(
    stored: StoredConnector,
    before: StoredConnector | None,
    others: Sequence[StoredConnector],
    file: FileClusters,
    copies: Copies,
) -> LinkChoice:
    """Return the link of a connector whose configuration is valid.

    Parameters
    ----------
    stored
        The connector as it is to be, with the link that it has been.
    before
        The connector as it is; None: there is none.
    others
        All others.
    file
        What the configuration file says, with the names of links that are no connector's.
    copies
        What links of connectors copy, or did.
    """
    link_copies = dict(copies)
    link = stored.link
    was = None if before is None else links_of([*others, before], file)
    if was is not None and (content := was.links.get(LinkName(link))) is not None:
        link_copies[LinkName(link)] = LinkCopies.of_content(content)
    derived = links_of([*others, stored], file, link_copies)
    (name,) = derived.of_connector[stored.name]
    own = LinkCopies.of_content(derived.links[name])
    if link and link_copies.get(LinkName(link), own) != own:
        derived = links_of([*others, replace(stored, link="")], file, link_copies)
        (name,) = derived.of_connector[stored.name]
    earlier = LinkName(link) if link and name != link else None
    noted = {name: own} | ({} if earlier is None else {earlier: link_copies[earlier]})
    return LinkChoice(name, derived.links[name], noted, earlier)


def with_names(
    file: FileClusters, followed_links: Mapping[LinkName, LinkConfig], copies: Copies
) -> FileClusters:
    """Return what the file says, with the names of links that are no connector's.

    Parameters
    ----------
    followed_links
        Links that are followed and are no connector's now: of one that was, it is not known yet
        that it has ended.
    copies
        What links of connectors copy, or did.
    """
    alien = {
        name
        for name, link in followed_links.items()
        if name not in copies or copies[name] != LinkCopies.of_link(link)
    }
    return replace(file, links=file.links | alien)
