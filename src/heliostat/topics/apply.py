"""Apply the plan, wait until brokers show it, and report per topic what failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin, ConfigEntry, NewTopic, TopicInfo
from heliostat.clusters.kafka_codes import (
    LEADER_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED,
)
from heliostat.errors import BrokerError
from heliostat.names import TopicId, TopicName, TopicPartition
from heliostat.topics.configs import NEEDED_TO_APPEND
from heliostat.topics.topic_plan import CreateTopic, Mirror, SetConfigs, TopicPlan
from heliostat.topics.values import MirrorRecord

VISIBLE_TIMEOUT_S = 30.0  # metadata spreads within a second; leaders of 5,000 partitions need more
VISIBLE_PAUSE_S = 0.05
VISIBLE_PAUSE_S_MAX = 1.0
LOOK_S_PER_TOPIC = 0.0005
TOPICS_PER_REQUEST = 200  # a broker takes at most about 10,000 new partitions a request


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """Outcome of applying a plan.

    `created`, `grown` and `configured` are target topics. `failed` is by source topic; its mirror
    is not in `mirrors` unless it can be copied nevertheless. `remember` are records to make durable
    before anything of `mirrors` is copied.
    """

    created: tuple[TopicName, ...]
    grown: tuple[TopicName, ...]
    configured: tuple[TopicName, ...]
    failed: Mapping[TopicName, BrokerError]
    mirrors: tuple[Mirror, ...]
    remember: tuple[MirrorRecord, ...]


def count_topics(
    plan: TopicPlan, applied: ApplyReport, refused: Collection[TopicName]
) -> dict[str, int]:
    """Return the numbers of topics that are mirrored, refused, left out, and that wait.

    Those wait that could be mirrored and are not yet: another link has just claimed them, or may.
    """
    mirrored = {mirror.source for mirror in applied.mirrors}
    planned = {mirror.source for mirror in plan.mirrors} | {topic.source for topic in plan.create}
    return {
        "mirrored": len(mirrored),
        "refused": len(refused),
        "left_out": len(plan.left_out),
        "waiting": len(planned - mirrored - set(refused)),
    }


def apply_plan(
    plan: TopicPlan,
    target: ClusterAdmin,
    clock: Clock | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ApplyReport:
    """Create, grow and configure topics; wait for every answer and check it.

    Parameters
    ----------
    tell
        Called with the progress if there is more than one request.

    Raises
    ------
    ConnectionLost
        The target does not answer. Changes made so far remain: the next plan sees them.
    """
    failed: dict[TopicName, BrokerError] = {}
    unusable: set[TopicName] = set()
    created = _create(plan, target, failed, tell)
    grown = _grow(plan, target, failed)
    unusable.update(failed)
    clock = clock or SystemClock()
    configured = _configure(plan, target, failed, unusable)
    _await_configs([c for c in plan.configure if c.target in configured], target, failed, clock)
    infos = _await_visible(plan, target, failed, unusable, clock)
    ids = {name: infos[name].topic_id for name in infos if name in created}
    mirrors = [_identified(mirror, ids) for mirror in plan.mirrors if mirror.source not in unusable]
    return ApplyReport(
        created=tuple(name for name in created if name in infos),
        grown=grown,
        configured=configured,
        failed=dict(sorted(failed.items())),
        mirrors=tuple(mirrors),
        remember=tuple(
            replace(record, target_id=ids.get(record.target, record.target_id))
            for record in plan.remember
            if record.source not in failed
        ),
    )


def _identified(mirror: Mirror, ids: Mapping[TopicName, TopicId | None]) -> Mirror:
    return replace(mirror, target_id=ids.get(mirror.target, mirror.target_id))


def _create(
    plan: TopicPlan,
    target: ClusterAdmin,
    failed: dict[TopicName, BrokerError],
    tell: Callable[[str], None],
) -> list[TopicName]:
    done: list[TopicName] = []
    for first in range(0, len(plan.create), TOPICS_PER_REQUEST):
        if any(error.kafka_code == THROTTLING_QUOTA_EXCEEDED for error in failed.values()):
            failed |= {topic.source: _waiting(topic) for topic in plan.create[first:]}
            break  # what was created is copied first
        if first:
            tell(f"{first} of {len(plan.create)} topics created at the target")
        batch = plan.create[first : first + TOPICS_PER_REQUEST]
        answers = target.create_topics(
            NewTopic(t.target, t.partitions, t.replication_factor, t.configs) for t in batch
        )
        for topic in batch:
            answer = answers[topic.target]
            if isinstance(answer, BrokerError):
                failed[topic.source] = answer
            else:
                done.append(topic.target)
    return done


def _waiting(topic: CreateTopic) -> BrokerError:
    """Return the error of a topic for which the controller was not asked: others used the quota."""
    text = f"create topic {topic.target}: it waits for the controller's quota"
    return BrokerError(text, kafka_code=THROTTLING_QUOTA_EXCEEDED)


def _grow(
    plan: TopicPlan, target: ClusterAdmin, failed: dict[TopicName, BrokerError]
) -> tuple[TopicName, ...]:
    answers = target.grow_partitions({topic.target: topic.wants for topic in plan.grow})
    for topic in plan.grow:
        error = answers[topic.target]
        if error is not None:
            failed[topic.source] = error
    return tuple(topic.target for topic in plan.grow if topic.source not in failed)


def _configure(
    plan: TopicPlan,
    target: ClusterAdmin,
    failed: dict[TopicName, BrokerError],
    unusable: set[TopicName],
) -> tuple[TopicName, ...]:
    answers = target.alter_configs({topic.target: topic.changes for topic in plan.configure})
    done: list[TopicName] = []
    for topic in plan.configure:
        error = answers[topic.target]
        if error is None:
            done.append(topic.target)
            continue
        failed.setdefault(topic.source, error)
        if NEEDED_TO_APPEND & topic.changes.keys():
            unusable.add(topic.source)  # others merely differ: it can be copied
    return tuple(done)


def _await_configs(
    changes: list[SetConfigs],
    target: ClusterAdmin,
    failed: dict[TopicName, BrokerError],
    clock: Clock,
) -> None:
    """Wait until the settings are in effect: brokers apply them after the controller."""
    pending = {change.target: change for change in changes}
    deadline_s = clock.monotonic_s() + VISIBLE_TIMEOUT_S
    while pending:
        keys = sorted({key for change in pending.values() for key in change.changes})
        configs = target.describe_configs(pending, keys)
        pending = {name: c for name, c in pending.items() if not _in_effect(c, configs[name])}
        if not pending or clock.monotonic_s() > deadline_s:
            break
        clock.sleep(VISIBLE_PAUSE_S)
    for name, change in pending.items():
        text = f"settings of {name} were changed, but are not in effect"
        failed.setdefault(
            change.source,
            BrokerError(
                f"{text} after {VISIBLE_TIMEOUT_S:.0f} s",
                kafka_code=REQUEST_TIMED_OUT,
                hint="something else may set them as well: look for another tool that does",
            ),
        )


def _in_effect(change: SetConfigs, configs: Mapping[str, ConfigEntry] | BrokerError) -> bool:
    if isinstance(configs, BrokerError):
        return False
    return all(
        not configs[key].is_own if value is None else configs[key].value == value
        for key, value in change.changes.items()
        if key in configs
    )


def _await_visible(
    plan: TopicPlan,
    target: ClusterAdmin,
    failed: dict[TopicName, BrokerError],
    unusable: set[TopicName],
    clock: Clock,
) -> dict[TopicName, TopicInfo]:
    """Wait until each new partition has a leader that answers.

    Others may have none: nobody waits for a broker that is gone.
    """
    wants = {m.target: m for m in plan.mirrors if m.source not in failed}
    had = dict.fromkeys((t.target for t in plan.create), 0) | {t.target: t.has for t in plan.grow}
    pending = {name for name in had if name in wants}
    ready: dict[TopicName, TopicInfo] = {}
    deadline_s = clock.monotonic_s() + VISIBLE_TIMEOUT_S
    while pending:
        infos = target.describe_topics(pending)
        new = {n: _new_partitions(i, had[n], wants[n].target_partitions) for n, i in infos.items()}
        ready.update(visible_topics := {n: infos[n] for n in _answering(target, new)})
        pending -= visible_topics.keys()
        if not pending or clock.monotonic_s() > deadline_s:
            break
        # Requests about thousands of topics slow down the broker that is creating them.
        clock.sleep(min(VISIBLE_PAUSE_S_MAX, VISIBLE_PAUSE_S + LOOK_S_PER_TOPIC * len(pending)))
    for name in sorted(pending):
        source = wants[name].source
        unusable.add(source)
        failed[source] = BrokerError(
            f"{name} was created, but not all of its partitions had a leader that answers within "
            f"{VISIBLE_TIMEOUT_S:.0f} s",
            kafka_code=LEADER_NOT_AVAILABLE,
        )
    return ready


def _answering(
    target: ClusterAdmin, new: Mapping[TopicName, Iterable[TopicPartition]]
) -> set[TopicName]:
    """Topics whose leaders answer: metadata names these before their log directories exist."""
    led = {name: list(partitions) for name, partitions in new.items() if partitions}
    asked = [partition for partitions in led.values() for partition in partitions]
    answers = target.list_log_ends(asked) if asked else {}
    silent = {p.topic for p, answer in answers.items() if isinstance(answer, BrokerError)}
    return led.keys() - silent


def _new_partitions(info: TopicInfo, had: int, wants: int) -> list[TopicPartition]:
    """Return the partitions that are new, once each of them has a leader."""
    led = [
        TopicPartition(info.name, partition.partition)
        for partition in info.partitions
        if partition.partition >= had and partition.leader is not None
    ]
    return led if info.error is None and len(led) >= wants - had else []
