"""Opening the target for producers once mirrors are given away: protection, rights, registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError
from heliostat.fencing import PROTECTION, ClusterRules, Fence, Purpose, RuleBook, unprotect
from heliostat.handover.desk import Answer
from heliostat.names import LinkName, TopicName
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
    BrokerError
        Some broker still shows a rule that protects them.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The target's registry does not answer, or refuses.
    """
    with closing(both.state()) as state:
        stored = state.read()
    promoted = _mirrors_of(stored, topics)
    came_to = {
        "protection": _unprotect(link, both, target, stored, promoted),
        "registry": _open_registry(config, link, target, promoted),
    }
    return Answer("; ".join(f"{what}: {text}" for what, text in came_to.items()), came_to)


def _mirrors_of(stored: Stored, topics: Collection[TopicName]) -> dict[TopicName, TopicName]:
    """Return the former mirrors by source topic."""
    return {
        name: former.record.target
        for name, former in stored.promoted.items()
        if name in topics and former.record is not None
    }


def _unprotect(
    link: LinkConfig,
    both: LinkConnections,
    target: ClusterAdmin,
    stored: Stored,
    promoted: Mapping[TopicName, TopicName],
) -> str:
    """Lift the rules that keep others from writing into them."""
    with closing(RuleBook(both.target, LinkName(link.name))) as book:
        book.read()
        purpose = Purpose(target.cluster_id(), PROTECTION)
        fence = Fence(ClusterRules(target), book, purpose, SystemClock())
        if not fence.laid:
            return "no rule was laid" if link.topics.protect else NOT_CONFIGURED
        others = [record.target for record in stored.mirrors.values()]
        standing = unprotect(fence, list(promoted.values()), others)
        if standing.missing:
            raise BrokerError(f"mirrors are still protected: {standing.text()}")
        return f"lifted: {standing.text()}"


def _open_registry(
    config: Config,
    link: LinkConfig,
    target: ClusterAdmin,
    promoted: Mapping[TopicName, TopicName],
) -> str:
    """Let producers register in the subjects of these topics."""
    if link.schemas.strategy == "off":
        return NOT_CONFIGURED
    if link.schemas.strategy == "rewrite":
        return "the link closes no subject (rewrite)"
    # Their HTTP client takes long to load.
    from heliostat.operate.schemas import registries_of
    from heliostat.operate.subject_modes import change_modes, planned_modes

    with registries_of(config, link) as (_, registry):
        plan = planned_modes(link, promoted, target.describe_topics(), registry, None)
        done = change_modes(plan, registry)
    kept = "".join(f"; {each.scope} stays {each.mode.value}: {each.reason}" for each in done.kept)
    notes = "".join(f"; {note}" for note in done.notes)
    return f"{len(done.changes):,} subjects opened{kept}{notes}"
