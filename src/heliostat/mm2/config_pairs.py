"""Which connectors belong together: a source connector's flow, its checkpoints and heartbeats.

By aliases, and where these disagree by addresses: a connector works where it connects, whatever
it calls that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from heliostat.errors import ConfigError
from heliostat.mm2.config_clients import (
    OVERRIDE,
    record_settings,
    role_settings,
    source_client,
    target_client,
)
from heliostat.mm2.config_connectors import (
    CHECKPOINT,
    HEARTBEAT,
    REPLICATOR,
    SOURCE,
    Connector,
    Named,
)
from heliostat.mm2.config_names import CHECKPOINT_ONLY, HEARTBEAT_ONLY
from heliostat.mm2.config_values import Flow, Ledger

_BOOTSTRAP = "bootstrap.servers"


class Partners(NamedTuple):
    """What belongs to a source connector of the other two kinds."""

    checkpoints: list[Connector]
    at_source: list[Connector]
    """Those that write heartbeats into its source."""
    at_target: list[Connector]
    """Those that write heartbeats into its target."""


def partners_of(source: Connector, others: Iterable[Connector]) -> Partners:
    """Return which of the others belong to a source connector."""
    rest = list(others)
    heartbeats = [other for other in rest if other.kind == HEARTBEAT]
    return Partners(
        [other for other in rest if other.kind == CHECKPOINT and _is_same_flow(source, other)],
        [heartbeat for heartbeat in heartbeats if _writes_into(heartbeat, source, "source")],
        [heartbeat for heartbeat in heartbeats if _writes_into(heartbeat, source, "target")],
    )


def flows_of(
    connectors: Iterable[Connector], ledger: Ledger, others: Iterable[Flow] = ()
) -> list[Flow]:
    """Return the flows that have a source connector, with what belongs to them of the other two.

    Parameters
    ----------
    connectors
        All connectors.
    ledger
        Takes the outcome.
    others
        Flows of other files: connectors may write heartbeats into their sources.

    Raises
    ------
    ConfigError
        A connector has no `source.cluster.alias`.
    """
    mirroring = [connector for connector in connectors if connector.kind != REPLICATOR]
    for connector in mirroring:
        _note_aliases(connector, ledger)
    sources = [connector for connector in mirroring if connector.kind == SOURCE]
    rest = [connector for connector in mirroring if connector.kind != SOURCE]
    taken: list[Connector] = []
    flows = [_flow(source, rest, taken, ledger) for source in sources]
    for flow in others:
        feeding = [other for other in rest if other.kind == HEARTBEAT and _feeds(other, flow)]
        _take_heartbeats(flow, feeding, ledger)
        taken += feeding
    for connector in rest:
        if not any(connector is partner for partner in taken):
            _tell_alone(connector, ledger)
    return flows


def _note_aliases(connector: Connector, ledger: Ledger) -> None:
    if "source.cluster.alias" not in connector.settings:
        raise ConfigError(f"{connector.file}: a {connector.kind} has no source.cluster.alias")
    for side in ("source", "target"):
        setting = connector.settings.get(f"{side}.cluster.alias")
        if setting is not None:
            empty = "" if setting.value else f", where an empty alias is called {side}"
            ledger.used(setting, f"clusters and link{empty}")


def aliases_of(connector: Connector) -> tuple[str, str]:
    """Return what it calls its source and its target."""
    target = connector.settings.get("target.cluster.alias")
    source = connector.settings["source.cluster.alias"]
    return source.value, "target" if target is None else target.value


def addresses_of(connector: Connector, side: str) -> frozenset[str]:
    """Return where it reads or writes; empty if its file does not say."""
    role = {("target", SOURCE): "producer", ("source", SOURCE): "consumer"}
    settings = role_settings(connector.settings, side, role.get((side, connector.kind), "admin"))
    setting = settings.get(_BOOTSTRAP)
    if side == "target" and connector.kind != CHECKPOINT:
        setting = connector.settings.get(OVERRIDE + _BOOTSTRAP, setting)
    return frozenset() if setting is None else frozenset(setting.entries())


def _reached(connector: Connector, side: str) -> frozenset[str]:
    """Return all addresses of a cluster: a client may use another listener than its cluster's."""
    cluster = connector.settings.get(f"{side}.cluster.{_BOOTSTRAP}")
    return addresses_of(connector, side) | frozenset(() if cluster is None else cluster.entries())


def _is_same_flow(source: Connector, checkpoint: Connector) -> bool:
    ends = [(_reached(source, side), _reached(checkpoint, side)) for side in ("source", "target")]
    if all(addresses and other for addresses, other in ends):
        return all(addresses & other for addresses, other in ends)
    return aliases_of(source) == aliases_of(checkpoint)


def _writes_into(heartbeat: Connector, source: Connector, side: str) -> bool:
    written, cluster = addresses_of(heartbeat, "target"), addresses_of(source, side)
    if written and cluster:
        return bool(written & cluster)
    index = 0 if side == "source" else 1
    return aliases_of(heartbeat)[1] == aliases_of(source)[index]


def _feeds(heartbeat: Connector, flow: Flow) -> bool:
    """Return whether it writes into the source of a flow that has no connectors of its own."""
    addresses = flow.source.settings.get(_BOOTSTRAP)
    cluster = frozenset() if addresses is None else frozenset(addresses.entries())
    if (written := addresses_of(heartbeat, "target")) and cluster:
        return bool(written & cluster)
    return aliases_of(heartbeat)[1] == flow.source.alias


