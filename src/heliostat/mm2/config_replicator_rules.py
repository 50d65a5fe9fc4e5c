"""Convert one of Confluent Replicator's flows into one link: which property becomes which key."""

from __future__ import annotations

import re

from heliostat.config import BUILT_IN_EXCLUDE, compile_pattern, is_plain_name
from heliostat.errors import ConfigError
from heliostat.mm2.config_differences import tell_what_differs
from heliostat.mm2.config_draft import LinkDraft
from heliostat.mm2.config_patterns import named_with_dots, patterns_in
from heliostat.mm2.config_registry import add_registry
from heliostat.mm2.config_replicator_answers import replicator_answer
from heliostat.mm2.config_rules import add_records
from heliostat.mm2.config_schemas import (
    CONVERTERS,
    add_converters,
    mirror_schemas,
    take_registry_topic,
    tell_raw_copy,
)
from heliostat.mm2.config_topics import REFRESH_S
from heliostat.mm2.config_transform_avro import rewrite_changed
from heliostat.mm2.config_transforms import add_transforms
from heliostat.mm2.config_values import Setting

DEFAULT_TRANSLATOR = "DefaultSubjectTranslator"
NEVER_COPIED = frozenset({"__consumer_offsets", "__transaction_state", "__consumer_timestamps"})
SAME = "${topic}"


def convert_replicator(draft: LinkDraft, naming: str | None) -> None:
    """Fill in a link.

    Parameters
    ----------
    draft
        The link of a flow.
    naming
        Format that replaces `topic.rename.format`.

    Raises
    ------
    ConfigError
        The expression of topics, a number or the format of names can't be converted.
    """
    _topics(draft)
    _naming(draft, naming)
    add_transforms(draft)
    _topic_settings(draft)
    add_records(draft)
    _groups(draft)
    _schemas(draft)
    rewrite_changed(draft)
    _tell_not_supported(draft)
    tell_what_differs(draft)
    draft.tell_answers(replicator_answer)


def _topics(draft: LinkDraft) -> None:
    """Take names of the lists, and all that the expression matches; without both, none."""
    names = draft.given.get("topic.whitelist")
    include = [] if names is None else _listed(draft, names, "topics.include")
    regex = draft.given.get("topic.regex")
    if regex is not None and regex.value:
        patterns = patterns_in([regex.value], regex.origin.name)
        dotted = (
            "; its dots now match only dots, not any character" if named_with_dots(patterns) else ""
        )
        draft.ledger.used(regex, f"topics.include{dotted}")
        include += patterns
    draft.put("topics", "include", list(dict.fromkeys(include)))
    others = draft.given.get("topic.blacklist")
    exclude = [] if others is None else _listed(draft, others, "topics.exclude")
    draft.put("topics", "exclude", exclude)
    never = [entry for entry in include if _is_never_mirrored(entry) and entry not in NEVER_COPIED]
    if names is not None and never:
        draft.ledger.differs(
            f"{draft.flow.name} copied {', '.join(never)}; a link never mirrors such topics"
        )


def _listed(draft: LinkDraft, setting: Setting, key: str) -> list[str]:
    draft.ledger.used(setting, key)
    return [entry if is_plain_name(entry) else re.escape(entry) for entry in setting.entries()]


def _is_never_mirrored(entry: str) -> bool:
    return is_plain_name(entry) and any(
        compile_pattern(pattern).fullmatch(entry) for pattern in BUILT_IN_EXCLUDE
    )


def _naming(draft: LinkDraft, naming: str | None) -> None:
    setting = draft.given.get("topic.rename.format")
    text = naming or (SAME if setting is None else setting.value.strip())
    if SAME not in text:
        raise ConfigError(
            f"topic.rename.format of {draft.flow.name} gives all topics one name (got {text!r})",
            hint="a mirror has one source topic; give a format: --naming 'copy.${topic}'",
        )
    prefix = text.removesuffix(SAME)
    if text == SAME:
        draft.put("topics", "naming", "same")
    elif naming is None and prefix + SAME == text and "${" not in prefix:
        draft.put("topics", "naming", {"prefix": prefix})
    else:
        draft.put("topics", "naming", {"format": text})
    if setting is not None:
        draft.ledger.used(setting, "topics.naming")


def _topic_settings(draft: LinkDraft) -> None:
    reset = draft.given.get("source.consumer.auto.offset.reset")
    if reset is not None:
        draft.put("topics", "start", "latest" if reset.value.strip() == "latest" else "earliest")
        draft.ledger.used(reset, "topics.start")
    _group_start(draft, reset)
    factor = "dest.topic.replication.factor"  # 0 is the source's
    draft.take(factor, "topics", "replication_factor", draft.replicas)
    draft.take("topic.config.sync", "topics", "sync_configs")
    names = ("topic.poll.interval.ms", "topic.config.sync.interval.ms")
    given = [draft.given[name] for name in names if name in draft.given]
    if given:
        limits = (REFRESH_S[0] * 1000, REFRESH_S[1] * 1000)
        seconds = min(draft.number(setting, limits) for setting in given) / 1000
        draft.put("topics", "refresh_interval_s", int(seconds) if seconds >= 1 else seconds)
        for setting in given:
            draft.ledger.used(setting, "topics.refresh_interval_s, the shortest one for all")


