"""How connectors' clients connect: MirrorMaker 2's levels of prefixes, and one client of a link.

A role's settings are those under `<side>.cluster.`, then `<role>.`, then `<side>.<role>.`; a later
level wins. A link has one client for each cluster: it connects as those do that move records.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.mm2.config_names import is_client
from heliostat.mm2.config_values import Client, Ledger, Setting

Named = dict[str, Setting]
OVERRIDE = "producer.override."


def below(given: Mapping[str, Setting], prefix: str) -> Named:
    """Return the settings under a prefix, without it."""
    return {
        name.removeprefix(prefix): setting
        for name, setting in given.items()
        if name.startswith(prefix)
    }


def role_settings(given: Mapping[str, Setting], side: str, role: str) -> Named:
    """Return with what settings clients of a role connect to a side."""
    settings: Named = {}
    for prefix in (f"{side}.cluster.", f"{role}.", f"{side}.{role}."):
        settings |= connecting(below(given, prefix))
    return settings


def connecting(given: Mapping[str, Setting]) -> Named:
    """Return those of the settings that say how to connect."""
    return {name: setting for name, setting in given.items() if is_client(name)}


def source_client(given: Mapping[str, Setting], alias: str, key: str, ledger: Ledger) -> Client:
    """Return the source's client: the consumer; tell if the admin client is another one."""
    consumer = role_settings(given, "source", "consumer")
    _tell_other(consumer, role_settings(given, "source", "admin"), "source admin", key, ledger)
    return Client(alias, consumer, key=key)


def target_client(
    given: Mapping[str, Setting],
    alias: str,
    key: str,
    ledger: Ledger,
    worker: Mapping[str, Setting] | None = None,
) -> Client:
    """Return the target's client: the producer of records; tell if the admin client is another one.

    Parameters
    ----------
    given
        Properties of the source connector.
    alias, key
        The target's aliases, theirs and ours.
    ledger
        Takes the outcome.
    worker
        Settings of the worker's producer; None if they are not in the file.
    """
    admin = role_settings(given, "target", "admin")
    producer = dict(admin if worker is None else worker) | connecting(below(given, OVERRIDE))
    _tell_other(producer, admin, "target admin", key, ledger)
    return Client(alias, producer, key=key)


def _tell_other(
    ours: Mapping[str, Setting], other: Mapping[str, Setting], role: str, key: str, ledger: Ledger
) -> None:
    names = sorted(
        name
        for name in ours.keys() | other.keys()
        if name not in ours or name not in other or ours[name].value != other[name].value
    )
    if names:
        who = "consumer" if role.startswith("source") else "producer"
        ledger.differs(
            f"cluster {key}: the {role} client had another {', '.join(names)} than the {who} of "
            f"records; a link connects as the {who} for both"
        )


def record_settings(given: Mapping[str, Setting], ledger: Ledger) -> Named:
    """Return a flow's settings with the consumer's ones all under `source.consumer.`."""
    settings = dict(given)
    for name in [name for name in given if name.startswith("consumer.")]:
        setting = settings.pop(name)
        if f"source.{name}" in given:
            ledger.unless_read(setting.origin, f"source.{name} wins")
        else:
            settings[f"source.{name}"] = setting
    return settings
