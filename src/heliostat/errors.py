"""The one tree of errors: each has a code, a verdict and a hint.

    HeliostatError
      ConfigError            the configuration file is refused
      Refused                an operation is refused before anything was touched
      ConnectionLost         a broker went away or did not answer in time
        AccessRefused          a secured cluster refuses access
          CredentialsUnreadable  a secret or certificate can't be read where it should be
          TokenRefused           the token endpoint issues no token
          AuthenticationRefused  a broker refuses who we say we are
          TlsFailed              the broker is not who it should be, or speaks no TLS
      ProtocolError          a broker's answer makes no sense
      BrokerError            a broker answered with an error code
      BatchError             bytes that are no record batch
      TransformFailed        a pipeline fails at a record, or gives back other rows than it may
      PipelineRefused        a pipeline that can't be run as it is configured
      OffsetMapLost          rows of the offset maps are gone
      StateIncomplete        rows of the link's state are gone
      LinkTakenOver          another instance owns the link now
      SparkUnavailable       Spark has no executor to run rounds on
      GroupsFailed           what is published for consumer groups was refused
      HistoryNotWritten      the link's figures over time were not taken by the target
      InterchangeFailed      what is written for MirrorMaker 2's clients was refused
      SandboxError           the local brokers could not be run
      RegistryUnreachable    no address of a schema registry answers
      RegistryAnswerInvalid  what answers there is no schema registry, or is not itself
      RegistryError          a schema registry answered with an error code

The code stands in the text: of a worker's exception Spark hands only the text to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

from typing_extensions import override

from heliostat.kafka_error_names import KAFKA_ERROR_NAMES


class Verdict(Enum):
    """What the one place that acts on errors does with it."""

    RETRY = "retry"
    """The world may change: back off, bounded, then look again."""
    HALT = "halt"
    """Going on could lose or corrupt records: stop what is concerned, tell a person."""
    SET_ASIDE = "set aside"
    """One record or subject is bad: park it with its evidence, go on."""


class HeliostatError(Exception):
    """Root of all errors that Heliostat raises on purpose.

    Parameters
    ----------
    text
        What happened, in one sentence.
    context
        Facts to print after it, such as `partition='ESS-0'`.
    """

    code: ClassVar[str] = "HELIOSTAT"
    verdict: Verdict = Verdict.HALT
    hint: str = ""
    no_hint: ClassVar[str] = ""
    """Why a kind has no hint of its own; one of both each kind has."""

    def __init__(self, text: str, *, hint: str | None = None, **context: object) -> None:
        super().__init__(text)
        self.text = text
        self.context = context
        if hint is not None:
            self.hint = hint

    @override
    def __str__(self) -> str:
        facts = " ".join(f"{key}={value!r}" for key, value in self.context.items())
        parts = [f"[{self.code}] {self.text}"]
        if facts:
            parts.append(f"; {facts}")
        if self.hint:
            parts.append(f" (hint: {self.hint})")
        return "".join(parts)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle keyword-only arguments too (Spark sends errors between processes)."""
        return _rebuild, (type(self), self.text, self.hint, self.context)


def _rebuild(
    kind: type[HeliostatError], text: str, hint: str, context: dict[str, object]
) -> HeliostatError:
    error = kind.__new__(kind)
    HeliostatError.__init__(error, text, hint=hint, **context)
    return error


def code_of(error: HeliostatError) -> str:
    """Return the code of an error, a broker's by its own name."""
    return error.kafka_name if isinstance(error, BrokerError) else error.code


class ConfigError(HeliostatError):
    """The configuration is refused; each problem names field, value and reason.

    Parameters
    ----------
    problems
        Each as `field: reason (got value)`.
    """

    code = "CONFIG_REFUSED"
    no_hint = "each problem says which field takes what"

    def __init__(
        self,
        text: str,
        *,
        problems: tuple[str, ...] = (),
        hint: str | None = None,
        **context: object,
    ) -> None:
        listed = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(text + (":" + listed if problems else ""), hint=hint, **context)

    @property
    def problems(self) -> tuple[str, ...]:
        """One line each."""
        return tuple(line.strip() for line in self.text.split("\n")[1:])


