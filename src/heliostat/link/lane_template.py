"""What the `LaneSpec`s of all lanes of a link have in common."""

from __future__ import annotations

from heliostat.access import ClusterAccess
from heliostat.config import LinkConfig
from heliostat.names import LaneId, LinkName, ProducerId
from heliostat.records.copier.lane import CopySettings, LaneSpec
from heliostat.state_topics import control_topic, offsets_topic, progress_topic


def lane_template(
    link: LinkConfig,
    source_access: ClusterAccess,
    target_access: ClusterAccess,
    producer_id: ProducerId,
    expiration_s: float,
    *,
    former_producers: frozenset[ProducerId] = frozenset(),
) -> LaneSpec:
    """Return a `LaneSpec` without partitions and ids; each round sets these.

    Parameters
    ----------
    producer_id
        The link's producer id, the same for all lanes.
    expiration_s
        How long the target's brokers remember a producer that sends nothing.
    """
    name, records = LinkName(link.name), link.records
    return LaneSpec(
        link=name,
        lane=LaneId(-1),
        generation=0,
        round_number=0,
        lease_s=link.lanes.lease_s,
        source_access=source_access,
        target_access=target_access,
        producer_id=producer_id,
        former_producers=former_producers,
        partitions=(),
        control_topic=control_topic(name),
        progress_topic=progress_topic(name),
        offsets_topic=offsets_topic(name),
        settings=CopySettings(
            fetch_bytes_max=records.fetch_bytes_max,
            partition_fetch_bytes_max=records.partition_fetch_bytes_max,
            requests_in_flight_max=records.in_flight_max,
            join_below_bytes=records.join_below_bytes,
            join_bytes_max=records.join_bytes_max,
            latency_target_s=records.latency_target_ms / 1000,
            backlog_connections=0 if records.connections == "auto" else records.connections,
            compression=None if records.compression == "keep" else records.compression,
            producer_expiration_s=expiration_s,
        ),
    )
