"""The configuration as values. Titles and descriptions here are the reference for operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Strict,
    Tag,
    model_validator,
)

from heliostat.access import ClusterAccess, RegistryAccess
from heliostat.config.access import AccessConfig
from heliostat.config.fan_in import FanInConfig, check_slot
from heliostat.config.frozen import Frozen
from heliostat.config.gaps import ErrorsConfig, GapsConfig
from heliostat.config.groups import GroupsConfig
from heliostat.config.interchange import CheckpointsConfig, HeartbeatsConfig, OffsetSyncsConfig
from heliostat.config.patterns import Patterns, as_entries
from heliostat.config.pipelines import Pipelines
from heliostat.config.registry import RegistryConfig
from heliostat.config.schemas import SchemasConfig
from heliostat.config.security import SecurityConfig
from heliostat.config.service import MetricsConfig, ServiceConfig
from heliostat.config.starts import Start
from heliostat.config.variables import VARIABLE, check_variables
from heliostat.names import Alias, LinkName
from heliostat.slots import WHOLE_TOPIC, Slot

STATE_TOPIC_PREFIX = "heliostat."
RESERVED_BEGINNINGS = (STATE_TOPIC_PREFIX, "__")
"""State topics and the brokers' own topics begin with these; mirrors must not look like them."""
BUILT_IN_EXCLUDE: tuple[str, ...] = (
    r"__.*",  # the brokers' own topics
    r"heliostat\..*",  # our state topics
    r"mm2.*\.internal",  # MirrorMaker 2's topics, as KIP-1074 names them
    r".+\.checkpoints\.internal",
)
"""Never mirrored, whatever `include` says: each cluster writes its own."""
DRILL_TOPIC = re.compile(r"drill-.+-[0-9a-f]{8}-\d+")
"""Topics that `heliostat drill` makes up: mirrored only where `include` has the very name."""

CONFIG_EXCLUDE_DEFAULT: tuple[str, ...] = (
    # MirrorMaker 2 4.3.0's list ...
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
    # ... it has these two by their broker names, which topics do not have, so it copies them:
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    # ... and these belong to the target's own storage and to how batches cross:
    "compression.type",
    r"compression\.(gzip|lz4|zstd)\.level",
    r"remote\..*",
    r"local\.retention\..*",
)

FOREVER_MS = "9223372036854775807"
FORCED_CONFIGS: Mapping[str, str] = {
    # Batches cross with their bytes unchanged, so the target's brokers must neither re-encode
    # them, nor stamp them, nor refuse them for their age (`LogValidator`).
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER_MS,
    "message.timestamp.after.max.ms": FOREVER_MS,
}
"""Settings that every mirror has at the target, whatever the source or the link says."""

PORT_MAX = 65_535
FETCH_BYTES_LIMIT = 55 << 20  # bytes; a broker returns no more (`fetch.max.bytes` default)
REQUEST_BYTES_LIMIT = 100 << 20  # bytes; `socket.request.max.bytes` default of a broker
IN_FLIGHT_LIMIT = 5  # a broker remembers this many batches of a producer (`ProducerStateEntry`)
REPLICATION_FACTOR_LIMIT = 32_767  # an int16 on the wire
RESTARTS_LIMIT = 100_000  # for who never wants to give up: ten years of one an hour
FORMAT_VARIABLES = ("topic", "source")
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:\[\]/]+):(?P<port>[0-9]{1,5})")