class Refused(HeliostatError):
    """An operation is refused before anything was changed."""

    code = "REFUSED"
    no_hint = "each refusal says what would have to be otherwise"


class ConnectionLost(HeliostatError):
    """A broker went away or did not answer in time; requests in flight may have landed (I4)."""

    code = "CONNECTION_LOST"
    verdict = Verdict.RETRY
    hint = "check that the broker runs and that its advertised address is reachable from here"


class AccessRefused(ConnectionLost):
    """A secured cluster refuses access; retried, since the cause may be put right.

    Only its subclasses are raised: they name the cause.
    """


class CredentialsUnreadable(AccessRefused):
    """A secret, certificate or key can't be read where the configuration says it is."""

    code = "CREDENTIALS_UNREADABLE"
    hint = "put it there, readable by this user on every machine that copies; it is read again"


class TokenRefused(AccessRefused):
    """The token endpoint issues no OAUTHBEARER token."""

    code = "TOKEN_REFUSED"
    hint = "check the endpoint, client_id and client_secret; the request is retried"


class AuthenticationRefused(AccessRefused):
    """A broker refuses our credentials, or they have expired; retried, as they may be renewed."""

    code = "AUTHENTICATION_REFUSED"
    hint = "check user, password, token or role, and the mechanism; each attempt reads them again"


class TlsFailed(AccessRefused):
    """TLS fails: an untrusted certificate, another host's, or a listener without TLS."""

    code = "TLS_FAILED"
    hint = "check protocol and port, ca_file and the names in the broker's certificate"


class ProtocolError(HeliostatError):
    """An answer breaks the protocol or contradicts itself, or a state record is not ours."""

    code = "PROTOCOL"
    hint = "check who else writes there, what proxies the broker, and its version"


class BatchError(HeliostatError):
    """The bytes are not a complete, valid v2 record batch."""

    code = "BATCH_MALFORMED"
    hint = "inspect it with kafka-dump-log.sh on each replica: one may have it intact"


class TransformFailed(HeliostatError):
    """A pipeline fails at a record, or gives back rows that are not of the records it was given."""

    code = "TRANSFORM_FAILED"
    hint = "change the pipeline and restart the link: it goes on at this record"


class PipelineRefused(HeliostatError):
    """Spark can't run a pipeline as it is configured, or it would need more than one stage."""

    code = "PIPELINE_REFUSED"
    hint = "correct links.*.pipelines; heliostat try shows whether it works"


class OffsetMapLost(HeliostatError):
    """Records of the offset maps are gone: the positions of mapped mirrors are unknown (I2).

    Retried: the driver finds out which mirrors are affected, and stops only those.
    """

    code = "OFFSET_MAP_LOST"
    verdict = Verdict.RETRY
    hint = "heliostat offsets rebuild recreates a map from the records of both sides"


class StateIncomplete(HeliostatError):
    """Rows are missing that the link has had; without them it would take itself for a new one."""

    code = "STATE_INCOMPLETE"
    hint = (
        "find out who deleted records of heliostat.<link>.state; `heliostat state rebuild` takes "
        "the link's mirrors back by their contents"
    )


class LinkTakenOver(HeliostatError):
    """Another instance owns the link now (I10); this one sends nothing more."""

    code = "LINK_TAKEN_OVER"
    hint = "the other instance goes on; this one is its standby from now on"


class SparkUnavailable(HeliostatError):
    """Spark has no executor for us: none was started, or all are lost."""

    code = "SPARK_UNAVAILABLE"
    verdict = Verdict.RETRY
    hint = "see Spark's web UI: an executor needs free cores and memory"


