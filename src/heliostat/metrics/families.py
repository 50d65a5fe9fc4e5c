"""The table of all metrics, which docs/reference/metrics.md shows; pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Type of a metric, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


LINK = ("link", "source", "target")
TOPIC = (*LINK, "topic")
PARTITION = (*TOPIC, "partition")


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


def _family(name: str, kind: Kind, labels: tuple[str, ...], meaning: str) -> Family:
    return Family(f"heliostat_{name}", kind, labels, meaning)


GAUGE, COUNTER, HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

BUILD_INFO = _family(
    "build_info", GAUGE, ("version", "python"), "Always 1; tells what serves these figures."
)
LINK_STATE = _family(
    "link_state",
    GAUGE,
    (*LINK, "state"),
    "1 for the link's state, 0 for the others.",
)
LINK_IN_SYNC = _family(
    "link_in_sync",
    GAUGE,
    LINK,
    "1 if the target has all but the last 10 s, as `heliostat status` says, else 0.",
)
OWNER_RENEWED = _family(
    "link_owner_renewed_timestamp_seconds",
    GAUGE,
    LINK,
    "When the link's driver last reported; absent if it never did.",
)
ROUNDS = _family(
    "rounds_total",
    COUNTER,
    (*LINK, "result"),
    "Rounds of lanes since the driver began that have `ended` as it wished, or `failed`.",
)
LANE_RESTARTS = _family(
    "lane_restarts_total",
    COUNTER,
    (*LINK, "reason"),
    "The same by why a lane had to begin anew: `planned`, or a code of docs/reference/errors.md.",
)
TAKEOVERS = _family(
    "takeovers_total", COUNTER, LINK, "How often a driver has claimed the link, the first included."
)
LINK_RESTARTS = _family(
    "link_restarts_total",
    COUNTER,
    LINK,
    "How often the link has begun again after it had halted; absent if it never did.",
)
LINK_RESTART_NEXT = _family(
    "link_restart_next_timestamp_seconds",
    GAUGE,
    LINK,
    "When a link that is halted begins again; absent if it runs, or if a person must say so.",
)
LINK_HALTED = _family(
    "link_halted",
    GAUGE,
    (*LINK, "phase", "code"),
    "1 while the link has halted; absent while it runs. How it goes on: it `waits`, to begin again "
    "by itself, is `refused` until its configuration changes, or `gave_up` until a restart is "
    "ordered; and the error that halted it, a code of docs/reference/errors.md.",
)
CONFIGURATION_LIVE = _family(
    "configuration_live_timestamp_seconds",
    GAUGE,
    LINK,
    "Since when the link goes by the configuration that is in force; absent while nobody drives "
    "it.",
)
CONFIGURATION_REFUSED = _family(
    "configuration_refused",
    GAUGE,
    LINK,
    "1 if the driver refuses its configuration file as it is now, so that what it read before is "
    "in force; else 0.",
)
CONFIGURATION_HELD = _family(
    "configuration_held_changes",
    GAUGE,
    LINK,
    "Changes of that file that are not in force: they wait for SIGHUP, or for the driver's next "
    "start.",
)
LANES = _family("lanes", GAUGE, LINK, "Lanes that copy.")
LANE_BYTES = _family(
    "lane_bytes_per_second", GAUGE, (*LINK, "lane"), "Bytes that a lane appends a second."
)
LANE_SILENT = _family(
    "lane_silent_seconds", GAUGE, (*LINK, "lane"), "Since when a lane has not reported."
)
RECORDS_COPIED = _family(
    "records_copied_total", COUNTER, TOPIC, "Records appended, since this service began to watch."
)
BYTES_COPIED = _family(
    "bytes_copied_total",
    COUNTER,
    TOPIC,
    "Bytes of batches appended, headers included, since this service began to watch.",
)
LAG_RECORDS = _family(
    "lag_records",
    GAUGE,
    TOPIC,
    "Records missing at the target, of all partitions together; absent if not known.",
)
LAG_SECONDS = _family(
    "lag_seconds",
    GAUGE,
    TOPIC,
    "Age of the oldest missing record by its timestamp, 0 if none is missing; absent if not known.",
)
LAG_UNKNOWN = _family(
    "lag_unknown_partitions",
    GAUGE,
    TOPIC,
    "Partitions that may lack more than the lag says, as it was not reported lately.",
)
LOSS_RECORDS = _family(
    "loss_records",
    GAUGE,
    TOPIC,
    "Records that would be lost if the source were gone now: what it has and the target has not, "
    "records of open transactions too; absent if not known.",
)
LOSS_SECONDS = _family(
    "loss_seconds",
    GAUGE,
    TOPIC,
    "Age of the oldest of them by its timestamp, 0 if none is; absent if not known.",
)
LOSS_EXACT = _family(
    "loss_exact",
    GAUGE,
    LINK,
    "1 if `heliostat_loss_records` of all topics is exact, and each selected topic has a mirror; 0 "
    "if more may be lost, or if it is not known.",
)
TOPIC_LATENCY = _family(
    "topic_copy_latency_seconds",
    GAUGE,
    (*TOPIC, "q"),
    "Median (`p50`) and all but the slowest percent (`p99`) of a topic's latencies within a "
    "minute; absent if nothing was copied.",
)
TOPIC_RETENTION = _family(
    "topic_retention_seconds",
    GAUGE,
    TOPIC,
    "For how long the source keeps records; absent if it has no limit, or if not known.",
)
COPY_LATENCY = _family(
    "copy_latency_seconds",
    HISTOGRAM,
    LINK,
    "From a record's append at the source to that at the target, without backlog.",
)
TOPIC_PARTITIONS = _family("partitions", GAUGE, (*TOPIC, "state"), "Partitions by their state.")
PARTITIONS_STUCK = _family(
    "partitions_without_progress",
    GAUGE,
    LINK,
    "Partitions that lag, and have moved nothing for a minute, for no reason that they tell.",
)
PARTITION_STATE = _family(
    "partition_state", GAUGE, (*PARTITION, "state"), "1 for a partition that is not copying."
)
PARTITION_STOPPED = _family(
    "partition_stopped_timestamp_seconds",
    GAUGE,
    (*PARTITION, "code"),
    "Since when a partition has been stopped.",
)
PARTITION_RECORDS_COPIED = _family(
    "partition_records_copied_total",
    COUNTER,
    PARTITION,
    "Records appended, since this service began to watch.",
)
PARTITION_BYTES_COPIED = _family(
    "partition_bytes_copied_total",
    COUNTER,
    PARTITION,
    "Bytes of batches appended, headers included, since this service began to watch.",
)
PARTITION_LAG_RECORDS = _family(
    "partition_lag_records",
    GAUGE,
    PARTITION,
    "The same of a partition; see `metrics.partitions`.",
)
PARTITION_LAG_SECONDS = _family(
    "partition_lag_seconds",
    GAUGE,
    PARTITION,
    "The same of a partition; see `metrics.partitions`.",
)
PARTITION_LOSS_RECORDS = _family(
    "partition_loss_records",
    GAUGE,
    PARTITION,
    "`heliostat_loss_records` of a partition; see `metrics.partitions`.",
)
PARTITION_LOSS_SECONDS = _family(
    "partition_loss_seconds",
    GAUGE,
    PARTITION,
    "`heliostat_loss_seconds` of a partition; see `metrics.partitions`.",
)
PARTITION_SOURCE_END = _family(
    "partition_source_end_offset", GAUGE, PARTITION, "High watermark of the source."
)
PARTITION_POSITION = _family(
    "partition_position_offset", GAUGE, PARTITION, "Next source offset to copy."
)
TOPICS = _family(
    "topics",
    GAUGE,
    (*LINK, "state"),
    "Selected topics by what the last reconciliation made of them: `mirrored`, `refused`, "
    "`left_out` (they come from the target), `waiting` (another link may have claimed them).",
)
DRIFT = _family(
    "drift",
    GAUGE,
    (*LINK, "kind"),
    "Differences of mirrors from what is wanted that the link has not mended: `config`, "
    "`partitions`, `replication_factor`, `min_insync_replicas`.",
)
GAP_DECISIONS = _family(
    "gap_decisions_open", GAUGE, LINK, "Partitions stopped at a gap: a person must decide."
)
GAPS = _family("gaps_total", COUNTER, LINK, "Gaps in the link's ledger.")
GAP_RECORDS = _family(
    "gap_records_total", COUNTER, LINK, "Records that mirrors will never have, by the ledger."
)
RECORDS_SKIPPED = _family(
    "records_skipped_total",
    COUNTER,
    (*LINK, "reason"),
    "Those of them that could not be copied, dead letters included, by the ledger's cause.",
)
DEAD_LETTERS = _family(
    "dead_letters_total", COUNTER, LINK, "Gaps whose records lie in the link's dead letters."
)
ERRORS = _family(
    "errors_total",
    COUNTER,
    (*LINK, "side", "class"),
    "Failures since the driver began, by their class, a code of docs/reference/errors.md, and the "
    "side they name: those of its loops, and partitions that got into trouble.",
)
ADMIN_SECONDS = _family(
    "admin_seconds",
    HISTOGRAM,
    (*LINK, "side", "request"),
    "Time of the driver's requests beside the copying, answered or not, since it began.",
)
REQUEST_SECONDS = _family(
    "request_seconds",
    HISTOGRAM,
    (*LINK, "side", "api"),
    "Time of the lanes' fetches and appends, since this service began to watch. Fetches for which "
    "the broker waited until there was a record are not counted, as nobody tells how long.",
)
THROTTLE_SECONDS = _family(
    "throttle_seconds_total",
    COUNTER,
    (*LINK, "side"),
    "For how long brokers told lanes to send nothing, since this service began to watch.",
)
BROKER_REACHABLE = _family(
    "broker_reachable",
    GAUGE,
    (*LINK, "side", "broker"),
    "1 if a broker answers, by its id; brokers are asked each 5 s.",
)
SOURCE_END_AGE = _family(
    "source_end_age_seconds",
    GAUGE,
    LINK,
    "Since when the source's brokers have not all answered; absent if they never did.",
)
LINE_ROUND_TRIP = _family(
    "line_round_trip_seconds",
    GAUGE,
    (*LINK, "side"),
    "Round trip between the lanes and the farthest broker; absent if not measured lately.",
)
LINE_BYTES = _family(
    "line_bytes", GAUGE, (*LINK, "side"), "Bytes of records on the line to that side, on average."
)
LIMIT_BYTES = _family(
    "limit_bytes_per_second",
    GAUGE,
    TOPIC,
    "A limit that operators wish: of the topic, or of the link where `topic` is empty.",
)
LIMIT_THROTTLED = _family(
    "limit_throttled_seconds_total",
    COUNTER,
    TOPIC,
    "For how long lanes have held fetches back for that limit, of all lanes together.",
)
HEARTBEAT_AGE = _family(
    "heartbeat_age_seconds",
    GAUGE,
    LINK,
    "Age of the newest heartbeat at the target; absent if there is none.",
)
UPSTREAM_BEAT_AGE = _family(
    "upstream_heartbeat_age_seconds",
    GAUGE,
    (*LINK, "hops", "origin"),
    "Age of the newest heartbeat at the target by the cluster that it was written in, and how many "
    "links it came through (`3+`: three or more, where names don't tell).",
)
PART_CPU = _family(
    "process_cpu_seconds_total",
    COUNTER,
    (*LINK, "process", "lane"),
    "Processor time of the link's `driver`, of Spark's `jvm`, and of the `worker` of each lane. "
    "Links of one driver share it: only the first has these.",
)
PART_MEMORY = _family(
    "process_memory_bytes", GAUGE, (*LINK, "process", "lane"), "Their resident memory."
)
PART_SOCKETS = _family("process_sockets", GAUGE, (*LINK, "process", "lane"), "Their open sockets.")
PART_BYTES = _family(
    "process_bytes_total",
    COUNTER,
    (*LINK, "direction", "process", "lane"),
    "Bytes that a worker fetched (`read`) and that brokers acknowledged (`written`); of the others "
    "what the kernel counts, which is not what Python's sockets receive.",
)
SCHEMA_WAITING = _family(
    "schemas_waiting", GAUGE, LINK, "Schema ids of the source for which partitions wait."
)
SCHEMA_WAIT_SECONDS = _family(
    "schema_wait_seconds",
    HISTOGRAM,
    LINK,
    "For how long lanes have waited for a schema's id, since the driver began; to a second.",
)
SCHEMAS_COPIED = _family(
    "schemas_copied_total",
    COUNTER,
    LINK,
    "Versions of subjects imported or registered at the target, since the driver began.",
)
GROUP_LAG = _family(
    "group_lag_records",
    GAUGE,
    (*LINK, "group"),
    "Records between a group's offsets at the source and its ends; see `metrics.groups`.",
)
GROUP_REREAD = _family(
    "group_reread_records",
    GAUGE,
    (*LINK, "group"),
    "Records that a group would read again if it moved to the target, as of the link's last look "
    "at it; absent if not known.",
)
GROUPS_REREAD = _family(
    "groups_reread_records",
    GAUGE,
    LINK,
    "The same of all groups that the link follows; absent if not known.",
)
GROUP_PUBLISHED = _family(
    "group_published_timestamp_seconds",
    GAUGE,
    (*LINK, "group"),
    "When an offset of a group was last published at the target; absent if none was.",
)
RIGHTS = _family(
    "rights",
    GAUGE,
    (*LINK, "state"),
    "ACLs and limits of quotas that follow the source, as the link compared them last: `in_step`, "
    "`kept_ready` for the promotion, `somebody_elses` at the target, not followed (`refused`), or "
    "refused by the target (`failed`).",
)
RIGHTS_WAITING = _family(
    "rights_waiting", GAUGE, LINK, "Rights that are removed only once a person has confirmed it."
)
RIGHTS_CHANGED = _family(
    "rights_changed_total",
    COUNTER,
    (*LINK, "what"),
    "Rights, limits and users that the link has made, and removed, since its driver began.",
)
RIGHTS_COMPARED = _family(
    "rights_compared_timestamp_seconds", GAUGE, LINK, "When rights were last compared."
)
MIRRORS_PROTECTED = _family(
    "mirrors_protected",
    GAUGE,
    LINK,
    "Mirrors into which nobody may write but the link, and super users, with `topics.protect`.",
)
MIRRORS_UNPROTECTED = _family(
    "mirrors_unprotected", GAUGE, LINK, "Mirrors of which that is not so, though it is wanted."
)
PROTECTION_RULES = _family(
    "protection_rules", GAUGE, LINK, "Rules of the link's own that deny others to write."
)
HTTP_SECONDS = _family(
    "http_request_seconds",
    HISTOGRAM,
    ("route", "method", "code"),
    "Time until this service began to answer, by the route's template.",
)
DROPPED = _family(
    "metrics_series_dropped",
    GAUGE,
    (),
    "Topics without series of their own; `(other)` has their sums.",
)
INFLUX_POINTS = _family(
    "influx_points_total",
    COUNTER,
    ("result",),
    "Points for InfluxDB: written, refused by it, or dropped as too many waited.",
)
INFLUX_WAITING = _family("influx_waiting_points", GAUGE, (), "Points that wait for InfluxDB.")
INFLUX_WAITING_BYTES = _family(
    "influx_waiting_bytes", GAUGE, (), "Memory that these take, compressed."
)
PROCESS_CPU = Family(
    "process_cpu_seconds_total", COUNTER, (), "Processor time of the process that serves this."
)
PROCESS_MEMORY = Family(
    "process_resident_memory_bytes", GAUGE, (), "Memory of the process that serves this."
)
PROCESS_SOCKETS = Family("process_open_fds", GAUGE, (), "Open files and sockets of that process.")
PROCESS_START = Family(
    "process_start_time_seconds", GAUGE, (), "When that process began, since the epoch."
)

FAMILIES = tuple(family for family in list(globals().values()) if isinstance(family, Family))
"""All of them, in their order."""
LATENCY_BOUNDS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of `COPY_LATENCY`."""
LINK_STATES = (
    "running", "paused", "stopped", "no_owner", "silent", "halted", "standby", "unreachable",
    "unknown",
)  # fmt: skip
