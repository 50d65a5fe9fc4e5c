"""Schema ids of mirrors that become merged topics in place: those in their records stay right.

With `rewrite` before and after, nothing changes. With `preserve` before, ids of the target are the
source's: each version that is there has the id that *rewrite* finds by its content, so records from
before and later ones mean the same. What `isolate` has copied, or a link without schemas, has ids
that mean nothing in the target's own subjects, or something else (docs/merge.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from heliostat.config import Config, LinkConfig
from heliostat.names import TopicName
from heliostat.records.copier.lane import SchemaIds

if TYPE_CHECKING:
    from heliostat.operate.schemas import SeenRegistries

NAMED_MAX = 3
OFF_BEFORE = "its records were copied with schemas, and new ones of the source would cross without"
NOT_THERE = (
    "no version of {subjects} is in the target's registry under that name, as isolate leaves it, "
    "or a link without schemas: ids of records that are copied already would mean nothing there"
)


def why_other_ids(
    config: Config, link: LinkConfig, names: Collection[TopicName], announced: SchemaIds
) -> Mapping[TopicName, str]:
    """Return mirrors whose records have ids that the link's strategy does not go on with, and why.

    Parameters
    ----------
    names
        Mirrors that become merged topics.
    announced
        Ids that lanes were last told of.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    if not names:
        return {}
    if link.schemas.strategy == "off":
        return dict.fromkeys(names, OFF_BEFORE) if announced.readable else {}
    from heliostat.operate.schemas import seen_registries  # its HTTP client takes long to load

    return not_there(seen_registries(config, link), names)


def not_there(seen: SeenRegistries, names: Collection[TopicName]) -> dict[TopicName, str]:
    """Return topics with a subject of which the target has no version yet, and why that stops them.

    A version that is on its way is no reason: records that need it wait.
    """
    lacking = {of.subject for of in seen.source.versions if seen.rules.selects(of.subject)}
    lacking -= {of.subject for of, _ in seen.plan.placed}
    found: dict[TopicName, list[str]] = {}
    for subject in sorted(lacking):
        topic = seen.rules.naming.topic_of(subject)
        if topic is not None and topic in names:
            found.setdefault(topic, []).append(subject)
    return {
        topic: NOT_THERE.format(subjects=", ".join(subjects[:NAMED_MAX]))
        for topic, subjects in found.items()
    }
