"""Consumer groups: list them, their members and offsets; commit for those without members.

Requests contain many groups if the brokers support that (FindCoordinator v4 of KIP-699, OffsetFetch
v8 of KIP-709, both since 3.0); a commit names one group, and several are in flight at once.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from heliostat.clusters.admin import schemas
from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.group_answers import (
    FETCHED_FROM,
    FETCHED_UP_TO,
    LISTED_FROM,
    FetchedRow,
    decode_fetched,
    decode_listed,
)
from heliostat.clusters.admin.group_topics import topics_of_member
from heliostat.clusters.admin.group_values import (
    CONSUMER_KIND,
    NO_COMMIT,
    NO_EPOCH,
    STREAMS_KIND,
    CommittedOffset,
    GroupListing,
    GroupMember,
    ListedGroup,
)
from heliostat.clusters.admin.large_answers import LargeAnswer, ListGroups, OffsetFetch
from heliostat.clusters.kafka_codes import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError
from heliostat.names import BrokerId, GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.ops.asked import asked_at_once

GROUPS_AT_ONCE = 500
"""Groups in a request. With ten partitions each the answer is some 200 kB."""
COMMIT_BYTES = 400_000
"""Of one commit. Its broker writes it as one batch, which `max.message.bytes` of the topic of
offsets limits (1 MiB by default): a group of Kafka Streams may have 4 KiB for each partition."""
COMMIT_ROW_BYTES = 400
"""Of one partition at most, without topic and metadata: the group's name is up to 249 bytes."""
KEY_TYPE_GROUP = 0
BATCHED_LOOKUP = 4  # FindCoordinator: version from which it takes many groups
NAMES_UP_TO = 9  # OffsetCommit knows topics by name up to this version
MISSING_IS_DEAD_UP_TO = 5  # DescribeGroups: later versions answer an error, and no operations
STATES_FROM, TYPES_FROM = 4, 5  # ListGroups: KIP-518, KIP-848
NOT_A_MEMBER, NO_GENERATION = "", -1
COORDINATOR_LOOKUPS = 2  # the second after a group has moved to another broker

Commits = Mapping[TopicPartition, CommittedOffset]
FetchedOffsets = Mapping[TopicPartition, CommittedOffset | BrokerError]
CommitAnswers = Mapping[TopicPartition, BrokerError | None]
_Answer = TypeVar("_Answer")
_Answers = dict[GroupId, _Answer | BrokerError]


class ConsumerGroupDescribeRequest(  # type: ignore[call-arg]  # untyped
    ApiMessage,  # type: ignore[misc]  # as above
    load_json=schemas,
):
    """Request for the members of KIP-848's groups."""


class ConsumerGroupDescribeResponse(  # type: ignore[call-arg]  # untyped
    ApiMessage,  # type: ignore[misc]  # as above
    load_json=schemas,
):
    """Its answer, which kafka-python finds by the request's key."""


class StreamsGroupDescribeRequest(  # type: ignore[call-arg]  # untyped
    ApiMessage,  # type: ignore[misc]  # as above
    load_json=schemas,
):
    """Request for the members of KIP-1071's groups."""


class StreamsGroupDescribeResponse(  # type: ignore[call-arg]  # untyped
    ApiMessage,  # type: ignore[misc]  # as above
    load_json=schemas,
):
    """Its answer."""


