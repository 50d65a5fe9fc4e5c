"""Settings for records that are gone before they were copied, and for records that can't be."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from heliostat.config.frozen import Frozen
from heliostat.config.patterns import Pattern, compile_pattern

GapPolicy: TypeAlias = Literal["stop", "continue", "restart"]
_NO_POLICIES: dict[Pattern, GapPolicy] = {}
_RETRY_S_LIMIT = 30 * 86_400


class GapsConfig(Frozen):
    """What to do if source records are gone before they were copied."""

    policy: Annotated[GapPolicy, Field(title="Policy")] = "stop"
    """`stop`: that partition waits for `heliostat resolve`. `continue`: copy on after the gap.
    `restart`: empty the mirror and copy what the source has now. Each gap is recorded in any
    case."""
    topics: Annotated[dict[Pattern, GapPolicy], Field(title="By topic")] = _NO_POLICIES
    """Policies of topics by name or regular expression; the first that matches counts."""

    def policy_of(self, topic: str) -> GapPolicy:
        """The policy of a source topic."""
        for entry, policy in self.topics.items():
            if compile_pattern(entry).fullmatch(topic):
                return policy
        return self.policy


ErrorPolicy: TypeAlias = Literal["stop", "skip", "dead_letter"]


class ErrorRule(Frozen):
    """What to do with a record that can't be copied."""

    policy: Annotated[ErrorPolicy, Field(title="Policy")] = "stop"
    """`stop`: its partition waits for `heliostat resolve`. `skip`: copy on after it. `dead_letter`:
    the same once the record lies in the link's dead letters. The gap ledger has each."""
    retry_for_s: Annotated[float, Field(title="Retry for", ge=0, le=_RETRY_S_LIMIT)] = 0
    """Seconds for which it is tried again before, with pauses that grow from 1 s to 60 s."""


class SchemaErrorRule(ErrorRule):
    """What to do with a record whose schema can't be read at the target."""

    retry_for_s: Annotated[float, Field(title="Wait for", ge=1, le=_RETRY_S_LIMIT)] = 3600
    """Seconds for which records wait for a schema before, counted from when it was first missed by
    this driver. With `stop` they wait for ever."""


class ErrorsConfig(Frozen):
    """What to do with records that can't be copied, by what is wrong with them."""

    transform: Annotated[ErrorRule, Field(title="Transform")] = ErrorRule()
    """A pipeline fails at it (`TRANSFORM_FAILED`)."""
    schema_missing: Annotated[SchemaErrorRule, Field(title="Schema")] = SchemaErrorRule()
    """Its schema can't be read at the target (`SCHEMA_UNREADABLE`)."""
    too_large: Annotated[ErrorRule, Field(title="Too large")] = ErrorRule()
    """It is larger than the target takes (`TOO_LARGE`). With `stop`, `gaps.policy` counts."""
    refused: Annotated[ErrorRule, Field(title="Refused")] = ErrorRule()
    """The target's broker refuses it (`RECORD_REFUSED`). With `stop`, `gaps.policy` counts."""
    corrupt: Annotated[ErrorRule, Field(title="Corrupt")] = ErrorRule()
    """Its batch can't be decoded (`CORRUPT`); this concerns all records of the batch."""