def _as_text(value: object) -> object:
    """YAML reads `retention.ms: 1000` as a number and `true` as a boolean; Kafka wants text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _check_address(address: str) -> str:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) <= PORT_MAX:
        raise ValueError("not host:port")
    return address


def _check_format(text: str) -> str:
    check_variables(text, FORMAT_VARIABLES, "source topic")
    _check_characters(VARIABLE.sub("", text))
    _check_beginning(text[: text.index("${")])  # what follows a variable is no beginning
    return text


def _check_prefix(text: str) -> str:
    _check_characters(text)
    return _check_beginning(text)


def _check_characters(text: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9._-]*", text):
        raise ValueError("a topic name has only the characters a-z A-Z 0-9 . _ -")


def _check_beginning(text: str) -> str:
    if text.startswith(RESERVED_BEGINNINGS):
        raise ValueError("names with this prefix are never mirrored")
    return text


def _check_pins(pins: dict[str, str]) -> dict[str, str]:
    for key, needed in FORCED_CONFIGS.items():
        if pins.get(key, needed) != needed:
            raise ValueError(f"{key} must be {needed}: batches cross with their bytes unchanged")
    return pins


Text: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
Texts: TypeAlias = dict[str, Text]
_NONE: Texts = {}
AliasName: TypeAlias = Annotated[
    Alias, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
]
MegaBytes: TypeAlias = Annotated[int, Field(ge=1024, le=REQUEST_BYTES_LIMIT)]


class ClusterConfig(Frozen):
    """A Kafka cluster and how to reach it."""

    bootstrap: Annotated[
        tuple[Annotated[str, AfterValidator(_check_address)], ...],
        Strict(strict=False),
        BeforeValidator(as_entries),
        Field(title="Bootstrap addresses", min_length=1),
    ]
    """Addresses `host:port` of some brokers; the rest is learned from them."""
    security: Annotated[SecurityConfig, Field(title="Security")] = SecurityConfig()
    """Protocol and credentials."""
    schema_registry: Annotated[RegistryConfig | None, Field(title="Schema registry")] = None
    """The registry with the schemas of the cluster's records; null: none."""

    _alias: str = PrivateAttr("")

    def access(self) -> ClusterAccess:
        """Return how to reach the cluster; secrets are only referenced."""
        return ClusterAccess(self.bootstrap, self.security.access(), self._alias)

    def registry_access(self) -> RegistryAccess | None:
        """Return how to reach its schema registry; None: it has none."""
        return None if self.schema_registry is None else self.schema_registry.access(self._alias)

    def called(self, alias: Alias) -> ClusterConfig:
        """Return a copy with the alias by which messages name it."""
        named = self.model_copy()
        named._alias = alias  # noqa: SLF001  # of its own class
        return named


def _number_kind(value: Any) -> str:
    return ":auto" if value == "auto" else ":float"


class SparkConfig(Frozen):
    """The Spark session that copies."""

    master: Annotated[str, Field(title="Master", min_length=1)] = "local[*]"
    """`local[*]`, `spark://host:port`, `yarn` or `k8s://...`."""
    task_cpus: Annotated[
        Annotated[Literal["auto"], Tag(":auto")]
        | Annotated[float, Field(ge=0.01, le=64), Tag(":float")],
        Discriminator(_number_kind),
        Field(title="CPUs of a task"),
    ] = "auto"
    """Cores per lane; lanes mostly wait for the network, so more lanes than cores may run. `auto`
    is 0.25, and on one machine less, so that there is a place for each 256 MiB of half of its
    memory."""
    conf: Annotated[Texts, Field(title="Spark settings")] = _NONE
    """Any Spark setting; overrides what Heliostat sets."""


class PrefixNaming(Frozen):
    """Target name = prefix + source name."""

    prefix: Annotated[str, Field(title="Prefix", min_length=1), AfterValidator(_check_prefix)]
    """Put before each source name, such as `summit.`."""


class FormatNaming(Frozen):
    """Target name by a format."""

    format: Annotated[str, Field(title="Format"), AfterValidator(_check_format)]
    """Such as `${source}.${topic}` or `${source}__${topic}`; `source` is the alias of the source
    cluster, so that links from several sources into one target keep their topics apart."""


def _naming_kind(value: Any) -> str | None:
    if isinstance(value, PrefixNaming) or (isinstance(value, dict) and "prefix" in value):
        both = isinstance(value, dict) and "format" in value
        return None if both else ":prefix"
    if isinstance(value, FormatNaming) or (isinstance(value, dict) and "format" in value):
        return ":format"
    return f":{value}" if value in {"same", "merge"} else None


Naming: TypeAlias = Annotated[
    Annotated[Literal["same"], Tag(":same")]
    | Annotated[Literal["merge"], Tag(":merge")]
    | Annotated[PrefixNaming, Tag(":prefix")]
    | Annotated[FormatNaming, Tag(":format")],
    Discriminator(
        _naming_kind,
        custom_error_type="naming",
        custom_error_message='must be same, merge, {prefix: "..."} or {format: "...${topic}"}',
    ),
]


