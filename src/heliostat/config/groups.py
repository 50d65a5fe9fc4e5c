"""Settings for consumer groups: which are synced, and under which names."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Strict, Tag

from heliostat.config.frozen import Frozen
from heliostat.config.patterns import Patterns, as_entries
from heliostat.config.variables import check_variables

GROUPS_EXCLUDE_DEFAULT: tuple[str, ...] = (
    # MirrorMaker 2's list: console groups are temporary, Connect's belong to one Connect cluster.
    r"console-consumer-.*",
    r"connect-.*",
    r"__.*",
)
FOLLOWED_S_LIMIT = 31_536_000  # a year; brokers keep offsets for a week by default
GROUP_VARIABLES = ("group", "source")


def _check_characters(text: str) -> str:
    if not text.isprintable() or " " in text:
        raise ValueError("a group's name has no spaces and no control characters here")
    return text


def _check_format(text: str) -> str:
    check_variables(text, GROUP_VARIABLES, "group")
    return _check_characters(text)


class GroupPrefix(Frozen):
    """Name of a group at the target = prefix + its name at the source."""

    prefix: Annotated[str, Field(title="Prefix", min_length=1), AfterValidator(_check_characters)]
    """Put before each name, such as `summit.`."""


class GroupFormat(Frozen):
    """Name of a group at the target by a format."""

    format: Annotated[str, Field(title="Format"), AfterValidator(_check_format)]
    """Such as `${source}.${group}`; `source` is the alias of the source cluster."""


def _naming_kind(value: Any) -> str | None:
    has = {key for key in ("prefix", "format") if isinstance(value, dict) and key in value}
    if isinstance(value, GroupPrefix) or has == {"prefix"}:
        return ":prefix"
    if isinstance(value, GroupFormat) or has == {"format"}:
        return ":format"
    return ":same" if value == "same" else None


GroupNames: TypeAlias = Annotated[
    Annotated[Literal["same"], Tag(":same")]
    | Annotated[GroupPrefix, Tag(":prefix")]
    | Annotated[GroupFormat, Tag(":format")],
    Discriminator(
        _naming_kind,
        custom_error_type="group_naming",
        custom_error_message='must be same, {prefix: "..."} or {format: "...${group}"}',
    ),
]


class GroupsConfig(Frozen):
    """Consumer groups: their offsets, published at the target."""

    sync: Annotated[bool, Field(title="Sync")] = False
    """Publish offsets of the source's groups at the target. Off by default, as an independent group
    of the same name that reads mirrors at the target would be moved while it is stopped."""
    include: Annotated[Patterns, Field(title="Include")] = (".*",)
    """Names or regular expressions that match a whole name."""
    exclude: Annotated[Patterns, Field(title="Exclude")] = GROUPS_EXCLUDE_DEFAULT
    """Names or regular expressions; wins over `include`."""
    naming: Annotated[GroupNames, Field(title="Naming")] = "same"
    """`same`, `{prefix: "summit."}` or `{format: "${source}.${group}"}`: the names under which
    offsets are published at the target, and stand in checkpoints."""
    states: Annotated[
        tuple[Literal["active", "empty"], ...],
        Strict(strict=False),
        BeforeValidator(as_entries),
        Field(title="States", min_length=1),
    ] = ("active", "empty")
    """Groups in these states at the source: `active` ones have members or move their offsets.
    Without `empty`, groups that have not been active since the link began cost nothing; one that
    was active is followed for `active_within_s` after that."""
    active_within_s: Annotated[
        float | None, Field(title="Active within", ge=60, le=FOLLOWED_S_LIMIT)
    ] = 604_800
    """Groups without members whose offsets do not change for so many seconds are no longer
    followed; what was published stays. Null = for ever. A week is how long brokers keep offsets."""
    interval_s: Annotated[float, Field(title="Interval", ge=0.5, le=3600)] = 5
    """Seconds between two checks of groups in use; idle ones are checked once a minute."""
    consumed_at_target: Annotated[
        Literal["advance", "leave"], Field(title="Consumed at the target")
    ] = "advance"
    """If consumers at the target have moved a group's offset themselves and then left: `advance` it
    once the source is further on, or `leave` it alone. Neither ever moves it back."""

    def name_format(self) -> str:
        """The naming as one format with `${group}` in it."""
        if isinstance(self.naming, GroupPrefix):
            return self.naming.prefix + "${group}"
        return self.naming.format if isinstance(self.naming, GroupFormat) else "${group}"