class Coordinators:
    """Which broker coordinates which group, as last seen."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[GroupId, BrokerId] = {}

    def learn(self, groups: Iterable[ListedGroup]) -> None:
        """Note coordinators: each broker has listed the groups that it coordinates."""
        self._known.update({group.group: group.coordinator for group in groups})

    def ask_each(
        self,
        groups: Iterable[GroupId],
        ask: Callable[[BrokerId, Sequence[GroupId]], _Answers[_Answer]],
    ) -> _Answers[_Answer]:
        """Ask each group's coordinator, and once more if it had moved meanwhile.

        The answer is an error if a group has no coordinator, or it cannot be reached.
        """
        pending = sorted(set(groups))
        answers: _Answers[_Answer] = {}
        for _ in range(COORDINATOR_LOOKUPS):
            answers.update(
                self._look_up([group_id for group_id in pending if group_id not in self._known])
            )
            by_broker: dict[BrokerId, list[GroupId]] = defaultdict(list)
            for group in pending:
                if group in self._known:
                    by_broker[self._known[group]].append(group)
            asks = {
                broker: partial(_asked_in_turn, ask, broker, those)
                for broker, those in by_broker.items()
            }
            for those_answers in asked_at_once(asks).values():
                answers.update(those_answers)
            pending = [group for group in pending if _is_stale(answers.get(group))]
            for group in pending:
                self._known.pop(group, None)
            if not pending:
                break
        return answers

    def _look_up(self, groups: Sequence[GroupId]) -> dict[GroupId, BrokerError]:
        """Find coordinators; return errors of the groups that have none now."""
        failed: dict[GroupId, BrokerError] = {}
        for some in chunks(groups, GROUPS_AT_ONCE):
            for group, row in self._rows(some):
                error = error_of(row.error_code, f"find the coordinator of group {group}")
                if error is None:
                    self._known[group] = BrokerId(row.node_id)
                else:
                    failed[group] = error
        return failed

    def _rows(self, groups: Sequence[GroupId]) -> Iterator[tuple[GroupId, Any]]:
        if self._caller.version_of(FindCoordinatorRequest) >= BATCHED_LOOKUP:
            request = FindCoordinatorRequest(
                key_type=KEY_TYPE_GROUP, coordinator_keys=list(groups), min_version=BATCHED_LOOKUP
            )
            for row in self._caller.send(request).coordinators:
                yield GroupId(row.key), row
            return
        for group in groups:
            request = FindCoordinatorRequest(
                key=group, key_type=KEY_TYPE_GROUP, max_version=BATCHED_LOOKUP - 1
            )
            yield group, self._caller.send(request)


def _asked_in_turn(
    ask: Callable[[BrokerId, Sequence[GroupId]], _Answers[_Answer]],
    broker: BrokerId,
    groups: Sequence[GroupId],
) -> _Answers[_Answer]:
    answers: _Answers[_Answer] = {}
    for some in chunks(groups, GROUPS_AT_ONCE):
        answers.update(_asked(ask, broker, some))
    return answers


def _asked(
    ask: Callable[[BrokerId, Sequence[GroupId]], _Answers[_Answer]],
    broker: BrokerId,
    groups: Sequence[GroupId],
) -> _Answers[_Answer]:
    try:
        return ask(broker, groups)
    except ConnectionLost as lost:
        return dict.fromkeys(groups, _silent(broker, lost))


def _silent(broker: BrokerId, lost: ConnectionLost) -> BrokerError:
    text = f"coordinator {broker} does not answer: {lost.text}"
    return BrokerError(text, kafka_code=COORDINATOR_NOT_AVAILABLE)


def _is_stale(answer: object) -> bool:
    return isinstance(answer, BrokerError) and answer.kafka_code == NOT_COORDINATOR


def list_groups(
    caller: Caller, *, states: Sequence[str] = (), kinds: Sequence[str] = ()
) -> GroupListing:
    """Groups that each broker coordinates; only those of some states or kinds, if given."""
    groups: dict[GroupId, ListedGroup] = {}
    failed: dict[BrokerId, BrokerError] = {}
    wanted: dict[str, Any] = {"min_version": LISTED_FROM}
    if states:
        wanted |= {"states_filter": list(states), "min_version": STATES_FROM}
    if kinds:
        wanted |= {"types_filter": list(kinds), "min_version": TYPES_FROM}

    def listed(broker: BrokerId) -> LargeAnswer | ConnectionLost:
        try:
            answer: LargeAnswer = caller.send(ListGroups(**wanted), broker)
        except ConnectionLost as lost:
            return lost
        return answer

    brokers = [BrokerId(row.node_id) for row in caller.metadata([]).brokers]
    answers = asked_at_once({broker: partial(listed, broker) for broker in brokers})
    for broker, response in answers.items():
        if isinstance(response, ConnectionLost):
            failed[broker] = BrokerError(
                f"broker {broker} does not answer: {response.text}",
                kafka_code=COORDINATOR_NOT_AVAILABLE,
            )
            continue
        question = ("groups", broker, tuple(states), tuple(kinds))
        code, broker_groups = caller.remembered.decoded(
            question, response, partial(_listed, broker)
        )
        error = error_of(code, f"list the groups of broker {broker}")
        if error is not None:
            failed[broker] = error
        groups.update(broker_groups)
    return GroupListing(groups, failed)


def _listed(broker: BrokerId, answer: LargeAnswer) -> tuple[int, dict[GroupId, ListedGroup]]:
    code, rows = decode_listed(answer.body, answer.version)
    return code, {
        GroupId(row.group): ListedGroup(
            GroupId(row.group), broker, row.state, row.kind.lower(), row.protocol
        )
        for row in rows
    }


def describe_members(
    caller: Caller, coordinators: Coordinators, groups: Iterable[GroupId], kind: str
) -> dict[GroupId, tuple[GroupMember, ...] | BrokerError]:
    """Members of groups of one kind; for those of another the answer is `GROUP_ID_NOT_FOUND`."""

    def ask(broker: BrokerId, some: Sequence[GroupId]) -> _Answers[tuple[GroupMember, ...]]:
        return {
            GroupId(row.group_id): error_of(row.error_code, f"describe group {row.group_id}")
            or tuple(
                GroupMember(member.client_id, member.client_host, topics_of_member(member, kind))
                for member in row.members
            )
            for row in caller.send(_describe_request(some, kind), broker).groups
        }

    return coordinators.ask_each(groups, ask)


def _describe_request(groups: Sequence[GroupId], kind: str) -> Any:
    if kind == CONSUMER_KIND:
        request = ConsumerGroupDescribeRequest
    elif kind == STREAMS_KIND:
        request = StreamsGroupDescribeRequest
    else:
        return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    return request(group_ids=list(groups), include_authorized_operations=False)


def operations(
    caller: Caller, coordinators: Coordinators, groups: Iterable[GroupId]
) -> dict[GroupId, frozenset[int] | BrokerError]:
    """What we may do with groups (codes of `AclOperation`), whether they are there or not."""

    def ask(broker: BrokerId, some: Sequence[GroupId]) -> _Answers[frozenset[int]]:
        request = DescribeGroupsRequest(
            groups=list(some),
            include_authorized_operations=True,
            max_version=MISSING_IS_DEAD_UP_TO,
        )
        return {
            GroupId(row.group_id): error_of(row.error_code, f"describe group {row.group_id}")
            or frozenset(row.authorized_operations or ())
            for row in caller.send(request, broker).groups
        }

    return coordinators.ask_each(groups, ask)


def delete(
    caller: Caller, coordinators: Coordinators, groups: Iterable[GroupId]
) -> dict[GroupId, BrokerError | None]:
    """Delete groups without members, with their offsets."""

    def ask(broker: BrokerId, some: Sequence[GroupId]) -> _Answers[None]:
        answer = caller.send(DeleteGroupsRequest(groups_names=list(some)), broker)
        return {
            GroupId(row.group_id): error_of(row.error_code, f"delete group {row.group_id}")
            for row in answer.results
        }

    return coordinators.ask_each(groups, ask)


def fetch_offsets(
    caller: Caller, coordinators: Coordinators, groups: Iterable[GroupId]
) -> dict[GroupId, FetchedOffsets | BrokerError]:
    """All committed offsets of groups, for topics that we may see."""

    def ask(broker: BrokerId, some: Sequence[GroupId]) -> _Answers[FetchedOffsets]:
        if caller.version_of(OffsetFetchRequest) < FETCHED_FROM:
            return {group: _of_one(caller, broker, group) for group in some}
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetch(
            groups=[kind(group_id=group, topics=None) for group in some],
            require_stable=False,  # offsets in transactions count once those commit
            min_version=FETCHED_FROM,
            max_version=FETCHED_UP_TO,
        )
        answer: LargeAnswer = caller.send(request, broker)
        return {GroupId(row.group): _row(row) for row in _decoded(answer)}

    return coordinators.ask_each(groups, ask)


def _of_one(caller: Caller, broker: BrokerId, group: GroupId) -> FetchedOffsets | BrokerError:
    request = OffsetFetchRequest(
        group_id=group, topics=None, min_version=2, max_version=FETCHED_FROM - 1
    )
    answer = caller.send(request, broker)
    offsets: dict[TopicPartition, CommittedOffset | int] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            partition = TopicPartition(TopicName(topic.name), PartitionId(part.partition_index))
            if part.error_code:
                offsets[partition] = part.error_code
            elif part.committed_offset != NO_COMMIT:
                offset = Offset(part.committed_offset)
                offsets[partition] = CommittedOffset(offset, part.metadata or "")
    return _row(FetchedRow(group, answer.error_code, offsets))


def _decoded(answer: LargeAnswer) -> list[FetchedRow]:
    try:
        return decode_fetched(answer.body)
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError("an answer is malformed", why=str(error)) from error


def _row(row: FetchedRow) -> FetchedOffsets | BrokerError:
    error = error_of(row.error_code, f"fetch offsets of group {row.group}")
    if error is not None:
        return error
    return {
        partition: answer if isinstance(answer, CommittedOffset) else _refused(partition, answer)
        for partition, answer in row.offsets.items()
    }


def _refused(partition: TopicPartition, code: int) -> BrokerError:
    error = error_of(code, f"fetch the committed offset of {partition}")
    assert error is not None
    return error


def commit_offsets(
    caller: Caller, coordinators: Coordinators, commits: Mapping[GroupId, Commits]
) -> dict[GroupId, CommitAnswers | BrokerError]:
    """Commit without being a member, which brokers accept only for groups without members.

    For other groups they answer `UNKNOWN_MEMBER_ID`
    (`validateOffsetCommit` of `ClassicGroup`, `ConsumerGroup`, `StreamsGroup`).
    """

    def ask(broker: BrokerId, some: Sequence[GroupId]) -> _Answers[CommitAnswers]:
        parts = [(group, part) for group in some for part in commit_parts(commits[group])]
        requests = [_commit_request(group, part) for group, part in parts]
        answers: _Answers[CommitAnswers] = {}
        for (group, part), answer in zip(parts, caller.send_each(requests, broker), strict=True):
            rows = _commit_answers(broker, part, answer)
            answers[group] = _joined(answers.get(group, {}), rows)
        return answers

    return coordinators.ask_each((group for group, rows in commits.items() if rows), ask)


def _commit_request(group: GroupId, commits: Commits) -> Any:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[TopicName, list[Any]] = defaultdict(list)
    for partition, commit in commits.items():
        topics[partition.topic].append(
            kind.OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=commit.offset,
                committed_leader_epoch=NO_EPOCH,
                committed_metadata=commit.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id=NOT_A_MEMBER,
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[kind(name=name, partitions=rows) for name, rows in topics.items()],
        min_version=2,
        max_version=NAMES_UP_TO,
    )


def commit_parts(commits: Commits) -> Iterator[Commits]:
    """Cut what one group commits into parts that a broker writes as one batch."""
    part: dict[TopicPartition, CommittedOffset] = {}
    size = 0
    for partition, commit in commits.items():
        row = COMMIT_ROW_BYTES + len(partition.topic) + len(commit.metadata.encode())
        if part and size + row > COMMIT_BYTES:
            yield part
            part, size = {}, 0
        part[partition] = commit
        size += row
    yield part


def _joined(
    former: CommitAnswers | BrokerError, rows: CommitAnswers | BrokerError
) -> CommitAnswers | BrokerError:
    """Join the answers to two parts; a group whose coordinator has moved is asked once more."""
    if isinstance(former, BrokerError):
        return former
    return rows if isinstance(rows, BrokerError) else {**former, **rows}


def _commit_answers(
    broker: BrokerId, part: Commits, response: Any | BrokerError | ConnectionLost
) -> CommitAnswers | BrokerError:
    if isinstance(response, BrokerError):
        return response if _is_stale(response) else dict.fromkeys(part, response)
    if isinstance(response, ConnectionLost):
        return dict.fromkeys(part, _silent(broker, response))
    rows = {
        TopicPartition(TopicName(topic.name), PartitionId(part.partition_index)): error_of(
            part.error_code, f"commit for {topic.name}-{part.partition_index}"
        )
        for topic in response.topics
        for part in topic.partitions
    }
    return next((error for error in rows.values() if error and _is_stale(error)), rows)


_Item = TypeVar("_Item")


def chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Lists of `size` items at most, in order."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
