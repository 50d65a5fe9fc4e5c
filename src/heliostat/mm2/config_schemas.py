"""A link's `schemas` section: registries' own topics, and converters that ask a registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heliostat.config import compile_pattern, is_plain_name
from heliostat.mm2.config_draft import LinkDraft
from heliostat.mm2.config_registry import add_registry
from heliostat.mm2.config_values import Client, Setting

REGISTRY_TOPICS = ("_schemas", "registry-schemas")
"""Confluent's default, and what Strimzi's users take: no Kubernetes name begins with `_`."""
SCHEMA_CONVERTERS = frozenset({"AvroConverter", "ProtobufConverter", "JsonSchemaConverter"})
URL = "schema.registry.url"
CONVERTERS = ("value.converter", "key.converter")


def add_schemas(draft: LinkDraft) -> None:
    """Mirror schemas if a flow of MirrorMaker 2 copied them as a topic; note known registries."""
    add_converters(draft, CONVERTERS, draft.flow.target)
    setting = draft.given.get("topics")
    topic = take_registry_topic(draft, [] if setting is None else [setting])
    if topic is not None:
        mirror_schemas(draft, topic)
        tell_raw_copy(draft, topic)


def take_registry_topic(
    draft: LinkDraft, settings: Iterable[Setting], registry_topics: Collection[str] = ()
) -> str | None:
    """Take registries' topics out of a link's topics: a live registry writes its topic itself.

    Parameters
    ----------
    draft
        The link, with its topics.
    settings
        Properties that the topics are from.
    registry_topics
        Topics that are known to be such; others are recognised by their usual names.

    Returns
    -------
    str | None
        The topic that is known or that the topics name; None if there is none.
    """
    topics = draft.parts["topics"]
    names = dict.fromkeys([*registry_topics, *REGISTRY_TOPICS])
    selected = [name for name in names if _selects(topics, name)]
    named = [
        n for n in selected if n in registry_topics or any(_names(e, n) for e in topics["include"])
    ]
    keeps_names = topics["naming"] == "same"
    out = selected if keeps_names else named
    topics["include"] = [entry for entry in topics["include"] if entry not in out]
    topics["exclude"] += [name for name in out if _selects(topics, name)]
    for name in named:
        for setting in settings:
            if name in setting.value.replace("\\", ""):
                draft.ledger.used(
                    setting, f"schemas.strategy, for {name}: schemas are mirrored, not that topic"
                )
    if out and not named:
        sides = f"{draft.flow.source.key} and {draft.flow.target.key}"
        draft.ledger.must_do(
            f"link {draft.flow.name} leaves out {' and '.join(out)}, which its topics match: a "
            f"schema registry writes its topic itself. If {sides} have one each, add "
            "schema_registry to both and schemas: {strategy: preserve} to the link"
        )
    return named[0] if named else None


def mirror_schemas(draft: LinkDraft, topic: str | None) -> None:
    """Let the link mirror schemas.

    Parameters
    ----------
    draft
        The link.
    topic
        The topic of the source's registry; None if it is not known.
    """
    draft.put("schemas", "strategy", "preserve")
    topics = draft.parts["topics"]
    for client in (draft.flow.source, draft.flow.target):
        section = draft.registries.setdefault(client.key, {})
        is_same = client is draft.flow.source or topics["naming"] == "same"
        if topic not in (None, REGISTRY_TOPICS[0]) and is_same:
            section["topic"] = topic
    if not topics["include"]:
        draft.ledger.differs(
            f"{draft.flow.name} copied all schemas and no other topic; a link mirrors the schemas "
            "of its topics: add them to topics.include"
        )


def tell_raw_copy(draft: LinkDraft, topic: str) -> None:
    """Note that the copy of a registry's topic under another name is not written any more."""
    if draft.parts["topics"]["naming"] != "same":
        draft.ledger.differs(
            f"{draft.flow.name} copied {topic} under another name, which a registry may read; a "
            f"link writes into {draft.flow.target.key}'s registry, with subjects renamed as topics"
        )


def add_converters(draft: LinkDraft, converters: Iterable[str], cluster: Client) -> bool:
    """Note the registry that converters ask; return whether one encodes records by its schemas.

    Parameters
    ----------
    draft
        The link.
    converters
        Names of the properties that name converters.
    cluster
        The cluster whose records they read or write.
    """
    asks = False
    for name in converters:
        setting = draft.given.get(name) or draft.given.get(f"worker.{name}")
        kind = "" if setting is None else setting.value.strip().rpartition(".")[2]
        beginnings = (f"{name}.", f"worker.{name}.")
        beginning = next((b for b in beginnings if f"{b}{URL}" in draft.given), "")
        url = draft.given.get(f"{beginning}{URL}") if beginning else None
        if setting is not None and kind in SCHEMA_CONVERTERS:
            asks = True
            draft.ledger.unsupported(
                setting,
                "batches cross with their bytes, and with the schema ids in them",
                f"{draft.flow.name}: {name} {kind} converted records; a link copies them as they "
                "are, and with schemas.strategy their ids as well",
            )
            if url is not None:
                add_registry(draft, cluster, url, beginning)
        elif url is not None:
            draft.ledger.without(url, "this converter asks no registry")
            draft.ledger.must_do(
                f"{url.origin.name} names a schema registry, but not whose it is: if "
                f"{draft.flow.source.key} or {draft.flow.target.key} uses it, set schema_registry "
                "there"
            )
    return asks


def _selects(topics: dict[str, list[str]], name: str) -> bool:
    def matches(key: str) -> bool:
        return any(compile_pattern(pattern).fullmatch(name) for pattern in topics[key])

    return matches("include") and not matches("exclude")


def _names(entry: str, name: str) -> bool:
    """Whether an entry means this name, also as a part of an expression."""
    if is_plain_name(entry):
        return entry == name
    is_written = name in entry.replace("\\", "")
    return is_written and compile_pattern(entry).fullmatch(name) is not None