class InterchangeFailed(HeliostatError):
    """What MirrorMaker 2's clients read can't be written; copying goes on, and it is retried."""

    code = "INTERCHANGE_FAILED"
    verdict = Verdict.RETRY
    hint = "heliostat acls prints the rights needed; or turn that part off in the configuration"


class GroupsFailed(HeliostatError):
    """Offsets of consumer groups can't be published; copying goes on, and it is retried."""

    code = "GROUPS_FAILED"
    verdict = Verdict.RETRY
    hint = "heliostat acls prints the rights needed; or turn groups.sync off in the configuration"


class HistoryNotWritten(HeliostatError):
    """The link's history can't be written at its target; copying goes on, and it is retried."""

    code = "HISTORY_NOT_WRITTEN"
    verdict = Verdict.RETRY
    hint = "the reason stands in the text; heliostat acls prints the rights needed"


class SandboxError(HeliostatError):
    """Brokers on this machine can't be started, reached or stopped."""

    code = "SANDBOX"
    no_hint = "the process's own words stand in the text"


class RegistryUnreachable(HeliostatError):
    """No address of a schema registry answers; a request that was sent may have been served."""

    code = "REGISTRY_UNREACHABLE"
    verdict = Verdict.RETRY
    hint = "check that a registry runs there, and what is between; it is asked again"


class RegistryAnswerInvalid(HeliostatError):
    """An answer is none that a schema registry gives: a proxy's page, or cut, or too large."""

    code = "REGISTRY_ANSWER"
    verdict = Verdict.RETRY
    hint = "check that the address is the API's, with its path, and what proxies the registry"


class RegistryError(HeliostatError):
    """A schema registry answered with an error code; `name` and `verdict` are its row's.

    Parameters
    ----------
    registry_code
        The `error_code` of the answer; where it has none, the HTTP status.
    name, verdict
        From the table in `heliostat.schemas.registry.error_codes`.
    """

    code = "REGISTRY"
    no_hint = "the registry's code has it, where there is one"

    def __init__(
        self,
        text: str,
        *,
        registry_code: int = 500,
        name: str = "INTERNAL_SERVER_ERROR",
        verdict: Verdict = Verdict.RETRY,
        hint: str | None = None,
        **context: object,
    ) -> None:
        context = {"registry_error": f"{name}({registry_code})", **context}
        super().__init__(text, hint=hint, **context)
        self.registry_code, self.name, self.verdict = registry_code, name, verdict

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """As the root's, with the code and its row kept."""
        row = (self.registry_code, self.name, self.verdict)
        return _rebuild_registry_error, (self.text, row, self.hint, self.context)


def _rebuild_registry_error(
    text: str, row: tuple[int, str, Verdict], hint: str, context: dict[str, object]
) -> RegistryError:
    error = RegistryError(text, registry_code=row[0], name=row[1], verdict=row[2], hint=hint)
    error.context = context
    return error


class BrokerError(HeliostatError):
    """A broker answered with an error code; `kafka_code` and `kafka_name` say which.

    Parameters
    ----------
    kafka_code
        The number of the protocol's error (class `org.apache.kafka.common.protocol.Errors`).
    """

    code = "BROKER"
    no_hint = "Kafka's code has it, where there is one"

    def __init__(
        self,
        text: str,
        *,
        kafka_code: int = -1,
        hint: str | None = None,
        **context: object,
    ) -> None:
        kind = kafka_error(kafka_code)
        context = {"kafka_error": f"{kind.name}({kafka_code})", **context}
        super().__init__(text, hint=hint or kind.hint, **context)
        self.kafka_code = kafka_code
        self.kafka_name = kind.name
        self.verdict = kind.verdict

    @property
    def kafka(self) -> KafkaErrorKind:
        """What we know of this error."""
        return kafka_error(self.kafka_code)

    @property
    def is_fenced(self) -> bool:
        """Whether a newer writer of the same transactional id has begun."""
        return self.kafka_code in _FENCED

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """As the root's, with the number of the error kept."""
        return _rebuild_broker_error, (self.text, self.kafka_code, self.hint, self.context)


