"""What `heliostat init` asks of clusters: whether they can be used, and what a link would copy."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.config import ClusterConfig, compile_pattern
from heliostat.errors import Refused
from heliostat.operate.scan import scan
from heliostat.operate.scanned import ScannedCluster, ScannedTopic
from heliostat.ops.shown import size_text


def looked_at(cluster: ClusterConfig, other: ScannedCluster | None = None) -> ScannedCluster:
    """Return what a cluster has.

    Parameters
    ----------
    other
        The link's source: it must be another cluster.

    Raises
    ------
    ConnectionLost
        It does not answer, or refuses us.
    Refused
        It is the same cluster as the other.
    """
    content = scan(cluster)
    if other is not None and content.cluster_id == other.cluster_id:
        raise Refused(
            f"{content.addresses} is the same cluster as {other.addresses} "
            f"(id {content.cluster_id})",
            hint="give the address of the other cluster",
        )
    return content


@dataclass(frozen=True, slots=True)
class Selection:
    """What an expression selects of a source, and which names the target has already."""

    topics: tuple[ScannedTopic, ...]
    of: int
    at_target: tuple[str, ...]

    def text(self) -> str:
        """Return a line about it."""
        sizes = [topic.bytes for topic in self.topics]
        size = size_text(sum(topic_bytes or 0 for topic_bytes in sizes))
        least = "at least " if None in sizes else ""
        return f"{len(self.topics)} of {self.of} topics, {least}{size}"


def selection(source: ScannedCluster, target: ScannedCluster, entry: str) -> Selection:
    """Return what an entry of `topics.include` selects now.

    Raises
    ------
    ValueError
        It is no name and no expression.
    """
    pattern = compile_pattern(entry)
    chosen = tuple(topic for topic in source.mirrored if pattern.fullmatch(topic.name))
    names = {topic.name for topic in target.topics}
    both = tuple(sorted(topic.name for topic in chosen if topic.name in names))
    return Selection(chosen, len(source.mirrored), both)
