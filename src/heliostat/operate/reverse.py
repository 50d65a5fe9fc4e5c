"""Failing back without a full copy: the old source becomes the target of a link that leads back.

    look      promotions of the link, both logs of each partition                    reads only
    check     the logs are equal up to the promotion, and what the old source has behind it
    give way  the link that leads back rests, where it runs: its state is written by us
    groups    offsets beyond the promotion are set back, before anything is copied
    recreate  topics that are to lose their tail, once it is rescued
    write     offset map, then where partitions begin, then whose mirrors they are

Nothing of the old source's topics is cut away: records behind the promotion (the tail) stay where
the operator says so, or their topic is made anew, or left as it is.

I2  The link that leads back continues at the old source's log end with what came to the new primary
    after the promotion.
I10 That link is claimed while its state is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.handover.promotion import Promotion
from heliostat.invariants import first_generation
from heliostat.mm2.adopt_clusters import (
    OWN_LASTS_S,
    LinkClusters,
    let_go,
    other_claims_of,
    owned,
    refuse_moved,
)
from heliostat.names import LinkName, TopicName, TopicPartition
from heliostat.offsets.map_rows import Stamp
from heliostat.operate.giving_way import ask_to_give_way
from heliostat.operate.reversing.look import Look
from heliostat.operate.reversing.recreate import Recreating
from heliostat.operate.reversing.registry import close_to_producers, left_in_context
from heliostat.operate.reversing.set_back import groups_beyond, set_back
from heliostat.operate.reversing.values import ReturnState, Reversal, Tail, TopicReturn
from heliostat.operate.reversing.written import note, open_source, write
from heliostat.state.claimed import DrivenElsewhere
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership
from heliostat.topics.merged_links import refuse_if_merged
from heliostat.wishes.wish_book import WishBook


def reverse(
    config: Config,
    link: LinkConfig,
    back: LinkConfig,
    topics: Collection[str] = (),
    *,
    tail: Tail = Tail.REFUSE,
    dry_run: bool = False,
    agree: Callable[[Reversal], bool] = lambda _: True,
    by: str = "",
) -> Reversal:
    """Have `back` continue at the old source with what came to the new primary since.

    Parameters
    ----------
    link
        The link whose mirrors were promoted.
    back
        A link in the other direction; if it runs, it rests for as long as its state is written.
    topics
        Names at the old source; none: all that were promoted.
    agree
        Called with what is to be done before anything is written.
    by
        Who asks.

    Raises
    ------
    Refused
        Nothing was promoted, `back` leads elsewhere, or something has changed while it was looked
        at.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; call it again.
    """
    refuse_if_merged(link, "reverse")
    _refuse_elsewhere(link, back)
    with LinkClusters(config, back) as clusters:
        promotions = _promotions(clusters, link, topics)
        recreating = Recreating(config, clusters, link)
        looked = Look(clusters, link, back, recreating, tail)
        returns = tuple(looked.topics(promotions))
        left = left_in_context(link)
        reversal = Reversal(LinkName(link.name), LinkName(back.name), returns, open_subjects=left)
        reversal = replace(reversal, groups=groups_beyond(clusters.target, reversal.ready))
        done = [topic for topic in returns if topic.state is ReturnState.DONE]
        if done and not dry_run and not reversal.ready:
            subjects = _open(config, link, clusters, done)
            note(clusters, link, [promotions[topic.topic] for topic in done])
            return replace(reversal, open_subjects=(*left, *subjects))
        if dry_run or not reversal.ready or not agree(reversal):
            return reversal
        with ExitStack() as stack:
            state, ownership = _taken(stack, config, clusters, by, f"{link.name} is reversed")
            _refuse_changed(clusters, reversal.ready)
            groups = set_back(clusters.target, reversal.groups)
            ready = _made_anew(recreating, reversal.ready, promotions, ownership)
            records = [topic.record for topic in ready if topic.record is not None]
            ownership.hold(OWN_LASTS_S)
            stamp = Stamp(first_generation(ownership.claim_number), 0)
            write(clusters, link, state, ready, stamp)
            let_go(state, records, other_claims_of(clusters, (record.target for record in records)))
            subjects = _open(config, link, clusters, [*done, *ready])
        note(clusters, link, [promotions[topic.topic] for topic in (*done, *reversal.ready)])
        subjects = *left, *subjects
        return replace(reversal, groups=groups, open_subjects=subjects, is_written=True)


def _taken(
    stack: ExitStack, config: Config, clusters: LinkClusters, by: str, why: str
) -> tuple[LinkState, Ownership]:
    """Claim the link that leads back; a driver that has begun meanwhile gives way, too."""
    ask_to_give_way(config, clusters.link, by, why)
    try:
        return stack.enter_context(owned(clusters))
    except DrivenElsewhere:
        ask_to_give_way(config, clusters.link, by, why)
        return stack.enter_context(owned(clusters))


def _open(
    config: Config, link: LinkConfig, clusters: LinkClusters, topics: Collection[TopicReturn]
) -> tuple[str, ...]:
    """Let the link that leads back write; return lines about subjects that stay open."""
    open_source(config, link, clusters, [topic.topic for topic in topics])
    return close_to_producers(config, clusters.link, clusters, topics)


def _refuse_changed(clusters: LinkClusters, topics: Collection[TopicReturn]) -> None:
    """Refuse if a topic that stays has other records, or is another one, than when it was seen."""
    stay = [topic for topic in topics if topic.recreation is None]
    refuse_moved(
        clusters.target,
        [topic.record for topic in stay if topic.record is not None],
        {
            TopicPartition(topic.topic, part.partition): part.old_end
            for topic in stay
            for part in topic.partitions
        },
    )


def _made_anew(
    recreating: Recreating,
    topics: Collection[TopicReturn],
    promotions: Mapping[TopicName, Promotion],
    ownership: Ownership,
) -> list[TopicReturn]:
    """Make topics anew that are to be; return all, with the ids that they have now."""
    rows = [
        replace(promotions[topic_return.topic], recreation=topic_return.recreation)
        for topic_return in topics
        if topic_return.recreation is not None
    ]
    if not rows:
        return list(topics)
    ownership.hold(OWN_LASTS_S)
    recreating.note(rows)
    ready = {topic_return.topic: topic_return for topic_return in topics}
    for row in rows:
        ownership.hold(OWN_LASTS_S)
        topic = ready[row.topic]
        assert topic.record is not None
        target_id = recreating.make_anew(row)
        ready[row.topic] = replace(topic, record=replace(topic.record, target_id=target_id))
    return list(ready.values())


def _refuse_elsewhere(link: LinkConfig, back: LinkConfig) -> None:
    if (back.source, back.target) != (link.target, link.source):
        raise Refused(
            f"link {back.name} leads from {back.source} to {back.target}, and the way back of "
            f"{link.name} is from {link.target} to {link.source}",
            hint="name a link of that direction, or add one to the file",
        )
    if back.topics.fan_in is not None or back.pipelines:
        raise Refused(
            f"link {back.name} changes what it copies: nothing can be equal to where it goes",
            hint="take a link without pipelines and fan_in for the way back",
        )
    if link.schemas.strategy == "rewrite" != back.schemas.strategy:
        raise Refused(
            f"link {link.name} gave records the ids of its target's registry (rewrite), and link "
            f"{back.name} would leave these in them",
            hint="set schemas.strategy: rewrite for the way back, too",
        )


def _promotions(
    clusters: LinkClusters, link: LinkConfig, topics: Collection[str]
) -> dict[TopicName, Promotion]:
    """Return what was promoted of the link, from its wishes at the new primary."""
    with closing(WishBook(LinkName(link.name), clusters.source_access)) as book:
        book.read()
        promotions = dict(book.wishes.promotions)
    for topic in topics:
        if topic not in promotions:
            raise Refused(
                f"{topic} was not promoted", hint="`heliostat switch` and `failover` promote"
            )
    chosen = {
        name: promotion for name, promotion in promotions.items() if not topics or name in topics
    }
    if not chosen:
        raise Refused(
            f"no mirror of link {link.name} was promoted",
            hint="`heliostat switch` and `failover` promote",
        )
    return dict(sorted(chosen.items()))