def _group_start(draft: LinkDraft, reset: Setting | None) -> None:
    """Begin where its consumer group stands, which has the connector's name unless it has its own.

    By default it begins at Connect's offsets, if there are some.
    """
    setting = draft.given.get("offset.start")
    if setting is None or setting.value.strip().lower() != "consumer":
        return
    name = draft.flow.name
    group = draft.given.get("source.consumer.group.id") or draft.given.get("name")
    if group is None or not group.value.strip():
        draft.ledger.unsupported(
            setting,
            "its consumer group is not known",
            f"{name}: offset.start=consumer: it began at the offsets of its consumer group, which "
            "has the connector's name; set topics.start: {group: NAME}",
        )
        return
    draft.put("topics", "start", {"group": group.value.strip()})
    draft.ledger.used(setting, "topics.start")
    draft.ledger.used(group, "topics.start")
    if reset is not None and reset.value.strip() == "latest":
        draft.ledger.differs(
            f"{name}: where its consumer group has committed nothing it began at the log's end; a "
            "link begins at the beginning there"
        )


def _groups(draft: LinkDraft) -> None:
    """Publish groups' offsets if translating them was asked for; its default needs interceptors."""
    tasks = draft.given.get("offset.translator.tasks.max")
    count = -1 if tasks is None else int(draft.number(tasks, (-1, 32_767)))
    if tasks is not None and count > 0:
        draft.put("groups", "sync", True)
        draft.ledger.used(tasks, "groups.sync")
    elif count < 0:
        draft.ledger.must_do(
            f"set groups.sync of link {draft.flow.name} if consumers had Replicator's "
            "ConsumerTimestampsInterceptor: a link translates the offsets of all groups that "
            "groups.include selects, and needs no interceptor"
        )


def _schemas(draft: LinkDraft) -> None:
    target = add_converters(draft, CONVERTERS, draft.flow.target)
    source = add_converters(draft, [f"src.{name}" for name in CONVERTERS], draft.flow.source)
    url = draft.given.get("schema.registry.url")
    if url is not None:
        add_registry(draft, draft.flow.target, url, "schema.registry.client.")
    setting = draft.given.get("schema.registry.topic")
    names = [] if setting is None else [setting.value.strip()]
    lists = [draft.given[n] for n in ("topic.whitelist", "topic.regex") if n in draft.given]
    topic = take_registry_topic(draft, lists, names)
    if setting is not None and topic in names:
        draft.ledger.used(setting, f"clusters.{draft.flow.source.key}.schema_registry.topic")
    elif setting is not None:
        draft.ledger.without(setting, "its topics don't include it, so it translated no schemas")
    if topic is not None:
        mirror_schemas(draft, topic)
        if topic not in names:
            tell_raw_copy(draft, topic)
    elif source and target:
        mirror_schemas(draft, None)
    _translator(draft)


def _translator(draft: LinkDraft) -> None:
    """Without a translator subjects keep their names, though topics are renamed."""
    setting = draft.given.get("schema.subject.translator.class")
    mirrors = "schemas" in draft.parts
    if setting is None:
        if mirrors and draft.parts["topics"]["naming"] != "same":
            draft.put("schemas", "keep_names", True)
        return
    name = setting.value.strip().rpartition(".")[2]
    if name != DEFAULT_TRANSLATOR:
        draft.ledger.unsupported(
            setting,
            "a link can't use Java classes",
            f"{draft.flow.name}: schema.subject.translator.class {name} named subjects; a link "
            "renames them with their topics",
        )
    elif mirrors:
        draft.ledger.used(setting, "schemas.strategy: subjects are renamed with their topics")
    else:
        draft.ledger.without(setting, "its topics include no registry's, so it had no subjects")


def _tell_not_supported(draft: LinkDraft) -> None:
    name = draft.flow.name
    for key, value, difference in (
        (
            "topic.auto.create",
            "false",
            "topics that the target lacked were not created; a link does",
        ),
        (
            "topic.preserve.partitions",
            "false",
            "records were spread over the target's partitions; a link keeps each in its own",
        ),
        ("topic.timestamp.type", "logappendtime", "mirrors had LogAppendTime; a link's don't"),
    ):
        setting = draft.given.get(key)
        if setting is not None and setting.value.strip().lower() == value:
            text = f"a link can't do that ({setting.value.strip()})"
            draft.ledger.unsupported(setting, text, f"{name}: {key}={setting.value}: {difference}")
    overrides = draft.given.get("provenance.header.filter.overrides")
    if overrides is not None and overrides.value.strip():
        draft.ledger.unsupported(
            overrides,
            "records have no headers of where they came from",
            f"{name}: provenance.header.filter.overrides let some records return to where they "
            "came from; a link copies no mirror back",
        )
    elif overrides is not None:
        draft.ledger.without(overrides, "it is empty")
