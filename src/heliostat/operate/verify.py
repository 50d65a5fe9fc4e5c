"""`heliostat verify`: compare source and target by content, as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from heliostat.access import ClusterAccess
from heliostat.clusters.producer_rows import ProducerReader
from heliostat.config import Config, LinkConfig
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.names import LinkName, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.offsets.look import read_map_view
from heliostat.operate.plan import NotCopied, not_copied
from heliostat.operate.status import link_statuses
from heliostat.operate.topics import TopicPreview, preview_topics
from heliostat.ops.asked import PendingAnswer, asked_at_once
from heliostat.state.merged_notes import MergedNotes
from heliostat.verify.progress import CountedWork
from heliostat.verify.ranges import NotMirrored, RangeSpec, TopicPair
from heliostat.verify.report import VerifyReport, joined
from heliostat.verify.schema_ids import NO_IDS, MirroredIds

if TYPE_CHECKING:
    from heliostat.verify.origin import LinkIds
    from heliostat.verify.pipeline import OpenPipes


@dataclass(frozen=True, slots=True)
class ToVerify:
    """Links, and what of them can be compared."""

    config: Config
    links: Sequence[LinkConfig]
    previews: Mapping[LinkName, Sequence[TopicPreview]]
    left_out: Mapping[LinkName, NotCopied]
    pairs: Mapping[LinkName, Sequence[TopicPair]]

    def not_mirrored(self, topics: Sequence[str]) -> list[str]:
        """Return those of these topics that no link mirrors."""
        sources = {pair.source for some in self.pairs.values() for pair in some}
        return sorted(set(topics) - sources)


def to_verify(config: Config, links: Sequence[LinkConfig], topics: Sequence[str]) -> ToVerify:
    """Ask clusters what links mirror; of it only some topics of the source, if any are named."""
    rows = PendingAnswer(
        partial(
            asked_at_once, {link.name: partial(preview_topics, config, link.name) for link in links}
        ),
        "topics of links",
    )
    left_out = asked_at_once({link.name: partial(not_copied, config, link) for link in links})
    previews: dict[LinkName, list[TopicPreview]] = rows.answer()
    pairs = {name: _pairs(some, topics) for name, some in previews.items()}
    return ToVerify(config, links, previews, left_out, pairs)


def verify_links(
    wanted: ToVerify,
    ranges: RangeSpec,
    *,
    master: str | None = None,
    decode_all: bool = False,
    counted: Callable[[LinkConfig], CountedWork] | None = None,
) -> VerifyReport:
    """Compare links' mirrors with their sources, on Spark.

    Parameters
    ----------
    wanted
        What is compared.
    ranges
        Which offsets.
    master
        Spark's master, instead of the configured one.
    decode_all
        Whether to decode equal batches, too.
    counted
        Makes what is told how far a link is; None: nobody asks.
    """
    from heliostat.verify.pipeline import verify_pair  # Spark, only when the rest is in order

    config = wanted.config
    reports: list[VerifyReport] = []
    for link in wanted.links:
        pairs, left_out = wanted.pairs[link.name], wanted.left_out[link.name]
        report = verify_pair(
            master or config.spark.master,
            config.clusters[link.source].access(),
            config.clusters[link.target].access(),
            pairs,
            ranges=ranges,
            read_blocked=partial(_blocked, config, link),
            not_copied=_not_copied(left_out),
            decode_all=decode_all,
            conf=config.spark.conf,
            read_map=partial(read_map_view, config, link),
            read_ids=partial(_ids, config, link),
            read_links=partial(_links, config, link) if link.topics.merges else None,
            open_pipes=_pipes(config, link, wanted.previews[link.name], pairs),
            counted=None if counted is None else counted(link),
        )
        report.refused = _refused(left_out, pairs)
        reports.append(report)
    return joined(reports)


def _refused(left_out: NotCopied, pairs: Sequence[TopicPair]) -> dict[str, str]:
    """Return compared topics that the link, which has no state, would refuse if it ran."""
    compared = {pair.source for pair in pairs}
    return {name: why for name, why in left_out.would_refuse.items() if name in compared}


def _pairs(rows: Sequence[TopicPreview], topics: Sequence[str]) -> list[TopicPair]:
    return [
        TopicPair(row.topic, row.target, row.slot)
        for row in rows
        if row.target is not None and (not topics or row.topic in topics)
    ]


def _pipes(
    config: Config, link: LinkConfig, rows: Sequence[TopicPreview], pairs: Sequence[TopicPair]
) -> OpenPipes | None:
    """Return how the link's pipelines are made ready; None if none of these topics needs any."""
    if not any(pipeline_of(link, pair.source) for pair in pairs):
        return None
    mirrors = {row.topic: row.target for row in rows if row.target is not None}
    from heliostat.operate.verified_pipelines import open_pipes  # loads Arrow

    return partial(open_pipes, config, link, mirrors)


def _ids(config: Config, link: LinkConfig) -> MirroredIds:
    """Return which schema ids the link's mirrors have instead of the source's."""
    if link.schemas.strategy != "rewrite":
        return NO_IDS
    from heliostat.operate.schemas import mirrored_ids  # its HTTP client takes long to load

    return mirrored_ids(config, link)


def _links(config: Config, link: LinkConfig) -> LinkIds:
    """Return which producer ids links have at both sides."""
    from heliostat.verify.origin import LinkIds  # its readers take long to load

    sides = {alias: config.clusters[alias].access() for alias in (link.source, link.target)}
    rows = asked_at_once({alias: partial(_rows, access) for alias, access in sides.items()})
    own = (number for number, name in rows[link.target].items() if name == link.name)
    noted = _noted(config, link) if link.topics.merge_compacted else {}
    return LinkIds(frozenset(rows[link.source]), frozenset(own), noted)


def _noted(config: Config, link: LinkConfig) -> dict[TopicPartition, int]:
    """Return how many records the link has noted that it has appended, by source partition."""
    name = LinkName(link.name)
    with closing(MergedNotes(config.clusters[link.target].access(), name)) as notes:
        own = notes.read().own
    return {
        TopicPartition(topic, number): note.number
        for topic, rows in own.items()
        for number, note in rows.partitions.items()
    }


def _rows(access: ClusterAccess) -> dict[ProducerId, LinkName]:
    with closing(ProducerReader(access)) as reader:
        rows, _ = reader.read()
    return rows


def _blocked(config: Config, link: LinkConfig) -> Mapping[TopicPartition, NotMirrored]:
    """Return partitions that the link reports as not copied, and why; none if it never ran.

    What is retried is copied later; what is stopped needs a person.
    """
    [status] = link_statuses(config, link.name)
    return {
        TopicPartition(TopicName(problem.source), PartitionId(problem.partition)): NotMirrored(
            f"{problem.state}: {problem.reason}", is_problem=problem.is_stopped
        )
        for problem in status.problems
    }


def _not_copied(exclusions: NotCopied) -> dict[TopicName, NotMirrored]:
    """Return topics that the link refuses, or leaves out as they come from its target."""
    refused = (
        (name, NotMirrored(f"the link refuses it: {why}", is_problem=True))
        for name, why in exclusions.refused.items()
    )
    left_out = (
        (name, NotMirrored(f"the link leaves it out: {why}", is_problem=False))
        for name, why in exclusions.left_out.items()
    )
    return dict((*left_out, *refused))
