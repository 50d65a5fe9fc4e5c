"""Opening the target for producers once mirrors are given away: rights, and the registry.

Nothing of it asks the source: after a failover there is none. What protected the mirrors is lifted
by the promotion itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import HeliostatError, code_of
from heliostat.handover.desk import Answer
from heliostat.handover.opening import Opened, Part
from heliostat.names import TopicName
from heliostat.operate.access import grant_rights, rights_to_grant
from heliostat.schemas.opening import OpeningPlan, only_named_after
from heliostat.state.connections import LinkConnections
from heliostat.state.link_state import Stored

NOT_CONFIGURED = "not configured"
AGAIN = "call it again: what is open stays so"
REFUSED = "MODE_CHANGE_REFUSED"

Opening = Mapping[Part, Callable[[], Opened]]
"""What opens each part; raises `HeliostatError` where a cluster or registry fails."""


def opening_of(
    config: Config,
    link: LinkConfig,
    target: ClusterAdmin,
    stored: Callable[[], Stored],
    topics: Collection[TopicName],
    *,
    dry_run: bool = False,
) -> Opening:
    """Return what lets producers write into what is promoted; done again it changes nothing.

    Parameters
    ----------
    stored
        Returns the link's state; the link may not have given the mirrors up there yet.
    topics
        Names at the source.
    dry_run
        Whether only to tell what would be done.
    """
    return {
        Part.RIGHTS: lambda: _rights(config, link, topics, dry_run=dry_run),
        Part.REGISTRY: lambda: open_registry(config, link, target, stored, topics, dry_run=dry_run),
    }


def opened(opening: Opening) -> Iterator[Opened]:
    """Open each part; one that fails is told as that, and keeps no other from being opened."""
    for part, do in opening.items():
        try:
            came_to = do()
        except HeliostatError as error:
            came_to = Opened(part, error.text, code_of(error), error.hint)
        if came_to.code:
            hint = "; ".join(filter(None, (came_to.hint, AGAIN)))
            came_to = replace(came_to, hint=hint)
        yield came_to


def open_target(
    config: Config,
    link: LinkConfig,
    both: LinkConnections,
    target: ClusterAdmin,
    topics: Collection[TopicName],
) -> Answer:
    """Open all of it, as a switch's step does: where a part fails, the step is done again.

    Raises
    ------
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The target's registry does not answer, or refuses.
    """
    with closing(both.state()) as state:
        opening = opening_of(config, link, target, state.read, topics)
        came_to = [do() for do in opening.values()]
    text = "; ".join(outcome.line() for outcome in came_to)
    return Answer(text, {outcome.part.value: outcome.text for outcome in came_to})


def _rights(
    config: Config, link: LinkConfig, topics: Collection[TopicName], *, dry_run: bool
) -> Opened:
    """Grant `Write`, which was kept ready while they were mirrors."""
    if not link.access.sync_acls:
        return Opened(Part.RIGHTS, f"{NOT_CONFIGURED} (access.sync_acls): nothing was held back")
    if dry_run:
        rules = rights_to_grant(config, link, topics)
        return Opened(Part.RIGHTS, f"{len(rules):,} rules would be granted")
    answer = grant_rights(config, link, topics)
    text = f"{len(answer.granted):,} rules granted"
    if not answer.failed:
        return Opened(Part.RIGHTS, text)
    error = next(iter(answer.failed.values()))
    refused = "; ".join(f"{rule} was refused: {why}" for rule, why in answer.failed.items())
    return Opened(Part.RIGHTS, f"{text}; {refused}", code_of(error), error.hint)


def open_registry(
    config: Config,
    link: LinkConfig,
    target: ClusterAdmin,
    stored: Callable[[], Stored],
    topics: Collection[TopicName],
    *,
    dry_run: bool,
) -> Opened:
    """Let producers register in the subjects of these topics.

    Those of merged topics are closed where they were mirrors with another strategy before. While
    the link keeps other mirrors, subjects that are not named after these topics stay closed:
    what is open gets no new version of the source's, and records of the others would wait for it.
    """
    if link.schemas.strategy == "off":
        return Opened(Part.REGISTRY, f"{NOT_CONFIGURED} (schemas.strategy)")
    if link.schemas.strategy == "rewrite" and not link.topics.merges:
        return Opened(Part.REGISTRY, "the link closes no subject (rewrite)")
    # Their HTTP client takes long to load.
    from heliostat.operate.schemas import registries_of
    from heliostat.operate.subject_modes import change_modes, planned_modes

    link_state = stored()
    promoted = _mirrors_of(link_state, topics)
    kept = link_state.mirrors.keys() - topics
    with registries_of(config, link) as (_, registry):
        plan = planned_modes(link, promoted, target.describe_topics(), registry, None)
        shared = OpeningPlan()
        if kept:
            plan, shared = only_named_after(plan, {*promoted, *promoted.values()})
        done = plan if dry_run else change_modes(plan, registry)
    text = _opened_text(done, len(shared.changes), "would be opened" if dry_run else "opened")
    if len(done.changes) == len(plan.changes):
        return Opened(Part.REGISTRY, text)
    return Opened(Part.REGISTRY, text, REFUSED, done.kept[-1].hint)


def _mirrors_of(stored: Stored, topics: Collection[TopicName]) -> dict[TopicName, TopicName]:
    """Return the former mirrors by source topic, also before a silent driver has noted them."""
    former = {name: mirror.record for name, mirror in stored.promoted.items()} | dict(
        stored.mirrors
    )
    return {
        name: record.target
        for name, record in former.items()
        if name in topics and record is not None
    }


def _opened_text(done: OpeningPlan, shared: int, words: str) -> str:
    """Return what opening came to."""
    kept = [
        f"{kept_mode.scope} stays {kept_mode.mode.value}: {kept_mode.reason}"
        for kept_mode in done.kept
    ]
    if shared:
        kept.append(
            f"{shared:,} of records, or of all topics, stay closed while the link has other "
            "mirrors: `heliostat schemas open`"
        )
    return "; ".join([f"{len(done.changes):,} subjects {words}", *kept, *done.notes])
