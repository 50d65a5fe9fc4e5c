"""Which mirrors have their holes filled, so that offsets stay equal (`topics.offsets: exact`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError
from heliostat.names import TopicId, TopicPartition
from heliostat.records.copier.lane import PartitionSpec

NAMED_MAX = 3
"""Topics named in a note."""
Filled = Callable[[TopicPartition, TopicId | None], bool | None]
"""Whether a mirror's partition is filled; None: it had no hole yet, and may become either."""


def with_filling(
    specs: Mapping[TopicPartition, PartitionSpec], is_filled: Filled, *, may_fill: bool
) -> dict[TopicPartition, PartitionSpec]:
    """Mark partitions whose holes are filled: those that were, and new ones if we may."""
    found: dict[TopicPartition, PartitionSpec] = {}
    for source, spec in specs.items():
        known = is_filled(spec.target, spec.target_topic_id)
        fills = may_fill if known is None else known
        found[source] = replace(spec, fills=True) if fills else spec
    return found


def filling_notes(
    link: LinkConfig, specs: Mapping[TopicPartition, PartitionSpec], refused: BrokerError | None
) -> tuple[str, ...]:
    """Return what keeps mirrors from being exact, if `topics.offsets` is `exact`."""
    if link.topics.offsets != "exact":
        return ()
    if refused is not None:
        why = f"{refused.text}; hint: {refused.hint}"
        return (f"topics.offsets is exact, but holes can't be filled, so they are mapped ({why})",)
    mapped = sorted({spec.target.topic for spec in specs.values() if not spec.fills})
    if not mapped:
        return ()
    named = ", ".join(mapped[:NAMED_MAX])
    more = f" and {len(mapped) - NAMED_MAX} more" if len(mapped) > NAMED_MAX else ""
    return (f"topics.offsets is exact, but {named}{more} are mapped already: they stay so",)


def why_not_exact(link: LinkConfig, target: ClusterAdmin) -> BrokerError | None:
    """Return why markers can't be written, if they are wanted."""
    if link.topics.offsets != "exact":
        return None
    return target.check_markers()
