"""Opening the target for producers once mirrors are given away: rights, and the registry.

What protected the mirrors is lifted by the promotion itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.handover.desk import Answer
from heliostat.names import TopicName
from heliostat.operate.access import grant_rights
from heliostat.schemas.opening import OpeningPlan, only_named_after
from heliostat.state.connections import LinkConnections
from heliostat.state.link_state import Stored

NOT_CONFIGURED = "not configured"


def open_target(
    config: Config,
    link: LinkConfig,
    both: LinkConnections,
    target: ClusterAdmin,
    topics: Collection[TopicName],
) -> Answer:
    """Let producers write into what is promoted; done again it changes nothing.

    Raises
    ------
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The target's registry does not answer, or refuses.
    """
    with closing(both.state()) as state:
        stored = state.read()
    promoted = _mirrors_of(stored, topics)
    kept = {name: record.target for name, record in stored.mirrors.items() if name not in topics}
    came_to = {
        "rights": _grant(config, link, topics),
        "registry": _open_registry(config, link, target, promoted, kept),
    }
    return Answer("; ".join(f"{what}: {text}" for what, text in came_to.items()), came_to)


def _mirrors_of(stored: Stored, topics: Collection[TopicName]) -> dict[TopicName, TopicName]:
    """Return the former mirrors by source topic."""
    return {
        name: former.record.target
        for name, former in stored.promoted.items()
        if name in topics and former.record is not None
    }


def _grant(config: Config, link: LinkConfig, topics: Collection[TopicName]) -> str:
    """Grant `Write`, which was kept ready while they were mirrors."""
    if not link.access.sync_acls:
        return f"{NOT_CONFIGURED}: nothing was held back"
    answer = grant_rights(config, link, topics)
    failed = "".join(f"; {rule} was refused: {why}" for rule, why in answer.failed.items())
    return f"{len(answer.granted):,} rules granted{failed}"


def _open_registry(
    config: Config,
    link: LinkConfig,
    target: ClusterAdmin,
    promoted: Mapping[TopicName, TopicName],
    kept: Mapping[TopicName, TopicName],
) -> str:
    """Let producers register in the subjects of these topics.

    While the link keeps other mirrors, subjects that are not named after these topics stay closed:
    what is open gets no new version of the source's, and records of the others would wait for it.
    """
    if link.schemas.strategy == "off":
        return NOT_CONFIGURED
    if link.schemas.strategy == "rewrite":
        return "the link closes no subject (rewrite)"
    # Their HTTP client takes long to load.
    from heliostat.operate.schemas import registries_of
    from heliostat.operate.subject_modes import change_modes, planned_modes

    with registries_of(config, link) as (_, registry):
        plan = planned_modes(link, promoted, target.describe_topics(), registry, None)
        shared = OpeningPlan()
        if kept:
            names = {*promoted, *promoted.values()}
            plan, shared = only_named_after(plan, names)
        done = change_modes(plan, registry)
    return _opened(done, len(shared.changes))


def _opened(done: OpeningPlan, shared: int) -> str:
    """Return what opening came to."""
    kept = [f"{each.scope} stays {each.mode.value}: {each.reason}" for each in done.kept]
    if shared:
        kept.append(
            f"{shared:,} of records, or of all topics, stay closed while the link has other "
            "mirrors: `heliostat schemas open`"
        )
    return "; ".join([f"{len(done.changes):,} subjects opened", *kept, *done.notes])