def _rebuild_broker_error(
    text: str, kafka_code: int, hint: str, context: dict[str, object]
) -> BrokerError:
    return BrokerError(text, kafka_code=kafka_code, hint=hint, **context)


_FENCED = frozenset({47, 49, 90})
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING (its id was forgotten), PRODUCER_FENCED."""


class Append(Enum):
    """What an error in a produce answer says about the batch it answers."""

    NOT_APPENDED = "not appended"
    AMBIGUOUS = "ambiguous"
    """It may or may not be in the log: read the end before anything is resent (I4)."""


@dataclass(frozen=True, slots=True)
class KafkaErrorKind:
    """One row of the table below."""

    name: str
    verdict: Verdict = Verdict.RETRY
    append: Append = Append.NOT_APPENDED
    stale_metadata: bool = field(default=False, kw_only=True)
    hint: str = field(default="", kw_only=True)

    def message(self, text: str = "") -> str:
        """The broker's own words, else the name, and what a person can do about it."""
        return (text or self.name) + (f" (hint: {self.hint})" if self.hint else "")


_RETRY, _HALT, _ASIDE = Verdict.RETRY, Verdict.HALT, Verdict.SET_ASIDE
_GRANT = "grant the right (heliostat acls prints it); the partition goes on by itself"
_QUOTA = "it goes on by itself; sooner if the quota controller_mutation_rate of its user is raised"

