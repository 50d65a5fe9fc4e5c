"""Read Confluent Replicator's connectors as flows, and the files of its executable as a connector.

They name no clusters, so these get names of their own, one for each set of addresses. Settings of
the source's consumer get the names that MirrorMaker 2 has for them, all others keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliostat.errors import ConfigError
from heliostat.mm2.config_connectors import REPLICATOR, Connector
from heliostat.mm2.config_names import is_client
from heliostat.mm2.config_properties import read_properties
from heliostat.mm2.config_values import Client, Flow, Ledger, Origin, Setting

SOURCE, TARGET, OVERRIDE = "src.kafka.", "dest.kafka.", "producer.override."
_CONSUMER = "src.consumer."
_ADDRESSES = "bootstrap.servers"
_ZOOKEEPER = "zookeeper.connect"
_TOPICS = ("topic.whitelist", "topic.regex")


@dataclass(frozen=True, slots=True)
class ExecutableFiles:
    """Names of the files of Replicator's executable, as its options have them.

    Parameters
    ----------
    consumer, producer
        Properties of the clients of source and target, without prefixes.
    replication
        Properties of Replicator itself.
    """

    consumer: str
    producer: str
    replication: str


def read_executable(names: ExecutableFiles, files: Mapping[str, str], ledger: Ledger) -> Connector:
    """Return what the executable makes of its files: one connector.

    Parameters
    ----------
    files
        Contents by name.

    Raises
    ------
    ConfigError
        A file's syntax is wrong, or no topics are named.
    """
    settings = {
        **_client_file(names.consumer, files, (SOURCE, _CONSUMER, "src.")),
        **_client_file(names.producer, files, (TARGET, OVERRIDE, "dest.")),
        **_client_file(names.replication, files, ("", "", "")),
    }
    ledger.add(setting.origin for setting in settings.values())
    for file, prefix in ((names.consumer, SOURCE), (names.producer, TARGET)):
        if prefix + _ADDRESSES not in settings:
            raise ConfigError(f"{file} has no {_ADDRESSES}")
    if not any(name in settings for name in _TOPICS):
        raise ConfigError(
            f"{names.replication} names no topics",
            hint="write what the command line had as --whitelist or --topic.regex there, as "
            "topic.whitelist or topic.regex; the other options in the same way",
        )
    return Connector(REPLICATOR, settings)


def _client_file(
    file: str, files: Mapping[str, str], prefixes: tuple[str, str, str]
) -> dict[str, Setting]:
    """Return a file's properties under the names that a connector has for them.

    Parameters
    ----------
    prefixes
        Of what all clients of the cluster share, of what is this client's, and of ZooKeeper.
    """
    shared, own, zookeeper = prefixes
    settings: dict[str, Setting] = {}
    for row in read_properties(files[file]):
        prefix = shared if is_client(row.name) else own
        if row.name == _ZOOKEEPER:
            prefix = zookeeper
        settings[prefix + row.name] = Setting(row.value, Origin(file, row.name))
    return settings


def replicator_flows(connectors: Iterable[Connector], ledger: Ledger) -> list[Flow]:
    """Return a flow for each of Replicator's connectors.

    Raises
    ------
    ConfigError
        A connector does not say where one of its clusters is.
    """
    aliases: dict[frozenset[str], str] = {}
    return [_flow(e.settings, aliases, ledger) for e in connectors if e.kind == REPLICATOR]


def _flow(
    settings: Mapping[str, Setting], aliases: dict[frozenset[str], str], ledger: Ledger
) -> Flow:
    for setting in settings.values():
        ledger.unless_read(setting.origin, "Replicator reads no such property there")
    is_told = TARGET + _ADDRESSES in settings
    return Flow(
        source=_client("source", settings, SOURCE, aliases),
        target=_client("target", settings, TARGET if is_told else OVERRIDE, aliases),
        settings={
            name.replace(_CONSUMER, "source.consumer.", 1)
            if name.startswith(_CONSUMER)
            else name: setting
            for name, setting in settings.items()
        },
        has_checkpoints=False,
        is_replicator=True,
    )


def _client(
    side: str,
    settings: Mapping[str, Setting],
    beginning: str,
    aliases: dict[frozenset[str], str],
) -> Client:
    client_settings = {
        name.removeprefix(beginning): setting
        for name, setting in settings.items()
        if name.startswith(beginning) and is_client(name.removeprefix(beginning))
    }
    if _ADDRESSES not in client_settings:
        wanted = (SOURCE if side == "source" else TARGET) + _ADDRESSES
        raise ConfigError(
            f"{settings['connector.class'].origin.file}: a Replicator without {wanted}",
            hint="it writes into the cluster of its Connect workers: add their addresses under "
            "this name",
        )
    addresses = frozenset(client_settings[_ADDRESSES].entries())
    if addresses not in aliases:
        taken = sum(alias == side or alias.startswith(f"{side}-") for alias in aliases.values())
        aliases[addresses] = f"{side}-{taken + 1}" if taken else side
    return Client(aliases[addresses], client_settings)
