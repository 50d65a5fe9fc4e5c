"""A member of a group of Kafka Streams (`group.protocol=streams`, KIP-1071), by raw requests.

It does what a Java client does: heartbeats with a topology of one subtopology until it has tasks,
offsets fetched and committed with its member id and epoch.
"""

from __future__ import annotations

import uuid
from typing import Any, Self

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from support import streams_messages
from support.clusters import until

from heliostat.clusters.admin import CommittedOffset
from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.admin.group_calls import Coordinators
from heliostat.names import BrokerId, GroupId, Offset

CLIENT_ID = "streams-app"
JOINS, LEAVES = 0, -1
SUBTOPOLOGY = "0"


class StreamsGroupHeartbeatRequest(  # type: ignore[call-arg]  # untyped
    ApiMessage,  # type: ignore[misc]  # as above
    load_json=streams_messages,
):
    """What a member sends to join, stay and leave."""


class StreamsGroupHeartbeatResponse(  # type: ignore[call-arg]  # untyped
    ApiMessage,  # type: ignore[misc]  # as above
    load_json=streams_messages,
):
    """Its answer, which kafka-python finds by the request's key."""


class StreamsMember:
    """The one member of a group that reads a topic of one partition; leaves at the block's end."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._caller = Caller(bootstrap.split(","), CLIENT_ID, connect_timeout_s=30.0)
        self._coordinators = Coordinators(self._caller)
        self._topic, self._group = topic, GroupId(group)
        self._member, self._process = str(uuid.uuid4()), str(uuid.uuid4())
        self._epoch = JOINS
        self._tasks: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        until(self._has_tasks, "a task of the group")
        return self

    def __exit__(self, *_: object) -> None:
        self._epoch = LEAVES
        self._beat()
        self._caller.close()

    def committed(self) -> Offset | None:
        """Return the offset from which the task continues; None if the group has none."""
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(
            groups=[
                wanted(
                    group_id=self._group,
                    member_id=self._member,
                    member_epoch=self._epoch,
                    topics=[
                        wanted.OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0])
                    ],
                )
            ],
            require_stable=True,
            min_version=9,
            max_version=9,
        )
        (row,) = self._asked(request).groups
        assert row.error_code == 0, row
        offset = row.topics[0].partitions[0].committed_offset
        return None if offset < 0 else Offset(offset)

    def commit(self, row: CommittedOffset) -> None:
        """Commit as this member."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = topic.OffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=row.offset,
            committed_leader_epoch=-1,
            committed_metadata=row.metadata,
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member,
            group_instance_id=None,
            topics=[topic(name=self._topic, partitions=[partition])],
            min_version=9,
            max_version=9,
        )
        answer = self._asked(request).topics[0].partitions[0]
        assert answer.error_code == 0, answer

    def _has_tasks(self) -> bool:
        self._beat()
        return self._tasks == {SUBTOPOLOGY: [0]}

    def _beat(self) -> None:
        tasks = StreamsGroupHeartbeatRequest.TaskIds
        owned = [
            tasks(subtopology_id=name, partitions=numbers) for name, numbers in self._tasks.items()
        ]
        is_first = self._epoch == JOINS
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member,
            member_epoch=self._epoch,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=30_000 if is_first else -1,
            topology=self._topology() if is_first else None,
            active_tasks=owned,
            standby_tasks=[],
            warmup_tasks=[],
            process_id=self._process if is_first else None,
            client_tags=[] if is_first else None,
        )
        answer = self._asked(request)
        assert answer.error_code == 0, answer
        self._epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self._tasks = {each.subtopology_id: each.partitions for each in answer.active_tasks}

    def _topology(self) -> Any:
        topology = StreamsGroupHeartbeatRequest.Topology
        return topology(
            epoch=0,
            subtopologies=[
                topology.Subtopology(
                    subtopology_id=SUBTOPOLOGY,
                    source_topics=[self._topic],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[],
                    copartition_groups=[],
                )
            ],
        )

    def _asked(self, request: Any) -> Any:
        def ask(broker: BrokerId, _: object) -> dict[GroupId, Any]:
            return {self._group: self._caller.send(request, broker)}

        return self._coordinators.ask_each([self._group], ask)[self._group]