def _flow(
    source: Connector, others: list[Connector], taken: list[Connector], ledger: Ledger
) -> Flow:
    checkpoints, at_source, at_target = partners_of(source, others)
    taken += checkpoints + at_source + at_target
    name = "->".join(aliases_of(source))
    for checkpoint in checkpoints:
        if aliases_of(checkpoint) != aliases_of(source):
            ledger.differs(
                f"{name}: the {CHECKPOINT} of {checkpoint.file} calls the clusters "
                f"{'->'.join(aliases_of(checkpoint))}, but has the addresses of {name}: it is "
                "taken for this flow's, and groups' offsets are for this flow's mirrors"
            )
    for heartbeat in at_source:
        if aliases_of(heartbeat)[1] != aliases_of(source)[0]:
            ledger.differs(
                f"{name}: the {HEARTBEAT} of {heartbeat.file} writes into the cluster with the "
                f"addresses of {aliases_of(source)[0]}, which it calls {aliases_of(heartbeat)[1]}: "
                "the link writes heartbeats there (heartbeats.emit)"
            )
    flow = build_flow(source, checkpoints, at_source, at_target, ledger)
    flow.from_connectors = True
    return flow


def build_flow(
    source: Connector,
    checkpoints: list[Connector],
    at_source: list[Connector],
    at_target: list[Connector],
    ledger: Ledger,
) -> Flow:
    """Return a flow, with what each of its connectors decides.

    Parameters
    ----------
    source
        The source connector.
    checkpoints
        Its checkpoint connector.
    at_source, at_target
        Connectors that write heartbeats into the source, and into the target.
    ledger
        Takes the outcome.
    """
    name = "->".join(aliases_of(source))
    settings = _own(source, ledger)
    for connector in (*checkpoints, *at_target):
        _add_other(settings, connector, name, ledger)
    for connector in (source, *checkpoints):
        _tell_not_running(connector, name, ledger)
    aliases = aliases_of(source)
    keys = [alias or side for alias, side in zip(aliases, ("source", "target"), strict=True)]
    flow = Flow(
        source=source_client(source.settings, aliases[0], keys[0], ledger),
        target=target_client(source.settings, aliases[1], keys[1], ledger),
        settings=record_settings(settings, ledger),
        has_checkpoints=any(checkpoint.runs for checkpoint in checkpoints),
    )
    _take_heartbeats(flow, at_source, ledger)
    return flow


def _take_heartbeats(flow: Flow, at_source: Iterable[Connector], ledger: Ledger) -> None:
    """Let the link write heartbeats into its source, as these connectors do."""
    for connector in at_source:
        _tell_not_running(connector, flow.name, ledger)
        for setting in connector.settings.values():
            ledger.unless_read(setting.origin, "the link writes heartbeats as it connects itself")
        if emits_heartbeats(connector):
            flow.has_heartbeats_at_source = True
            flow.heartbeats |= {n: s for n, s in connector.settings.items() if n in HEARTBEAT_ONLY}


def _own(source: Connector, ledger: Ledger) -> Named:
    """Return what the source connector itself reads."""
    settings: Named = {}
    for name, setting in source.settings.items():
        if name in CHECKPOINT_ONLY:
            ledger.unless_read(setting.origin, f"only a {CHECKPOINT} reads it")
        elif name in HEARTBEAT_ONLY:
            ledger.unless_read(setting.origin, f"only a {HEARTBEAT} reads it")
        elif not name.startswith(("source.cluster.", "target.cluster.")):
            settings[name] = setting
    return settings


def _add_other(settings: Named, other: Connector, flow: str, ledger: Ledger) -> None:
    """Add what another connector decides; the source connector decides the rest."""
    own = CHECKPOINT_ONLY if other.kind == CHECKPOINT else HEARTBEAT_ONLY
    for name, setting in other.settings.items():
        if name in own:
            settings[name] = setting
        else:
            ledger.unless_read(setting.origin, f"the {SOURCE}'s value counts")
    topics = other.settings.get("topics")
    mirrored = settings.get("topics")
    if other.kind != CHECKPOINT or topics is None:
        return
    if mirrored is None or set(topics.entries()) != set(mirrored.entries()):
        ledger.unsupported(
            topics,
            "a link syncs groups for all topics that it mirrors",
            f"{flow}: groups were synced if they read the topics of the {CHECKPOINT}; a link syncs "
            "those that read any topic it mirrors",
        )


def emits_heartbeats(heartbeat: Connector) -> bool:
    """Return whether a heartbeat connector writes any."""
    enabled = heartbeat.settings.get("emit.heartbeats.enabled")
    return heartbeat.runs and (enabled is None or enabled.is_true)


def _tell_not_running(connector: Connector, flow: str, ledger: Ledger) -> None:
    if connector.runs:
        return
    what = {
        SOURCE: "nothing was copied, and a link copies as soon as it is started",
        CHECKPOINT: "no group was synced: groups.sync and checkpoints.emit are off",
        HEARTBEAT: "no heartbeats were written: heartbeats.emit is off",
    }
    ledger.differs(f"{flow}: its {connector.kind} is {connector.state}: {what[connector.kind]}")


def _tell_alone(connector: Connector, ledger: Ledger) -> None:
    aliases = "->".join(aliases_of(connector))
    for setting in connector.settings.values():
        ledger.unless_read(
            setting.origin,
            f"a {connector.kind} alone copies nothing: there is no {SOURCE} for {aliases}",
        )
    ledger.differs(
        f"{aliases}: the {connector.kind} of {connector.file} belongs to no {SOURCE} of these "
        "files, by its addresses or its aliases, and is left out"
    )
