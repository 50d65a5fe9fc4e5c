"""Who may do what: ACLs, client quotas and SCRAM users that follow the source."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import Field, Strict, model_validator

from heliostat.config.frozen import Frozen
from heliostat.config.patterns import Pattern, compile_pattern


class NameRule(Frozen):
    """What a name at the source is at the target."""

    pattern: Annotated[Pattern, Field(title="Pattern")]
    """A name, or a regular expression that matches a whole name, such as `User:CN=([^,]+),.*`."""
    to: Annotated[str | None, Field(title="To", min_length=1)]
    """The name at the target, such as `User:\\1`; null: what is for that name is not followed."""

    @model_validator(mode="after")
    def _check_groups(self) -> NameRule:
        if self.to is not None:
            try:
                compile_pattern(self.pattern).sub(self.to, "")
            except (re.error, IndexError) as problem:
                raise ValueError(f"to: {problem}") from None
        return self


NameRules: TypeAlias = Annotated[tuple[NameRule, ...], Strict(strict=False)]


class AccessConfig(Frozen):
    """Access rights, client quotas and SCRAM users that follow the source."""

    sync_acls: Annotated[bool, Field(title="Sync ACLs")] = False
    """Whether ACLs of mirrored topics, of groups and of transactional ids follow the source. What
    is removed there is removed here if the link has made it. `Write` on mirrors is kept ready, and
    granted when they are promoted. Off by default, as it lets people in at the target."""
    sync_quotas: Annotated[bool, Field(title="Sync quotas")] = False
    """Whether client quotas of users and client ids follow the source, in the same way."""
    principals: Annotated[NameRules, Field(title="Principals")] = ()
    """What principals (`User:alice`) are at the target: the first rule whose pattern matches the
    whole principal; without one it keeps its name. Users of quotas go by these as well."""
    client_ids: Annotated[NameRules, Field(title="Client ids")] = ()
    """What client ids of quotas are at the target, as `principals`."""
    users_file: Annotated[str | None, Field(title="File of users", min_length=1)] = None
    """A file with references to passwords of SCRAM users at the target, such as
    `alice: {file: /run/secrets/alice}` or `{env: NAME}`: users of the source that are missing are
    made, with the same mechanisms and iterations. Those that are there are never overwritten. Null:
    SCRAM users are not compared. No request returns a hash, so none is copied."""
    interval_s: Annotated[float, Field(title="Interval", ge=1, le=86_400)] = 60
    """Seconds between two comparisons."""

    @property
    def is_on(self) -> bool:
        """Whether anything is followed."""
        return self.sync_acls or self.sync_quotas or self.users_file is not None