def _count_kind(value: Any) -> str:
    return ":auto" if isinstance(value, str) else ":int"


class TopicsConfig(Frozen):
    """Which topics, under which names, with which settings."""

    include: Annotated[Patterns, Field(title="Include")] = ()
    """Names or regular expressions that match a whole name; a plain name is that name only.
    Only topics that match an entry are mirrored."""
    exclude: Annotated[Patterns, Field(title="Exclude")] = ()
    """Names or regular expressions; wins over `include`. Brokers' topics and state topics are
    always excluded."""
    naming: Annotated[Naming, Field(title="Naming")] = "same"
    """`same`, `{prefix: "summit."}` or `{format: "summit.${topic}"}`. `merge`: as `same`, into a
    topic that the target's own producers write, too; another link brings theirs back. See
    docs/merge.md."""
    merge_compacted: Annotated[bool, Field(title="Merge compacted topics")] = False
    """Whether compacted topics are merged as well (`naming: merge`): of a key that several sites
    write, each site may keep another last value."""
    fan_in: Annotated[
        Annotated[FanInConfig, AfterValidator(check_slot)] | None, Field(title="Fan-in")
    ] = None
    """Null: no other link writes into this link's target topics. Otherwise see `fan_in`."""
    offsets: Annotated[Literal["auto", "exact"], Field(title="Offsets")] = "auto"
    """Where a source has holes between offsets (compaction, transactions): `auto` leaves them out
    and keeps a map of offsets; `exact` fills them with transaction markers, which no reader sees,
    so that offsets are equal there, too. `exact` needs ALTER or CLUSTER_ACTION on the target."""
    start: Annotated[Start, Field(title="Start")] = "earliest"
    """Where a new mirror begins. `latest` and a group's offsets are for topics that exist when the
    link begins: topics and partitions that are added later are copied from their beginning."""
    replication_factor: Annotated[
        int | None, Field(title="Replication factor", ge=1, le=REPLICATION_FACTOR_LIMIT)
    ] = None
    """For created topics; null = the source's, but not more than the target has brokers."""
    config_exclude: Annotated[Patterns, Field(title="Excluded settings")] = CONFIG_EXCLUDE_DEFAULT
    """Topic settings that are never synced: names or regular expressions."""
    config_set: Annotated[Texts, Field(title="Pinned settings"), AfterValidator(_check_pins)] = (
        _NONE
    )
    """Topic settings that every mirror of this link has at the target; override the source's."""
    sync_configs: Annotated[bool, Field(title="Sync settings")] = True
    """Whether settings follow the source after creation, including those unset there."""
    sync_broker_values: Annotated[bool, Field(title="Sync effective values")] = False
    """Also sync what the source's topics inherit from their brokers' settings, such as retention
    and `min.compaction.lag.ms`, if the target's brokers would give another value."""
    follow_deletes: Annotated[Patterns, Field(title="Followed deletions")] = ()
    """Names or regular expressions of source topics: what is deleted there (by DeleteRecords, or by
    retention) goes from their mirrors as well. Without an entry that holds only for topics that end
    in `-repartition` and that nothing else ends. Never where other links write (`fan_in`)."""
    protect: Annotated[bool, Field(title="Protect mirrors")] = False
    """Whether rules at the target deny everybody else to write into mirrors until they are
    promoted, see docs/access.md. It needs ALTER on the target, which is the right to give rights.
    Not where other links write (`fan_in`)."""
    refresh_interval_s: Annotated[float, Field(title="Refresh interval", ge=0.1, le=86_400)] = 10
    """Seconds between checks for new topics, new partitions and changed settings."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.protect and self.fan_in is not None:
            raise ValueError("protect would keep the other links out that fan_in lets write")
        if self.merges and (refused := self._not_merged()):
            raise ValueError(f"naming merge does not go with {refused}: see docs/merge.md")
        return self

    def _not_merged(self) -> str:
        """Return the settings that merged topics can't have; empty: none is set."""
        wrong = {
            "fan_in": self.fan_in is not None,
            "follow_deletes": bool(self.follow_deletes),
            "offsets: exact": self.offsets == "exact",
            "protect": self.protect,
        }
        return ", ".join(name for name, is_set in wrong.items() if is_set)

    @property
    def merges(self) -> bool:
        """Whether others write the target topics as well, and these are no mere mirrors."""
        return self.naming == "merge"

    @property
    def follows_configs(self) -> bool:
        """Whether settings follow the source after creation: not where sites would take turns."""
        return self.sync_configs and not self.merges

    @property
    def slot(self) -> Slot:
        """Which partitions of its target topics are the link's."""
        return WHOLE_TOPIC if self.fan_in is None else Slot(self.fan_in.slot, self.fan_in.of)

    def name_format(self) -> str:
        """The naming as one format with `${topic}` in it."""
        if isinstance(self.naming, PrefixNaming):
            return self.naming.prefix + "${topic}"
        return self.naming.format if isinstance(self.naming, FormatNaming) else "${topic}"


