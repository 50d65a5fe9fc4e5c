"""A link's `topics` section, from the properties of a MirrorMaker 2 flow."""

from __future__ import annotations

import re

from heliostat.config import BUILT_IN_EXCLUDE, CONFIG_EXCLUDE_DEFAULT
from heliostat.errors import ConfigError
from heliostat.mm2.config_draft import LinkDraft
from heliostat.mm2.config_patterns import patterns_in

TOPICS_DEFAULT = (".*",)
TOPICS_EXCLUDE_DEFAULT = (r".*\.replica",)
"""MirrorMaker 2's default since 4.1, without topics that we never mirror."""
NEVER_REPLICATED = r"\..*"
"""Of `isInternalTopic`: names that begin with a dot. We never mirror its other ones."""
MM2_CONFIG_EXCLUDE = 6
"""How many of our excluded settings are MirrorMaker 2's default, too; the others concern batches,
which we copy as they are."""
REFRESH_S = (0.1, 86_400)


def add_topics(draft: LinkDraft, naming: str | None) -> None:
    """Fill in which topics are mirrored, what mirrors are called and which settings they get."""
    include = draft.given.get("topics")
    entries = list(TOPICS_DEFAULT) if include is None else draft.patterns(include, "topics.include")
    draft.put("topics", "include", entries)
    draft.put("topics", "exclude", _exclude(draft, naming))
    _naming(draft, naming)
    reset = draft.given.get("source.consumer.auto.offset.reset")
    if reset is not None:
        draft.put("topics", "start", "latest" if reset.value == "latest" else "earliest")
        draft.ledger.used(reset, "topics.start")
    draft.take("replication.factor", "topics", "replication_factor", draft.replicas)
    _config_exclude(draft)
    draft.take("sync.topic.configs.enabled", "topics", "sync_configs")
    defaults = draft.given.get("use.defaults.from")
    if defaults is not None:
        draft.put("topics", "sync_broker_values", defaults.value.strip() == "source")
        draft.ledger.used(defaults, "topics.sync_broker_values")
    _refresh(draft)


def _exclude(draft: LinkDraft, naming: str | None) -> list[str]:
    """Return the list, and what MirrorMaker 2 leaves out whatever its lists say."""
    setting = draft.first("topics.exclude", "topics.blacklist")
    own = list(TOPICS_EXCLUDE_DEFAULT)
    if setting is not None:
        own = [e for e in draft.patterns(setting, "topics.exclude") if e not in BUILT_IN_EXCLUDE]
    more = [NEVER_REPLICATED]
    prefix = _prefix(draft, naming)
    separator = "" if prefix is None else re.escape(prefix[len(draft.flow.source.alias) :])
    if separator:  # without one it does not see either where a topic came from
        # A topic that came from the target must not go back there.
        back = re.escape(draft.flow.target.alias) + separator
        more.append(rf"(.+{separator})?{back}.+")
    found = own + patterns_in(more, "topics.exclude")
    return list(dict.fromkeys(found))


def _prefix(draft: LinkDraft, naming: str | None) -> str | None:
    """Return the prefix of the default replication policy; None for any other policy."""
    policy = draft.given.get("replication.policy.class")
    name = "DefaultReplicationPolicy" if policy is None else policy.value.rpartition(".")[2]
    if naming is not None or name != "DefaultReplicationPolicy":
        return None
    separator = draft.given.get("replication.policy.separator")
    return draft.flow.source.alias + ("." if separator is None else separator.value)


def _naming(draft: LinkDraft, naming: str | None) -> None:
    policy = draft.given.get("replication.policy.class")
    separator = draft.given.get("replication.policy.separator")
    prefix = _prefix(draft, naming)
    name = "" if policy is None else policy.value.rpartition(".")[2]
    if naming is not None:
        draft.put("topics", "naming", {"format": naming})
    elif prefix:
        draft.put("topics", "naming", {"prefix": prefix})
    elif prefix == "" or name == "IdentityReplicationPolicy":
        draft.put("topics", "naming", "same")
    else:
        raise ConfigError(
            f"replication policy {name} of {draft.flow.name} is not known, so the names of its "
            "mirrors aren't either",
            hint="give them as a format: --naming '${source}.${topic}'",
        )
    for setting in (policy, separator):
        if setting is not None:
            draft.ledger.used(setting, "topics.naming")


def _config_exclude(draft: LinkDraft) -> None:
    setting = draft.first("config.properties.exclude", "config.properties.blacklist")
    if setting is not None:
        own = draft.patterns(setting, "topics.config_exclude")
        more = CONFIG_EXCLUDE_DEFAULT[MM2_CONFIG_EXCLUDE:]
        draft.put("topics", "config_exclude", list(dict.fromkeys([*own, *more])))


def _refresh(draft: LinkDraft) -> None:
    names = (
        *("refresh.topics.interval.seconds", "sync.topic.configs.interval.seconds"),
        "sync.topic.acls.interval.seconds",
    )
    given = [draft.given[name] for name in names[:2] if name in draft.given]
    if given:
        shortest = min(draft.number(each, REFRESH_S) for each in given)
        draft.put("topics", "refresh_interval_s", shortest)
        for each in given:
            draft.ledger.used(each, "topics.refresh_interval_s, the shortest one for all")
