"""Subjects of the old source's registry, closed so that the link that leads back may write them.

A switch has opened them to producers, and a link imports nothing into what is open.
"""

from __future__ import annotations

from collections.abc import Collection

from heliostat.config import Config, LinkConfig
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.operate.reversing.values import TopicReturn


def left_in_context(link: LinkConfig) -> tuple[str, ...]:
    """Return a line about schemas that no link takes back: one reads its source's default context.

    Parameters
    ----------
    link
        The link whose mirrors were promoted.
    """
    if link.schemas.strategy != "isolate":
        return ()
    context = link.schemas.context or f".{link.source}"
    text = f"schemas that producers have registered in context {context} at {link.target} since"
    return (f"{text} are not taken back: register them at {link.source} with the same ids",)


def close_to_producers(
    config: Config, back: LinkConfig, clusters: LinkClusters, topics: Collection[TopicReturn]
) -> tuple[str, ...]:
    """Close subjects of these topics; return a line for each that stays open, and why.

    Raises
    ------
    ConnectionLost, BrokerError
        The old source does not answer, or refuses.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    """
    if back.schemas.strategy in ("off", "rewrite"):
        return ()
    # Their HTTP client takes long to load.
    from heliostat.operate.schemas import registries_of
    from heliostat.operate.subject_modes import change_modes, planned_modes

    mirrors = {topic.mirror: topic.topic for topic in topics}
    with registries_of(config, back) as (source, target):
        plan = planned_modes(back, mirrors, clusters.target.describe_topics(), target, source)
        done = change_modes(plan, target)
    return tuple(
        f"{kept_mode.scope} stays {kept_mode.mode.value}: {kept_mode.reason}"
        for kept_mode in done.kept
    )
