"""Convert one flow of MirrorMaker 2 into one link: which property becomes which key."""

from __future__ import annotations

from functools import partial

from heliostat.mm2.config_answers import answer
from heliostat.mm2.config_differences import tell_what_differs
from heliostat.mm2.config_draft import LinkDraft
from heliostat.mm2.config_schemas import add_schemas
from heliostat.mm2.config_topics import add_topics
from heliostat.mm2.config_transforms import add_transforms

FETCH_BYTES = (1024, 55 << 20)
PARTITION_BYTES = (1024, 100 << 20)
IN_FLIGHT = (1, 5)
GROUPS_S = (0.5, 3600)
HEARTBEATS_S = (0.1, 3600)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def convert(draft: LinkDraft, naming: str | None) -> None:
    """Fill in a link.

    Parameters
    ----------
    draft
        The link of a flow.
    naming
        Format that replaces the replication policy; needed for policies of one's own.

    Raises
    ------
    ConfigError
        A list, number or replication policy can't be converted.
    """
    add_topics(draft, naming)
    add_transforms(draft)
    add_schemas(draft)
    add_records(draft)
    _state(draft)
    _groups(draft)
    _interchange(draft)
    tell_what_differs(draft)
    draft.tell_answers(answer)


def add_records(draft: LinkDraft) -> None:
    """Fill in how records are copied."""
    codec = draft.given.get("producer.override.compression.type")
    if codec is not None and codec.value.strip() in CODECS:
        draft.put("records", "compression", codec.value.strip())
        draft.ledger.used(codec, "records.compression, for small batches that are joined")
    for name, key, limits in (
        ("source.consumer.fetch.max.bytes", "fetch_bytes_max", FETCH_BYTES),
        (
            "source.consumer.max.partition.fetch.bytes",
            "partition_fetch_bytes_max",
            PARTITION_BYTES,
        ),
        (
            "producer.override.max.in.flight.requests.per.connection",
            "in_flight_max",
            IN_FLIGHT,
        ),
    ):
        draft.take(name, "records", key, partial(draft.number, limits=limits))
    isolation = draft.given.get("source.consumer.isolation.level")
    if isolation is not None:
        draft.ledger.replaced(isolation, "only committed records of transactions are copied")


def _state(draft: LinkDraft) -> None:
    """Set one replication factor for all of the link's topics: the first that is given."""
    names = [f"worker.{kind}.storage.replication.factor" for kind in ("offset", "config", "status")]
    given = [draft.given[name] for name in names if name in draft.given]
    if given:
        draft.put("state", "replication_factor", draft.replicas(given[0]))
        draft.ledger.used(given[0], "state.replication_factor")
    for setting in given[1:]:
        draft.ledger.replaced(setting, f"state.replication_factor, from {given[0].origin.name}")


def _groups(draft: LinkDraft) -> None:
    include = draft.given.get("groups")
    if include is not None:
        draft.put("groups", "include", draft.patterns(include, "groups.include"))
    exclude = draft.first("groups.exclude", "groups.blacklist")
    if exclude is not None:
        draft.put("groups", "exclude", draft.patterns(exclude, "groups.exclude"))
    sync = draft.given.get("sync.group.offsets.enabled")
    emits = draft.given.get("emit.checkpoints.enabled")
    is_on = sync is not None and sync.is_true and draft.flow.has_checkpoints
    if is_on and emits is not None and not emits.is_true:
        is_on = False  # without checkpoints its groups' offsets are not synced either
    draft.put("groups", "sync", is_on)
    if sync is not None:
        draft.ledger.used(sync, "groups.sync")
    elif draft.flow.has_checkpoints and draft.flow.from_connectors:
        draft.ledger.must_do(
            f"{draft.flow.name} has no sync.group.offsets.enabled, which is off in Apache's "
            "MirrorMaker 2 and on in Cloudera's: groups.sync is off; if yours is Cloudera's, set it"
        )
    interval = draft.given.get("sync.group.offsets.interval.seconds")
    if interval is not None:
        draft.put("groups", "interval_s", draft.number(interval, GROUPS_S))
        draft.ledger.used(interval, "groups.interval_s")


def _interchange(draft: LinkDraft) -> None:
    copied = draft.given.get("heartbeats.replication.enabled")
    is_copied = copied is None or copied.is_true
    draft.put("heartbeats", "mirror", is_copied)
    if copied is not None:
        draft.ledger.used(copied, "heartbeats.mirror")
    draft.put("heartbeats", "emit", is_copied and draft.flow.has_heartbeats_at_source)
    if draft.flow.has_heartbeats_at_source and not is_copied:
        draft.ledger.differs(
            f"{draft.flow.name}: heartbeats were written into {draft.flow.source.key}, though none "
            "are copied; a link writes them only to copy them"
        )
    if draft.flow.has_heartbeats_at_target:
        draft.put("heartbeats", "at_target", value=True)
    emits = draft.given.get("emit.heartbeats.enabled")
    if emits is not None:
        draft.ledger.replaced(
            emits,
            f"MirrorMaker 2 writes them into {draft.flow.target.alias}; a link writes its own "
            "into its source: heartbeats.emit",
        )
    _heartbeats(draft)
    checkpoints = draft.given.get("emit.checkpoints.enabled")
    has = draft.flow.has_checkpoints and (checkpoints is None or checkpoints.is_true)
    draft.put("checkpoints", "emit", has)
    if checkpoints is not None:
        draft.ledger.used(checkpoints, "checkpoints.emit")
    factor = "checkpoints.topic.replication.factor"
    draft.take(factor, "checkpoints", "replication_factor", draft.replicas)
    _offset_syncs(draft)


def _heartbeats(draft: LinkDraft) -> None:
    """Take how often heartbeats are written from the connector that wrote them into the source."""
    given = draft.given | draft.flow.heartbeats
    interval = given.get("emit.heartbeats.interval.seconds")
    if interval is not None:
        draft.put("heartbeats", "interval_s", draft.number(interval, HEARTBEATS_S))
        draft.ledger.used(interval, "heartbeats.interval_s")
    factor = given.get("heartbeats.topic.replication.factor")
    if factor is not None:
        draft.put("heartbeats", "replication_factor", draft.replicas(factor))
        draft.ledger.used(factor, "heartbeats.replication_factor")


def _offset_syncs(draft: LinkDraft) -> None:
    """Emit offset syncs only if the file says so explicitly: we don't need them."""
    emits = draft.given.get("emit.offset-syncs.enabled")
    location = draft.given.get("offset-syncs.topic.location")
    factor = draft.given.get("offset-syncs.topic.replication.factor")
    if emits is not None and emits.is_true:
        draft.put("offset_syncs", "emit", True)
        draft.ledger.used(emits, "offset_syncs.emit")
        place = "source" if location is None else location.value.strip()
        draft.put("offset_syncs", "location", place)
        if location is not None:
            draft.ledger.used(location, "offset_syncs.location")
        name = "offset-syncs.topic.replication.factor"
        draft.take(name, "offset_syncs", "replication_factor", draft.replicas)
        return
    for setting in (emits, location, factor):
        if setting is not None:
            draft.ledger.replaced(
                setting,
                "the offset map, at the target; offset_syncs.emit writes MirrorMaker 2's as "
                "well, in case it has to translate offsets again",
            )