KAFKA_ERRORS: dict[int, KafkaErrorKind] = {
    # Numbers and names: org.apache.kafka.common.protocol.Errors, 4.3.0.
    -1: KafkaErrorKind("UNKNOWN_SERVER_ERROR", _RETRY, Append.AMBIGUOUS),
    0: KafkaErrorKind("NONE"),
    1: KafkaErrorKind("OFFSET_OUT_OF_RANGE", _HALT),
    2: KafkaErrorKind("CORRUPT_MESSAGE", _RETRY),
    3: KafkaErrorKind("UNKNOWN_TOPIC_OR_PARTITION", _RETRY, stale_metadata=True),
    5: KafkaErrorKind("LEADER_NOT_AVAILABLE", _RETRY, stale_metadata=True),
    6: KafkaErrorKind("NOT_LEADER_OR_FOLLOWER", _RETRY, stale_metadata=True),
    7: KafkaErrorKind("REQUEST_TIMED_OUT", _RETRY, Append.AMBIGUOUS),
    8: KafkaErrorKind("BROKER_NOT_AVAILABLE", _RETRY, stale_metadata=True),
    9: KafkaErrorKind("REPLICA_NOT_AVAILABLE", _RETRY, stale_metadata=True),
    10: KafkaErrorKind(
        "MESSAGE_TOO_LARGE", _HALT, hint="raise max.message.bytes of the target topic"
    ),
    12: KafkaErrorKind(
        "OFFSET_METADATA_TOO_LARGE", _ASIDE, hint="raise offset.metadata.max.bytes at the target"
    ),
    13: KafkaErrorKind("NETWORK_EXCEPTION", _RETRY, Append.AMBIGUOUS),
    14: KafkaErrorKind("COORDINATOR_LOAD_IN_PROGRESS", _RETRY),
    15: KafkaErrorKind("COORDINATOR_NOT_AVAILABLE", _RETRY),
    16: KafkaErrorKind("NOT_COORDINATOR", _RETRY, stale_metadata=True),
    17: KafkaErrorKind("INVALID_TOPIC_EXCEPTION", _HALT, hint="choose another naming"),
    18: KafkaErrorKind(
        "RECORD_LIST_TOO_LARGE", _HALT, hint="raise segment.bytes of the target topic"
    ),
    19: KafkaErrorKind("NOT_ENOUGH_REPLICAS", _RETRY),
    20: KafkaErrorKind("NOT_ENOUGH_REPLICAS_AFTER_APPEND", _RETRY, Append.AMBIGUOUS),
    24: KafkaErrorKind("INVALID_GROUP_ID", _ASIDE),
    25: KafkaErrorKind("UNKNOWN_MEMBER_ID", _RETRY, hint="the group has members now"),
    28: KafkaErrorKind("INVALID_COMMIT_OFFSET_SIZE", _ASIDE),
    29: KafkaErrorKind("TOPIC_AUTHORIZATION_FAILED", _RETRY, hint=_GRANT),
    30: KafkaErrorKind("GROUP_AUTHORIZATION_FAILED", _RETRY, hint=_GRANT),
    31: KafkaErrorKind("CLUSTER_AUTHORIZATION_FAILED", _RETRY, hint=_GRANT),
    32: KafkaErrorKind(
        "INVALID_TIMESTAMP",
        _HALT,
        hint="set message.timestamp.before.max.ms and .after.max.ms of the target topic as the "
        "source has them",
    ),
    35: KafkaErrorKind("UNSUPPORTED_VERSION", _HALT),
    36: KafkaErrorKind("TOPIC_ALREADY_EXISTS", _RETRY),
    37: KafkaErrorKind("INVALID_PARTITIONS", _HALT),
    38: KafkaErrorKind("INVALID_REPLICATION_FACTOR", _HALT),
    40: KafkaErrorKind("INVALID_CONFIG", _HALT),
    41: KafkaErrorKind("NOT_CONTROLLER", _RETRY, stale_metadata=True),
    44: KafkaErrorKind("POLICY_VIOLATION", _HALT),
    45: KafkaErrorKind("OUT_OF_ORDER_SEQUENCE_NUMBER", _RETRY),
    46: KafkaErrorKind("DUPLICATE_SEQUENCE_NUMBER", _RETRY, Append.AMBIGUOUS),
    47: KafkaErrorKind("INVALID_PRODUCER_EPOCH", _HALT),
    52: KafkaErrorKind("TRANSACTION_COORDINATOR_FENCED", _RETRY),
    53: KafkaErrorKind("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _RETRY, hint=_GRANT),
    56: KafkaErrorKind("KAFKA_STORAGE_ERROR", _RETRY, Append.AMBIGUOUS, stale_metadata=True),
    59: KafkaErrorKind("UNKNOWN_PRODUCER_ID", _RETRY),
    69: KafkaErrorKind("GROUP_ID_NOT_FOUND", _RETRY),
    72: KafkaErrorKind("LISTENER_NOT_FOUND", _RETRY, stale_metadata=True),
    74: KafkaErrorKind("FENCED_LEADER_EPOCH", _RETRY, stale_metadata=True),
    75: KafkaErrorKind("UNKNOWN_LEADER_EPOCH", _RETRY, stale_metadata=True),
    76: KafkaErrorKind("UNSUPPORTED_COMPRESSION_TYPE", _HALT),
    78: KafkaErrorKind("OFFSET_NOT_AVAILABLE", _RETRY, stale_metadata=True),
    87: KafkaErrorKind(
        "INVALID_RECORD",
        _HALT,
        hint="a compacted target takes no record without a key; see the record errors",
    ),
    89: KafkaErrorKind("THROTTLING_QUOTA_EXCEEDED", _RETRY, hint=_QUOTA),
    90: KafkaErrorKind("PRODUCER_FENCED", _HALT),
    100: KafkaErrorKind("UNKNOWN_TOPIC_ID", _RETRY, stale_metadata=True),
    103: KafkaErrorKind("INCONSISTENT_TOPIC_ID", _RETRY, stale_metadata=True),
}


def kafka_error(code: int) -> KafkaErrorKind:
    """What we know of a broker's error code; others have a name, and count as unknown errors."""
    if code in KAFKA_ERRORS:
        return KAFKA_ERRORS[code]
    return replace(KAFKA_ERRORS[-1], name=KAFKA_ERROR_NAMES.get(code, KAFKA_ERRORS[-1].name))
