"""Replicator's properties without a key in ours: what replaces them, or why nothing has to."""

from __future__ import annotations

from heliostat.mm2.config_answers import answer
from heliostat.mm2.config_values import Fate

_OFF, _INSTEAD = Fate.WITHOUT_EFFECT, Fate.REPLACED
_LICENCE = "a link needs no licence"
_JAVA = "a setting of Java's client; a link has a client of its own"
_ZOOKEEPER = "ZooKeeper is not asked"
_OFFSETS = "groups.sync and the offset map, which need no timestamps of consumers"
_BYTES = "batches cross with their bytes as they are; there is nothing to convert"

ANSWERS: dict[str, tuple[Fate, str]] = {
    "topic.create.backoff.ms": (_OFF, "topics are looked at every topics.refresh_interval_s"),
    "topic.preserve.partitions": (_INSTEAD, "each record keeps its partition"),
    "topic.auto.create": (_INSTEAD, "mirrors are created with the source's partitions"),
    "topic.timestamp.type": (_INSTEAD, "mirrors have CreateTime, and records keep their time"),
    "offset.start": (_INSTEAD, "the position is where the target's log ends"),
    "offset.topic.commit": (_INSTEAD, "`heliostat status` shows how far each partition is"),
    "source.consumer.group.id": (_INSTEAD, "the position is where the target's log ends"),
    "provenance.header.enable": (
        _INSTEAD,
        "a mirror is never copied back to where its records came from; no header is added",
    ),
    "schema.registry.max.schemas.per.subject": (_OFF, "all versions are mirrored"),
    "schema.registry.client.basic.auth.credentials.source": (
        _INSTEAD,
        "the registry's section has user and password, or none",
    ),
    "confluent.license": (_OFF, _LICENCE),
    "confluent.topic": (_OFF, _LICENCE),
}
PREFIXES: tuple[tuple[str, Fate, str], ...] = (
    ("confluent.", _OFF, _LICENCE),
    ("offset.translator.", _INSTEAD, _OFFSETS),
    ("offset.timestamps.", _INSTEAD, _OFFSETS),
    ("src.kafka.timestamps.", _INSTEAD, _OFFSETS),
    ("dest.kafka.timestamps.", _INSTEAD, _OFFSETS),
    ("src.kafka.", _OFF, _JAVA),
    ("dest.kafka.", _OFF, _JAVA),
    ("src.zookeeper.", _OFF, _ZOOKEEPER),
    ("dest.zookeeper.", _OFF, _ZOOKEEPER),
    ("src.key.converter", _OFF, _BYTES),
    ("src.value.converter", _OFF, _BYTES),
    ("src.header.converter", _OFF, _BYTES),
    ("schema.registry.client.", _OFF, "a link's registry client has no such setting"),
    ("admin.override.", _OFF, "a setting of Java's admin client"),
    ("consumer.override.", _OFF, "Connect has no consumer for a connector that is a source"),
)
"""Answers by the beginning of a name; the first that fits counts."""


def replicator_answer(name: str) -> tuple[Fate, str] | None:
    """Return the outcome of a property that depends on its name alone; None if it does not."""
    if name in ANSWERS:
        return ANSWERS[name]
    own = next(((fate, text) for prefix, fate, text in PREFIXES if name.startswith(prefix)), None)
    return answer(name) if own is None else own
