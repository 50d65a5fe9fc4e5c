"""Opens a translator of a link's offsets; of merged topics it looks into the target's logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig
from heliostat.groups.merged_site import NO_LEADER, MergedSite, SiteLook
from heliostat.merge.crossing import Crossing
from heliostat.names import LinkName, TopicName, TopicPartition
from heliostat.offsets.look import look
from heliostat.offsets.merged_translation import MergedPartition
from heliostat.offsets.translation import OffsetTranslator
from heliostat.offsets.values import TranslatedMirrors

CLIENT_ID = "heliostat-offsets"


@contextmanager
def open_translator(
    config: Config, link: LinkConfig, topics: Iterable[TopicName] | None = None
) -> Iterator[OffsetTranslator]:
    """Yield what translates a link's offsets.

    Parameters
    ----------
    topics
        Only these, by their name at the source or at the target; all by default.

    Raises
    ------
    ConnectionLost
        The target does not answer; the source need not.
    """
    mirrors = look(config, link, topics)
    if not link.topics.merges:
        yield OffsetTranslator(mirrors)
        return
    access = config.clusters[link.target].access()
    with (
        closing(LentClusters(access, DialSettings(CLIENT_ID))) as clusters,
        closing(MergedSite(clusters)) as site,
        site.look({partition.target.topic for partition in mirrors.partitions}) as site_look,
    ):
        yield OffsetTranslator(mirrors, _merged(LinkName(link.name), mirrors, site_look))


def _merged(
    link: LinkName, mirrors: TranslatedMirrors, site_look: SiteLook
) -> dict[TopicPartition, MergedPartition]:
    """Return the merged partitions, by source partition.

    Those of which nothing can be told leave `mirrors`.
    """
    merged: dict[TopicPartition, MergedPartition] = {}
    for partition in list(mirrors.partitions):
        crossing, log = (
            site_look.of_link(link, partition.target),
            site_look.logs.get(partition.target),
        )
        if isinstance(crossing, Crossing) and log is not None:
            merged[partition.source] = MergedPartition(partition, crossing, log.start, log.end)
        else:
            mirrors.partitions.remove(partition)
            mirrors.not_known[partition.target] = (
                crossing if isinstance(crossing, str) else NO_LEADER
            )
    return merged
