"""What a link does and MirrorMaker 2 will not do: told before it runs."""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.config import GapsConfig, GroupsConfig, LanesConfig, LinkConfig, RecordsConfig
from heliostat.config.gaps import ErrorsConfig
from heliostat.config.interchange import OffsetSyncsConfig
from heliostat.mm2.config_values import Ledger

ALWAYS = (
    "offsets of mirrors are MirrorMaker 2's own: they are not the source's",
    "a record may be there twice: after a failure it copies again what it has not committed",
    "batches are decoded and compressed anew, by producer.override.compression.type",
    "what is gone at the source before it was copied is passed over and not told",
    "a record that can't be written stops a task, with all of its partitions",
)
"""What holds for each link; no difference of one."""


def tell_what_is_lost(link: LinkConfig, ledger: Ledger) -> None:
    """Note what MirrorMaker 2 will not do, and what a person has to choose."""
    for text in (*_of_topics(link), *_of_groups(link), *_of_records(link)):
        ledger.differs(text)
    if link.topics.replication_factor is None:
        ledger.must_do(
            "choose replication.factor: new mirrors had as many replicas as their source topics, "
            "and get MirrorMaker 2's default of 2 without it"
        )
    if link.lanes.count == "auto":
        ledger.must_do("choose the number of tasks: without it one task copies everything")
    if link.offset_syncs.emit and link.offset_syncs.location == "source":
        return
    if link.groups.sync or link.checkpoints.emit:
        ledger.must_do(
            "allow it to write mm2-offset-syncs.*.internal at the target, from which it translates "
            "groups' offsets"
        )


def _of_topics(link: LinkConfig) -> Iterator[str]:
    topics = link.topics
    if topics.fan_in is not None:
        yield (
            f"topics.fan_in: the link fills slot {topics.fan_in.slot} of {topics.fan_in.of} of its "
            "target topics; MirrorMaker 2 writes each partition to the one of its number, among "
            "what other sources write there"
        )
    if topics.offsets == "exact":
        yield "topics.offsets: exact: nothing fills holes between offsets"
    if topics.start not in ("earliest", "latest"):
        yield (
            "topics.start: it begins at the earliest record; `adopt --back` writes where the link "
            "has ended"
        )
    if topics.config_set:
        names = ", ".join(topics.config_set)
        yield f"topics.config_set: nothing sets {names} of mirrors"
    if topics.protect:
        yield "topics.protect: nothing keeps others from writing into mirrors"
    if link.access.is_on:
        yield (
            "access: rights, quotas and users do not follow the source; sync.topic.acls.enabled "
            "would copy the right to read topics, and is off"
        )
    if topics.follow_deletes:
        yield "topics.follow_deletes: records that the source deletes stay in mirrors"
    if link.schemas.strategy != "off":
        yield (
            f"schemas.strategy: {link.schemas.strategy}: no schemas are copied; consumers at the "
            "target need a registry that has the source's ids"
        )
    for pipeline in link.pipelines:
        yield f"pipeline {pipeline.name}: its topics are copied as they are"


def _of_groups(link: LinkConfig) -> Iterator[str]:
    groups, usual = link.groups, GroupsConfig()
    if not (groups.sync or link.checkpoints.emit):
        return
    if groups.sync and not link.checkpoints.emit:
        yield "groups.sync without checkpoints.emit: checkpoints are written as well"
    if groups.naming != "same":
        yield "groups.naming: groups keep their names"
    keys = ("states", "active_within_s", "consumed_at_target")
    if names := [key for key in keys if getattr(groups, key) != getattr(usual, key)]:
        yield f"groups: it has nothing like {', '.join(names)}"


def _of_records(link: LinkConfig) -> Iterator[str]:
    records, usual = link.records, RecordsConfig()
    keys = ("join_below_bytes", "join_bytes_max", "latency_target_ms", "connections")
    names = [f"records.{key}" for key in keys if getattr(records, key) != getattr(usual, key)]
    if link.lanes.lease_s != LanesConfig().lease_s:
        names.append("lanes.lease_s")
    if link.offset_syncs.interval_s != OffsetSyncsConfig().interval_s and link.offset_syncs.emit:
        names.append("offset_syncs.interval_s")
    if names:
        yield f"it has nothing like {', '.join(names)}"
    if records.in_flight_max != usual.in_flight_max:
        yield "records.in_flight_max: its producer has one request in flight, as more may reorder"
    if link.gaps != GapsConfig():
        yield "gaps: it has no policy for records that are gone at the source, and goes on"
    if link.errors != ErrorsConfig():
        yield "errors: it has no policy for records that can't be written: a task fails at one"