class RecordsConfig(Frozen):
    """How batches of records are copied."""

    compression: Annotated[
        Literal["keep", "none", "gzip", "snappy", "lz4", "zstd"], Field(title="Compression")
    ] = "keep"
    """Codec of joined batches; batches that are not joined always keep theirs."""
    join_below_bytes: Annotated[int, Field(title="Join below", ge=0, le=REQUEST_BYTES_LIMIT)] = (
        262_144
    )
    """Batches smaller than this are joined with others of the same fetch; 0 = never."""
    join_bytes_max: Annotated[MegaBytes, Field(title="Joined batch")] = 1_048_576
    """The largest batch that joining makes, in bytes; a topic's own limit may be lower."""
    fetch_bytes_max: Annotated[int, Field(title="Fetch", ge=1024, le=FETCH_BYTES_LIMIT)] = (
        33_554_432
    )
    """Bytes that one fetch may return; far behind, 8 MiB, or twice what a partition may return."""
    partition_fetch_bytes_max: Annotated[MegaBytes, Field(title="Fetch of a partition")] = (
        33_554_432
    )
    """Bytes that one fetch may return of one partition; always at least one whole batch. A fetch
    asks for 1 MiB at first, and for more only where the source is far and the line would be idle,
    within the lane's memory."""
    in_flight_max: Annotated[int, Field(title="In flight", ge=1, le=IN_FLIGHT_LIMIT)] = 5
    """Produce requests in flight to one broker, per connection."""
    latency_target_ms: Annotated[float, Field(title="Latency target", ge=0, le=1000)] = 2
    """Milliseconds by which a record may be delayed at most so that others share its requests.
    None waits after a pause, nor where the answer before held a single record. Less costs more
    processor time here and at the brokers, see docs/tuning.md."""
    connections: Annotated[
        Annotated[Literal["auto"], Tag(":auto")] | Annotated[int, Field(ge=1, le=16), Tag(":int")],
        Discriminator(_count_kind),
        Field(title="Connections"),
    ] = "auto"
    """To each broker, for partitions far behind; `auto` = one, four where answers take long.
    Partitions that are not far behind have their own in any case."""


class LanesConfig(Frozen):
    """How partitions are spread over Spark tasks."""

    count: Annotated[
        Annotated[Literal["auto"], Tag(":auto")]
        | Annotated[int, Field(ge=1, le=10_000), Tag(":int")],
        Discriminator(_count_kind),
        Field(title="Lanes"),
    ] = "auto"
    """Spark tasks at once; `auto` = as many as the session can run, on this machine (`local[...]`)
    no more than the load needs."""
    lease_s: Annotated[float, Field(title="Lease", ge=2, le=300)] = 20
    """Seconds that a lane may send without an answer of its driver. A driver that was killed is
    succeeded after this time; one that can't reach the target's state topics for so long stops its
    lanes until it can."""


class StateConfig(Frozen):
    """The link's own topics at the target."""

    replication_factor: Annotated[
        int | None, Field(title="Replication factor", ge=1, le=REPLICATION_FACTOR_LIMIT)
    ] = None
    """Null = 3, but not more than the target has brokers."""


