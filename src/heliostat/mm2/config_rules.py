"""One flow of MirrorMaker 2 as one link: which property becomes which key."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from heliostat.config import BUILT_IN_EXCLUDE, CONFIG_EXCLUDE_DEFAULT
from heliostat.errors import ConfigError
from heliostat.mm2.config_answers import answer
from heliostat.mm2.config_patterns import named_with_dots, patterns_in, patterns_of
from heliostat.mm2.config_values import Flow, Ledger, Setting

Section = dict[str, Any]
TOPICS_DEFAULT = (".*",)
TOPICS_EXCLUDE_DEFAULT = (r".*\.replica",)
"""Its default since 4.1, without what is never mirrored anyway."""
NEVER_REPLICATED = r"\..*"
"""`isInternalTopic`: names that begin with a dot. The other ones never are mirrored anyway."""
MM2_CONFIG_EXCLUDE = 6
"""So many of our excluded settings are its own default; the rest belongs to how batches cross."""
FETCH_BYTES = (1024, 55 << 20)
PARTITION_BYTES = (1024, 100 << 20)
IN_FLIGHT = (1, 5)
REFRESH_S = (0.1, 86_400)
GROUPS_S = (0.5, 3600)
HEARTBEATS_S = (0.1, 3600)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEFAULT_CLASSES = {
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "forwarding.admin.class": "ForwardingAdmin",
}


def link_section(flow: Flow, naming: str | None, ledger: Ledger) -> Section:
    """One entry of `links`.

    Parameters
    ----------
    naming
        A format that overrides the replication policy, for policies that nobody else knows.

    Raises
    ------
    ConfigError
        A list, number or replication policy can't be taken over.
    """
    return _Link(flow, naming, ledger).section()


class _Link:
    """One link in the making."""

    def __init__(self, flow: Flow, naming: str | None, ledger: Ledger) -> None:
        self.flow = flow
        self.naming = naming
        self.ledger = ledger
        self.given = flow.settings
        self.parts: dict[str, Section] = {}

    def section(self) -> Section:
        """All of it, in the order of the reference."""
        self._topics()
        self._records()
        self._state()
        self._groups()
        self._interchange()
        self._warn()
        for name, setting in self.given.items():
            found = answer(name)
            if found is not None:
                self.ledger.tell(setting.origin, *found)
        order = (
            *("topics", "records", "state", "groups"),
            *("heartbeats", "checkpoints", "offset_syncs"),
        )
        return {key: self.parts[key] for key in order if self.parts.get(key)}

    def _set(self, part: str, key: str, value: object) -> None:
        self.parts.setdefault(part, {})[key] = value

    def _take(
        self, name: str, part: str, key: str, read: Callable[[Setting], object] | None = None
    ) -> None:
        """A property that has a key of its own."""
        setting = self.given.get(name)
        if setting is not None:
            self._set(part, key, setting.is_true if read is None else read(setting))
            self.ledger.used(setting, f"{part}.{key}")

    def _first(self, *names: str) -> Setting | None:
        """The current name of a property before its former one, which is without effect then."""
        found = [self.given[name] for name in names if name in self.given]
        for other in found[1:]:
            self.ledger.without(other, f"{found[0].origin.name} wins")
        return found[0] if found else None

    # -- topics --------------------------------------------------------------------------------

    def _topics(self) -> None:
        include = self.given.get("topics")
        entries = list(TOPICS_DEFAULT) if include is None else self._list(include, "topics.include")
        self._set("topics", "include", entries)
        self._set("topics", "exclude", self._exclude())
        self._naming()
        reset = self.given.get("source.consumer.auto.offset.reset")
        if reset is not None:
            self._set("topics", "start", "latest" if reset.value == "latest" else "earliest")
            self.ledger.used(reset, "topics.start")
        self._take("replication.factor", "topics", "replication_factor", self._replicas)
        self._config_exclude()
        self._take("sync.topic.configs.enabled", "topics", "sync_configs")
        defaults = self.given.get("use.defaults.from")
        if defaults is not None:
            self._set("topics", "sync_broker_values", defaults.value.strip() == "source")
            self.ledger.used(defaults, "topics.sync_broker_values")
        self._refresh()

    def _list(self, setting: Setting, key: str) -> list[str]:
        found = patterns_of(setting)
        dotted = named_with_dots(found)
        text = key
        if dotted:
            text += f"; dots in {', '.join(dotted[:3])} are dots now, and no longer any character"
        self.ledger.used(setting, text)
        return found

    def _exclude(self) -> list[str]:
        """The list, and what MirrorMaker 2 leaves out whatever its lists say."""
        setting = self._first("topics.exclude", "topics.blacklist")
        own = list(TOPICS_EXCLUDE_DEFAULT)
        if setting is not None:
            own = [e for e in self._list(setting, "topics.exclude") if e not in BUILT_IN_EXCLUDE]
        more = [NEVER_REPLICATED]
        prefix = self._prefix()
        if prefix is not None:
            # A topic that came from the target must not go back there.
            back = re.escape(self.flow.target.alias + prefix[len(self.flow.source.alias) :])
            separator = re.escape(prefix[len(self.flow.source.alias) :])
            more.append(rf"(.+{separator})?{back}.+")
        found = own + patterns_in(more, "topics.exclude")
        return list(dict.fromkeys(found))

    def _prefix(self) -> str | None:
        """What the default replication policy puts before names; None under any other."""
        policy = self.given.get("replication.policy.class")
        name = "DefaultReplicationPolicy" if policy is None else policy.value.rpartition(".")[2]
        if self.naming is not None or name != "DefaultReplicationPolicy":
            return None
        separator = self.given.get("replication.policy.separator")
        return self.flow.source.alias + ("." if separator is None else separator.value)

    def _naming(self) -> None:
        policy = self.given.get("replication.policy.class")
        separator = self.given.get("replication.policy.separator")
        prefix = self._prefix()
        name = "" if policy is None else policy.value.rpartition(".")[2]
        if self.naming is not None:
            self._set("topics", "naming", {"format": self.naming})
        elif prefix is not None:
            self._set("topics", "naming", {"prefix": prefix})
        elif name == "IdentityReplicationPolicy":
            self._set("topics", "naming", "same")
        else:
            raise ConfigError(
                f"replication policy {name} of {self.flow.name} is not known, so that nobody can "
                "say what mirrors are called",
                hint="say it as a format: --naming '${source}.${topic}'",
            )
        for setting in (policy, separator):
            if setting is not None:
                self.ledger.used(setting, "topics.naming")

    def _config_exclude(self) -> None:
        setting = self._first("config.properties.exclude", "config.properties.blacklist")
        if setting is not None:
            own = self._list(setting, "topics.config_exclude")
            more = CONFIG_EXCLUDE_DEFAULT[MM2_CONFIG_EXCLUDE:]
            self._set("topics", "config_exclude", list(dict.fromkeys([*own, *more])))

    def _refresh(self) -> None:
        names = (
            *("refresh.topics.interval.seconds", "sync.topic.configs.interval.seconds"),
            "sync.topic.acls.interval.seconds",
        )
        given = [self.given[name] for name in names[:2] if name in self.given]
        if given:
            shortest = min(self._number(each, REFRESH_S) for each in given)
            self._set("topics", "refresh_interval_s", shortest)
            for each in given:
                self.ledger.used(each, "topics.refresh_interval_s, the shortest one for all")

    # -- records and state ---------------------------------------------------------------------

    def _records(self) -> None:
        codec = self.given.get("producer.override.compression.type")
        if codec is not None and codec.value.strip() in CODECS:
            self._set("records", "compression", codec.value.strip())
            self.ledger.used(codec, "records.compression, of small batches that are joined")
        for name, key, limits in (
            ("source.consumer.fetch.max.bytes", "fetch_bytes_max", FETCH_BYTES),
            (
                "source.consumer.max.partition.fetch.bytes",
                "partition_fetch_bytes_max",
                PARTITION_BYTES,
            ),
            (
                "producer.override.max.in.flight.requests.per.connection",
                "in_flight_max",
                IN_FLIGHT,
            ),
        ):
            self._take(name, "records", key, partial(self._number, limits=limits))
        isolation = self.given.get("source.consumer.isolation.level")
        if isolation is not None:
            self.ledger.replaced(isolation, "what transactions commit is copied, and nothing else")

    def _state(self) -> None:
        """One replication factor for the link's topics, from the first one that is given."""
        names = [
            f"worker.{each}.storage.replication.factor" for each in ("offset", "config", "status")
        ]
        given = [self.given[name] for name in names if name in self.given]
        if given:
            self._set("state", "replication_factor", self._replicas(given[0]))
            self.ledger.used(given[0], "state.replication_factor")
        for each in given[1:]:
            self.ledger.replaced(each, f"state.replication_factor, from {given[0].origin.name}")

    # -- groups, heartbeats, checkpoints -------------------------------------------------------

    def _groups(self) -> None:
        include = self.given.get("groups")
        if include is not None:
            self._set("groups", "include", self._list(include, "groups.include"))
        exclude = self._first("groups.exclude", "groups.blacklist")
        if exclude is not None:
            self._set("groups", "exclude", self._list(exclude, "groups.exclude"))
        sync = self.given.get("sync.group.offsets.enabled")
        emits = self.given.get("emit.checkpoints.enabled")
        is_on = sync is not None and sync.is_true and self.flow.has_checkpoints
        if is_on and emits is not None and not emits.is_true:
            is_on = False  # without checkpoints its groups' offsets are not synced either
        self._set("groups", "sync", is_on)
        if sync is not None:
            self.ledger.used(sync, "groups.sync")
        interval = self.given.get("sync.group.offsets.interval.seconds")
        if interval is not None:
            self._set("groups", "interval_s", self._number(interval, GROUPS_S))
            self.ledger.used(interval, "groups.interval_s")

    def _interchange(self) -> None:
        copied = self.given.get("heartbeats.replication.enabled")
        is_copied = copied is None or copied.is_true
        self._set("heartbeats", "mirror", is_copied)
        if copied is not None:
            self.ledger.used(copied, "heartbeats.mirror")
        self._set("heartbeats", "emit", is_copied and self.flow.has_heartbeats_at_source)
        emits = self.given.get("emit.heartbeats.enabled")
        if emits is not None:
            self.ledger.replaced(
                emits,
                f"MirrorMaker 2 writes them into {self.flow.target.alias}; a link writes its own "
                "into its source: heartbeats.emit",
            )
        self._take(
            "emit.heartbeats.interval.seconds",
            "heartbeats",
            "interval_s",
            lambda s: self._number(s, HEARTBEATS_S),
        )
        factor = "heartbeats.topic.replication.factor"
        self._take(factor, "heartbeats", "replication_factor", self._replicas)
        checkpoints = self.given.get("emit.checkpoints.enabled")
        has = self.flow.has_checkpoints and (checkpoints is None or checkpoints.is_true)
        self._set("checkpoints", "emit", has)
        if checkpoints is not None:
            self.ledger.used(checkpoints, "checkpoints.emit")
        factor = "checkpoints.topic.replication.factor"
        self._take(factor, "checkpoints", "replication_factor", self._replicas)
        self._offset_syncs()

    def _offset_syncs(self) -> None:
        """Only where they were asked for: nothing of ours needs them."""
        emits = self.given.get("emit.offset-syncs.enabled")
        location = self.given.get("offset-syncs.topic.location")
        factor = self.given.get("offset-syncs.topic.replication.factor")
        if emits is not None and emits.is_true:
            self._set("offset_syncs", "emit", True)
            self.ledger.used(emits, "offset_syncs.emit")
            place = "source" if location is None else location.value.strip()
            self._set("offset_syncs", "location", place)
            if location is not None:
                self.ledger.used(location, "offset_syncs.location")
            name = "offset-syncs.topic.replication.factor"
            self._take(name, "offset_syncs", "replication_factor", self._replicas)
            return
        for each in (emits, location, factor):
            if each is not None:
                self.ledger.replaced(
                    each,
                    "the offset map, at the target; offset_syncs.emit writes MirrorMaker 2's as "
                    "well, if it is to translate again one day",
                )

    # -- what will differ ----------------------------------------------------------------------

    def _warn(self) -> None:
        name = self.flow.name
        for key, setting in self.given.items():
            if key.startswith(("transforms", "predicates")) and setting.value.strip():
                self.ledger.without(setting, "records are copied as they are")
                self.ledger.differs(f"{name}: transforms changed records; a link changes none")
        for key, default in DEFAULT_CLASSES.items():
            self._own_class(key, default)
        tolerance = self.given.get("errors.tolerance")
        if tolerance is not None:
            self.ledger.without(
                tolerance, "a record that can't be copied is never left out silently"
            )
            if tolerance.value.strip() == "all":
                self.ledger.differs(
                    f"{name}: errors.tolerance=all left out records that could not be written; a "
                    "link stops their partition and tells"
                )
        acls = [s for k, s in self.given.items() if k.startswith("sync.topic.acls.")]
        for each in acls:
            self.ledger.without(
                each, "ACLs are not copied; `heliostat acls` says what a link needs"
            )
        enabled = self.given.get("sync.topic.acls.enabled")
        if enabled is None or enabled.is_true:
            self.ledger.differs(
                f"{name}: read rights on topics were copied to the target (sync.topic.acls, on by "
                "default); a link copies none, those that are there stay"
            )

    def _own_class(self, key: str, default: str) -> None:
        setting = self.given.get(key)
        if setting is None:
            return
        name = setting.value.rpartition(".")[2]
        self.ledger.without(setting, "no Java class of your own can be used")
        if name != default:
            self.ledger.differs(f"{self.flow.name}: {key} {name} decided what the lists now decide")

    # -- numbers -------------------------------------------------------------------------------

    def _number(self, setting: Setting, limits: tuple[float, float]) -> float:
        try:
            value = float(setting.value)
        except ValueError:
            raise ConfigError(f"{setting.origin.name}: not a number") from None
        kept = min(max(value, limits[0]), limits[1])
        return int(kept) if kept == int(kept) else kept

    def _replicas(self, setting: Setting) -> int | None:
        """-1 leaves it to the broker, which is what null comes nearest to."""
        value = int(self._number(setting, (-1, 32_767)))
        return value if value > 0 else None
