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
OLD_INTERNAL = r".*[\-\.]internal"
TOPICS_EXCLUDE_BEFORE_4_1 = (OLD_INTERNAL, r".*\.replica")
USER_INTERNAL_TOPICS = (4, 1)
"""The first version that copies topics whose names end in `internal` (KIP-1074)."""
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
    _replicas(draft)
    _config_exclude(draft)
    draft.take("sync.topic.configs.enabled", "topics", "sync_configs")
    defaults = draft.given.get("use.defaults.from")
    if defaults is not None:
        draft.put("topics", "sync_broker_values", defaults.value.strip() == "source")
        draft.ledger.used(defaults, "topics.sync_broker_values")
    _refresh(draft)


def _replicas(draft: LinkDraft) -> None:
    setting = draft.given.get("replication.factor")
    if setting is None:
        return
    factor = draft.replicas(setting)
    draft.put("topics", "replication_factor", factor)
    if factor is not None:
        draft.ledger.used(setting, "topics.replication_factor")
        return
    draft.ledger.unsupported(
        setting,
        "a mirror gets the source topic's replication factor (topics.replication_factor: null)",
        f"{draft.flow.name}: replication.factor -1 gave new topics the target brokers' "
        "default.replication.factor; a link gives them the source topic's, or a number",
    )


def _exclude(draft: LinkDraft, naming: str | None) -> list[str]:
    """Return the list, and what MirrorMaker 2 leaves out whatever its lists say."""
    setting = draft.first("topics.exclude", "topics.blacklist")
    is_old = draft.flow.version < USER_INTERNAL_TOPICS
    own = [*TOPICS_EXCLUDE_BEFORE_4_1] if is_old else [*TOPICS_EXCLUDE_DEFAULT]
    if setting is not None:
        own = [e for e in draft.patterns(setting, "topics.exclude") if e not in BUILT_IN_EXCLUDE]
        own += [OLD_INTERNAL] if is_old else []
    more = [NEVER_REPLICATED, *_internal(draft)]
    prefix = _prefix(draft, naming)
    if prefix is not None:
        separator = prefix[len(draft.flow.source.alias) :]
        more += returning_topics(draft.flow.target.alias, separator)
    patterns = own + patterns_in(more, "topics.exclude")
    return list(dict.fromkeys(patterns))


def _internal(draft: LinkDraft) -> list[str]:
    """Return MirrorMaker 2's own topics, if their separator is not a dot (KIP-690, KIP-949)."""
    separator = draft.given.get("replication.policy.separator")
    enabled = draft.given.get("replication.policy.internal.topic.separator.enabled")
    is_own = separator is not None and separator.value != "."
    if separator is None or not is_own or (enabled is not None and not enabled.is_true):
        return []
    return internal_topics(separator.value)


def internal_topics(separator: str) -> list[str]:
    """Return MirrorMaker 2's own topics as they are called with a separator."""
    text = re.escape(separator)
    return [rf"mm2.*{text}internal", rf".*{text}checkpoints{text}internal"]


def returning_topics(target: str, separator: str) -> list[str]:
    """Return topics whose names say that they came from the target: they must not go back there."""
    if separator:
        text = re.escape(separator)
        return [rf"(.+{text})?{re.escape(target)}{text}.+"]
    # Without a separator each character of a name is taken for an alias.
    return [rf".*{re.escape(target)}.+"] if len(target) == 1 else []


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
        shortest = min(draft.number(setting, REFRESH_S) for setting in given)
        draft.put("topics", "refresh_interval_s", shortest)
        for setting in given:
            draft.ledger.used(setting, "topics.refresh_interval_s, the shortest one for all")
