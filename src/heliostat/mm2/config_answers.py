"""Properties without a key in ours: what replaces them, or why nothing has to."""

from __future__ import annotations

from heliostat.mm2.config_values import Fate

_OFF, _INSTEAD = Fate.WITHOUT_EFFECT, Fate.REPLACED
_BYTES = "batches cross with their bytes as they are; there is nothing to convert"
_ONCE = "each record is at the target exactly once in any case, without transactions"
_METRICS = "metrics are Heliostat's own"
_ERRORS = (
    "a partition that can't be copied stops with its reason, the others continue; a broker that is "
    "unreachable is retried"
)
_WORKERS = "there are no Connect workers; state is in the link's own topics"

ANSWERS: dict[str, tuple[Fate, str]] = {
    "name": (_INSTEAD, "the link's name"),
    "connector.class": (_INSTEAD, "the link itself"),
    "enabled": (_INSTEAD, "the link is in the file"),
    "tasks.max": (_INSTEAD, "lanes.count, which is chosen automatically (auto)"),
    "tasks.max.enforce": (_OFF, "lanes.count is a number, or chosen automatically"),
    "task.assigned.partitions": (_INSTEAD, "partitions are packed into lanes by their traffic"),
    "task.index": (_INSTEAD, "partitions are packed into lanes by their traffic"),
    "key.converter": (_OFF, _BYTES),
    "value.converter": (_OFF, _BYTES),
    "header.converter": (_OFF, _BYTES),
    "config.action.reload": (_OFF, "secrets are read whenever a connection is made"),
    "errors.retry.timeout": (_INSTEAD, _ERRORS),
    "errors.retry.delay.max.ms": (_INSTEAD, _ERRORS),
    "errors.log.enable": (_OFF, "status and log show what stops a partition"),
    "errors.log.include.messages": (_OFF, "records are never logged"),
    "exactly.once.support": (_INSTEAD, _ONCE),
    "exactly.once.source.support": (_INSTEAD, _ONCE),
    "transaction.boundary": (_OFF, _ONCE),
    "transaction.boundary.interval.ms": (_OFF, _ONCE),
    "offsets.storage.topic": (_INSTEAD, "the position is where the target's log ends"),
    "admin.timeout.ms": (_OFF, "requests have their own time-outs, and are retried"),
    "consumer.poll.timeout.ms": (_OFF, "fetches wait at the broker; nothing polls"),
    "metric.reporters": (_OFF, _METRICS),
    "metric.names.formats": (_OFF, _METRICS),
    "add.source.alias.to.metrics": (_OFF, _METRICS),
    "use.incremental.alter.configs": (_OFF, "settings are always altered incrementally (KIP-339)"),
    "refresh.topics.enabled": (_INSTEAD, "topics.refresh_interval_s: always refreshed"),
    "refresh.groups.enabled": (_INSTEAD, "groups.interval_s: always refreshed"),
    "refresh.groups.interval.seconds": (_INSTEAD, "groups.interval_s: finds new groups, too"),
    "emit.checkpoints.interval.seconds": (
        _INSTEAD,
        "groups.interval_s: checkpoints are written as groups' offsets are published",
    ),
    "offset.lag.max": (_INSTEAD, "the offset map, which is exact for every record"),
    "replication.policy.internal.topic.separator.enabled": (
        _OFF,
        "names of MirrorMaker 2's own topics follow the naming",
    ),
    "config.providers": (_INSTEAD, "secrets are named by file or environment variable"),
}

PREFIXES: tuple[tuple[str, Fate, str], ...] = (
    ("key.converter.", _OFF, _BYTES),
    ("value.converter.", _OFF, _BYTES),
    ("header.converter.", _OFF, _BYTES),
    ("config.providers.", _INSTEAD, "secrets are named by file or environment variable"),
    ("topic.creation.", _OFF, "mirrors are created with the source's partitions and settings"),
    (
        "source.consumer.",
        _OFF,
        "a setting of Java's consumer; a link has a client of its own",
    ),
    ("source.admin.", _OFF, "a setting of Java's admin client"),
    ("target.admin.", _OFF, "a setting of Java's admin client"),
    ("source.producer.", _OFF, "a setting of the producer of offset syncs at the source"),
    ("target.producer.", _OFF, "it reaches the producer of offset syncs only, not that of records"),
    ("target.consumer.", _OFF, "a setting of Java's consumer"),
    (
        "producer.override.",
        _OFF,
        "a setting of Java's producer; batches are appended as they are, each at its offset",
    ),
    ("producer.", _OFF, "it reaches the producer of offset syncs only, not that of records"),
    ("admin.", _OFF, "a setting of Java's admin client"),
    ("worker.offset.flush", _INSTEAD, "the position is the target's log end: nothing to flush"),
    ("worker.exactly.once", _INSTEAD, _ONCE),
    ("worker.", _OFF, _WORKERS),
)
"""Answers by the beginning of a name; the first that fits counts."""


def answer(name: str) -> tuple[Fate, str] | None:
    """Return the outcome of a property that depends on its name alone; None if it does not."""
    if name in ANSWERS:
        return ANSWERS[name]
    return next(((fate, text) for prefix, fate, text in PREFIXES if name.startswith(prefix)), None)