class RestartsConfig(Frozen):
    """A link that halted begins again after 0, 2, 6, 12 … minutes, at most 60."""

    max: Annotated[int, Field(title="Restarts", ge=0, le=RESTARTS_LIMIT)] = 7
    """After so many restarts without a quiet time between them the link gives up; 0 = it does not
    begin again by itself."""


class LinkSettings(Frozen):
    """What a link may set and `defaults` may set for all links."""

    topics: Annotated[TopicsConfig, Field(title="Topics")] = TopicsConfig()
    """Selection, naming and settings."""
    records: Annotated[RecordsConfig, Field(title="Records")] = RecordsConfig()
    """How records are copied."""
    lanes: Annotated[LanesConfig, Field(title="Lanes")] = LanesConfig()
    """Distribution over Spark."""
    restarts: Annotated[RestartsConfig, Field(title="Restarts")] = RestartsConfig()
    """When a link that halted begins again."""
    gaps: Annotated[GapsConfig, Field(title="Gaps")] = GapsConfig()
    """Records that are lost at the source before they are copied."""
    errors: Annotated[ErrorsConfig, Field(title="Errors")] = ErrorsConfig()
    """Records that can't be copied."""
    state: Annotated[StateConfig, Field(title="State")] = StateConfig()
    """State topics."""
    heartbeats: Annotated[HeartbeatsConfig, Field(title="Heartbeats")] = HeartbeatsConfig()
    """Heartbeats of source and target."""
    checkpoints: Annotated[CheckpointsConfig, Field(title="Checkpoints")] = CheckpointsConfig()
    """Checkpoints of consumer groups, as MirrorMaker 2 writes them."""
    offset_syncs: Annotated[OffsetSyncsConfig, Field(title="Offset syncs")] = OffsetSyncsConfig()
    """Offset syncs, as MirrorMaker 2 writes them."""
    groups: Annotated[GroupsConfig, Field(title="Groups")] = GroupsConfig()
    """Consumer groups."""
    schemas: Annotated[SchemasConfig, Field(title="Schemas")] = SchemasConfig()
    """Schemas of records."""
    access: Annotated[AccessConfig, Field(title="Access")] = AccessConfig()
    """ACLs, client quotas and SCRAM users."""
    pipelines: Annotated[Pipelines, Field(title="Pipelines")] = ()
    """What records of some topics go through on their way; all others cross as they are."""


class LinkConfig(LinkSettings):
    """A link joins a source cluster to a target cluster."""

    name: Annotated[
        LinkName, Field(title="Name", pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*$", max_length=100)
    ]
    """Names the link's state topics: letters, digits and `-`."""
    source: Annotated[AliasName, Field(title="Source")]
    """Alias of the cluster to copy from."""
    target: Annotated[AliasName, Field(title="Target")]
    """Alias of the cluster to copy to."""


def _named(clusters: dict[Alias, ClusterConfig]) -> dict[Alias, ClusterConfig]:
    return {alias: cluster.called(alias) for alias, cluster in clusters.items()}


class Config(Frozen):
    """Clusters and the links between them."""

    clusters: Annotated[
        dict[AliasName, ClusterConfig],
        AfterValidator(_named),
        Field(title="Clusters", min_length=1),
    ]
    """Each cluster under its alias."""
    spark: Annotated[SparkConfig, Field(title="Spark")] = SparkConfig()
    """Where Spark runs."""
    defaults: Annotated[LinkSettings, Field(title="Defaults")] = LinkSettings()
    """Values for links that do not set them; maps are merged key by key."""
    service: Annotated[ServiceConfig, Field(title="Service")] = ServiceConfig()
    """Where people and programs watch links."""
    metrics: Annotated[MetricsConfig, Field(title="Metrics")] = MetricsConfig()
    """What is measured."""
    links: Annotated[tuple[LinkConfig, ...], Strict(strict=False), Field(title="Links")]
    """The links. There may be none if `service.home` is set: then all are made by API."""

    def link(self, name: str) -> LinkConfig:
        """Return the link of that name.

        Raises
        ------
        KeyError
            There is no such link.
        """
        for link in self.links:
            if link.name == name:
                return link
        raise KeyError(name)
