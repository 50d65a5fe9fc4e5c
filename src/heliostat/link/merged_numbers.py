"""How many of a link's own records are before the starts of merged logs: their maps begin there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from heliostat.access import Reachable
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.errors import ProtocolError
from heliostat.groups.merged_site import MergedSite
from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import UnknownPlaceError
from heliostat.names import LinkName, Offset, id_text
from heliostat.offsets.marks import MirrorId

CLIENT_ID = "heliostat-pruning"
LOOK_BYTES = 256 * 1024 * 1024
"""Most bytes of logs that one look reads; maps of what is left are not pruned this time."""
WITHIN_S = 30.0


class MergedNumbers:
    """Tells numbers at log starts of a link's merged topics.

    Parameters
    ----------
    target
        The target.
    link
        Name of the link.
    """

    def __init__(self, target: Reachable, link: LinkName) -> None:
        self._target = target
        self._link = link

    def at_starts(self, maps: Iterable[MirrorId]) -> dict[MirrorId, Offset]:
        """Return the number of the first record that is left; where it is not known, none.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer.
        """
        clusters, are_ours = lent_clusters(self._target, CLIENT_ID, WITHIN_S)
        try:
            with closing(MergedSite(clusters, LOOK_BYTES)) as site:
                return self._seen(site, list(maps))
        except ProtocolError:  # whose business that is, sees it as well
            return {}
        finally:
            if are_ours:
                clusters.close()

    def _seen(self, site: MergedSite, maps: list[MirrorId]) -> dict[MirrorId, Offset]:
        found: dict[MirrorId, Offset] = {}
        with site.look({mirror.topic for mirror, _ in maps}) as seen:
            for mirror, topic_id in maps:
                log, crossing = seen.logs.get(mirror), seen.of_link(self._link, mirror)
                if log is None or id_text(log.topic_id) != topic_id:
                    continue
                if not isinstance(crossing, Crossing):
                    continue
                try:
                    found[mirror, topic_id] = Offset(crossing.landed.surely_before(log.start))
                except UnknownPlaceError:
                    continue
        return found
