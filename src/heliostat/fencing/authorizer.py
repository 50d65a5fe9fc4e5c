"""How a cluster's brokers decide about rights, as far as they show it.

Brokers hide settings that they don't know themselves, and `super.users` and
`allow.everyone.if.no.acl.found` belong to the authorizer's class: most clusters show only that one
is set (`ConfigHelper`, `KafkaConfig.maybeSensitive`). So both may be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliostat.clusters.admin import ConfigEntry

CLASS_KEY = "authorizer.class.name"
SUPER_USERS_KEY = "super.users"
OPEN_KEY = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True)
class Authorizer:
    """How brokers decide about rights.

    Parameters
    ----------
    class_name
        The authorizer's class; empty: there is none, and everybody may do everything.
    super_users
        Principals that no rule concerns; None: brokers don't show them.
    opens_without_rules
        Whether everybody may do everything where no rule is; None: brokers don't show it.
    """

    class_name: str = ""
    super_users: frozenset[str] | None = None
    opens_without_rules: bool | None = None

    @property
    def is_there(self) -> bool:
        """Whether rights are checked at all."""
        return bool(self.class_name)


def authorizer_of(brokers: Iterable[Mapping[str, ConfigEntry]]) -> Authorizer:
    """Return how brokers with these settings decide; while they differ, the weakest counts.

    Without an answer of any broker there is no telling: the caller asks before.
    """
    shown = [_of_broker(configs) for configs in brokers]
    if not all(authorizer.is_there for authorizer in shown):
        return Authorizer()
    opens = {authorizer.opens_without_rules for authorizer in shown}
    users = [authorizer.super_users for authorizer in shown if authorizer.super_users is not None]
    return Authorizer(
        shown[0].class_name if shown else "",
        frozenset().union(*users) if len(users) == len(shown) else None,
        True if True in opens else None if None in opens else False,
    )


def _of_broker(configs: Mapping[str, ConfigEntry]) -> Authorizer:
    name = _value(configs, CLASS_KEY) or ""
    users, opens = _value(configs, SUPER_USERS_KEY), _value(configs, OPEN_KEY)
    return Authorizer(
        name,
        None if users is None else frozenset(user for user in users.split(";") if user),
        None if opens is None else opens.strip().lower() == "true",
    )


def _value(configs: Mapping[str, ConfigEntry], key: str) -> str | None:
    """Return a setting; empty if it is not set; None if it is set and not shown."""
    entry = configs.get(key)
    if entry is None:
        return ""
    return "" if entry.value is None and not entry.is_sensitive else entry.value
