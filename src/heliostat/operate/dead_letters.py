"""`heliostat dlq`: dead letters of links, replayed to a topic or to their source, and dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import STATE_TOPIC_PREFIX, Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.gaps.dead_letters import DeadLetter, DeadLetters
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.reach import require_answer
from heliostat.other_links.at_target import other_links_at
from heliostat.records.batches.encode import NewRecord, encode_batch
from heliostat.state.link_state import LinkState
from heliostat.topics.merged_links import refuse_if_merged

REPLAYED = "heliostat.replayed"
"""Header of a replayed record: where its original stood at the source."""


def letters_of(
    config: Config,
    link: LinkConfig,
    topic: TopicName | None = None,
    partition: PartitionId | None = None,
    offset: int | None = None,
) -> list[DeadLetter]:
    """Return a link's dead letters, oldest first: all, or of a source topic, partition, offset.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer or refuses.
    ProtocolError
        Somebody else wrote among them.
    """
    require_answer(config.clusters[link.target])
    letters = _of(config, link).read().values()
    return [
        letter
        for letter in letters
        if topic in {None, letter.source.topic}
        and partition in {None, letter.source.partition}
        and offset in {None, letter.offset}
    ]


def drop(config: Config, link: LinkConfig, letters: Sequence[DeadLetter]) -> None:
    """Remove letters for good.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer or refuses.
    """
    with ClusterAdmin(config.clusters[link.target].access()) as admin:
        _of(config, link).drop(letters, admin, SystemClock().wall_ms())


def replay(
    config: Config, link: LinkConfig, letters: Sequence[DeadLetter], to: TopicName | None
) -> None:
    """Write records of letters again, oldest first, then remove each letter.

    Parameters
    ----------
    to
        A topic of the target that is no mirror; None: their source topics, from where the link
        copies them like any other record.

    Raises
    ------
    Refused
        A letter is a damaged batch, or has a schema id that is not the same schema's at the target;
        or the topic is a mirror or does not exist. Nothing is written.
    ConnectionLost, BrokerError
        A cluster does not answer or refuses. Letters that are still there may have been written.
    """
    refuse_if_merged(link, "dlq replay")
    for letter in letters:
        if letter.is_batch:
            raise Refused(
                f"{letter.source} at offset {letter.offset} is a batch that can't be decoded",
                hint="heliostat dlq show prints its bytes; drop it when they are saved",
            )
    with ClusterAdmin(config.clusters[link.target].access()) as target:
        if to is None:
            with ClusterAdmin(config.clusters[link.source].access()) as source:
                _write(
                    config, link, letters, source, target, lambda dead_letter: dead_letter.source
                )
            return
        count = require_plain_topic(config, link, to, target)
        from heliostat.operate.replayed_ids import check_ids  # loads an HTTP client

        check_ids(config, link, letters)
        _write(
            config,
            link,
            letters,
            target,
            target,
            lambda dead_letter: TopicPartition(
                to, PartitionId(dead_letter.source.partition % count)
            ),
        )


def require_plain_topic(
    config: Config, link: LinkConfig, to: TopicName, target: ClusterAdmin
) -> int:
    """Return how many partitions a topic of the target has that is nobody's mirror.

    Raises
    ------
    Refused
        Only a link may write to it, or it is not there.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    if to.startswith(STATE_TOPIC_PREFIX):
        raise Refused(f"{to} is a state topic of a link")
    cluster = config.clusters[link.target]
    with closing(LinkState(link, cluster)) as state:
        mirrors = {record.target for record in state.read().mirrors.values()}
    claims = other_links_at(link, cluster, target).claims([to])
    if to in mirrors or to in claims:
        raise Refused(
            f"{to} is a mirror: only its link may write there, or it would stop as diverged",
            hint="use another topic; for `heliostat dlq replay` there is --to-source",
        )
    topic = target.describe_topics([to])[to]
    if topic.error is not None:
        raise Refused(f"topic {to} is not at {link.target}, or can't be described there")
    return len(topic.partitions)


def _write(  # noqa: PLR0917 - what, from where and to where
    config: Config,
    link: LinkConfig,
    letters: Sequence[DeadLetter],
    cluster: ClusterAdmin,
    target: ClusterAdmin,
    place: Callable[[DeadLetter], TopicPartition],
) -> None:
    kept, clock = _of(config, link), SystemClock()
    for letter in letters:
        partition = place(letter)
        origin = f"{letter.source.topic}/{letter.source.partition}/{letter.offset}".encode()
        headers = (*letter.headers, (REPLAYED, origin))
        batch = encode_batch([NewRecord(letter.key, letter.value, letter.timestamp_ms, headers)])
        answer = cluster.append({partition: batch})[partition]
        if isinstance(answer, BrokerError):
            raise answer
        kept.drop([letter], target, clock.wall_ms())


def _of(config: Config, link: LinkConfig) -> DeadLetters:
    return DeadLetters(LinkName(link.name), config.clusters[link.target].access())
