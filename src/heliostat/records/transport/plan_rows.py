"""What the driver announces to its lanes, as a JSON object of the control topic.

    {"claim": 3, "running": [round, ...], "answered": {round: report},
     "rounds": {lane: {"round": round, "changes": [change, ...],
                       "limits": [bytes/s of the link, [[n, bytes/s of limited[n]], ...]]}},
     "limited": [topic, ...]}

Each announcement is complete, so the newest one is enough. Changes are repeated until the round has
acknowledged them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from heliostat.names import LaneId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.records.copier.lane import (
    Announcement,
    PartitionSpec,
    PlanChange,
    SchemaFrames,
    TakenPartition,
    WantedRound,
)
from heliostat.records.copier.lane_limits import ByteLimits, Priority


def encode_announcement(claim: int, plan: Announcement) -> dict[str, Any]:
    """Return an announcement of owner `claim`."""
    limited = sorted({topic for each in plan.rounds.values() for topic, _ in each.limits.topics})
    number = {topic: at for at, topic in enumerate(limited)}
    return {
        "limited": limited,
        "claim": claim,
        "running": list(plan.running),
        "answered": dict(plan.answered),
        "rounds": {
            str(lane): {
                "round": wanted.round_id,
                "changes": [encode_change(change) for change in wanted.changes],
                "limits": [
                    wanted.limits.link,
                    [[number[topic], share] for topic, share in wanted.limits.topics],
                ],
            }
            for lane, wanted in plan.rounds.items()
        },
    }


def wanted_round(control: Mapping[str, Any], lane: LaneId) -> WantedRound | None:
    """Return which round a lane should have; None: no lane of this number is wanted.

    An announcement of an earlier version names no rounds.
    """
    found = control.get("rounds", {}).get(str(lane))
    if found is None:
        return None
    changes = tuple(_change(each) for each in found["changes"])
    return WantedRound(found["round"], changes, _limits(found["limits"], control["limited"]))


def _limits(row: Sequence[Any], limited: Sequence[str]) -> ByteLimits:
    link, topics = row
    return ByteLimits(int(link), tuple((TopicName(limited[at]), int(rate)) for at, rate in topics))


def encode_change(change: PlanChange) -> dict[str, Any]:
    """Return a change of a plan as JSON."""
    return {
        "generation": change.generation,
        "give_up": [_place(each) for each in change.give_up],
        "take": [_taken_row(each) for each in change.take],
        "waits_for": list(change.waits_for),
        "may_land_s": change.may_land_s,
    }


def _change(row: Mapping[str, Any]) -> PlanChange:
    return PlanChange(
        row["generation"],
        tuple(_partition(each) for each in row["give_up"]),
        tuple(_taken(each) for each in row["take"]),
        tuple(row["waits_for"]),
        row["may_land_s"],
    )


def _taken_row(taken: TakenPartition) -> list[Any]:
    spec = taken.spec
    return [
        _place(spec.source),
        _place(spec.target),
        None if spec.source_topic_id is None else str(spec.source_topic_id),
        None if spec.target_topic_id is None else str(spec.target_topic_id),
        spec.start,
        spec.batch_bytes_max,
        spec.is_compacted,
        spec.adopted_at,
        None if spec.jump is None else list(spec.jump),
        spec.truncated,
        spec.map_lost,
        spec.fills,
        spec.can_align,
        [spec.frames.value, spec.is_paused, spec.priority.value, spec.merged_from],
        [spec.pipeline, spec.fails_at, spec.fail_code, spec.why_fails, spec.attempt],
        None if taken.copied is None else list(taken.copied),
        taken.rate,
    ]


def _taken(row: Sequence[Any]) -> TakenPartition:
    source, target, source_id, target_id, start, bytes_max, is_compacted, *rest = row
    adopted_at, jump, truncated, map_lost, fills, can_align, flags, piped, copied, rate = rest
    frames, is_paused, priority, merged_from = flags
    pipeline, fails_at, fail_code, why_fails, attempt = piped
    spec = PartitionSpec(
        source=_partition(source),
        target=_partition(target),
        source_topic_id=None if source_id is None else UUID(source_id),
        target_topic_id=None if target_id is None else UUID(target_id),
        start=Offset(start),
        batch_bytes_max=bytes_max,
        is_compacted=is_compacted,
        adopted_at=None if adopted_at is None else Offset(adopted_at),
        jump=None if jump is None else Break(*jump),
        truncated=truncated,
        map_lost=map_lost,
        fills=fills,
        can_align=can_align,
        frames=SchemaFrames(frames),
        is_paused=is_paused,
        priority=Priority(priority),
        pipeline=pipeline,
        fails_at=fails_at,
        fail_code=fail_code,
        why_fails=why_fails,
        attempt=attempt,
        merged_from=None if merged_from is None else Offset(merged_from),
    )
    return TakenPartition(spec, None if copied is None else tuple(copied), rate)


def _place(partition: TopicPartition) -> list[Any]:
    return [partition.topic, partition.partition]


def _partition(row: Sequence[Any]) -> TopicPartition:
    topic, number = row
    return TopicPartition(TopicName(topic), PartitionId(number))
