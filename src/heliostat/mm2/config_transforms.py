"""Chains of transformations, which become pipelines, and the naming where they route topics.

A predicate that looks at names of topics decides which topics go through a pipeline: each set of
them that is treated alike gets one. Others decide for each record, which only filters can here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from heliostat.config import compile_pattern, is_plain_name
from heliostat.errors import ConfigError
from heliostat.mm2.config_draft import LinkDraft
from heliostat.mm2.config_patterns import patterns_in
from heliostat.mm2.config_transform_avro import WHY_NOT_JOINED, avro_steps, joined
from heliostat.mm2.config_transform_steps import (
    NotCarried,
    Options,
    Step,
    Transform,
    steps_of,
    transform_of,
)
from heliostat.mm2.config_values import Fate, Setting

TOPIC = "${topic}"
NAME = "transforms"
NO_HEARTBEATS = "(?!.*heartbeats$)"
"""Heartbeats are no records of applications."""
_PATTERNS_MAX = 3
"""Of names: more would give too many pipelines."""
_PREDICATES = "org.apache.kafka.connect.transforms.predicates."
_ANY = (".*", ".+", "")
_ROUTED = re.compile(r"\^?(?P<before>[^()]*)\((?P<any>\.\*|\.\+)\)(?P<after>[^()]*?)\$?")


class OnTopics(NamedTuple):
    """That topics are named so, or that they are not."""

    pattern: str
    is_negated: bool


class Conditional(NamedTuple):
    """A step, and which topics' records it is done to; None: all."""

    step: Step
    topics: OnTopics | None


def add_transforms(draft: LinkDraft) -> None:
    """Fill in a link's pipelines, and tell what of the chain is not carried over."""
    chain = draft.given.get("transforms")
    names = [] if chain is None else chain.entries()
    prefixes = {f"transforms.{name}." for name in names}
    for key, setting in draft.given.items():
        if key.startswith("transforms.") and not any(key.startswith(own) for own in prefixes):
            draft.ledger.without(setting, "transforms does not name it")
    if chain is None or not names:
        return
    made = _Chain(draft)
    for name in names:
        own = _options(draft, f"transforms.{name}.")
        try:
            made.add(name, {key: setting.value for key, setting in own.items()})
        except NotCarried as error:
            text = f"{draft.flow.name}: transform {name} is not carried over: {error}"
            for setting in own.values():
                draft.ledger.unsupported(setting, f"not carried over: {error}", text)
            if not own:
                draft.ledger.differs(text)
            continue
        for setting in own.values():
            draft.ledger.used(setting, made.told)
    if made.told:
        draft.ledger.used(chain, "pipelines")
    else:
        draft.ledger.tell(chain.origin, Fate.NOT_SUPPORTED, "nothing of it is carried over")
    for key, setting in draft.given.items():
        if key == "predicates" or key.startswith("predicates."):
            draft.ledger.used(setting, "pipelines")
    draft.pipelines = list(_pipelines(made.steps, made.beginning))


def _options(draft: LinkDraft, beginning: str) -> dict[str, Setting]:
    return {
        key.removeprefix(beginning): setting
        for key, setting in draft.given.items()
        if key.startswith(beginning)
    }


class _Chain:
    """A chain while it is read."""

    def __init__(self, draft: LinkDraft) -> None:
        self._draft = draft
        self._is_routed = False
        self.steps: list[Conditional] = []
        self.told = ""
        """What became of the last transformation."""
        self.beginning = "" if draft.flow.is_replicator else NO_HEARTBEATS

    def add(self, name: str, options: Options) -> None:
        """Add a transformation.

        Raises
        ------
        NotCarried
            No step does the same.
        """
        transform = transform_of(options)
        predicate = options.get("predicate", "").strip()
        is_negated = options.get("negate", "").strip().lower() == "true"
        test = self._test(predicate)
        topics = None
        if test.get("type") == "TopicNameMatches":
            topics = OnTopics(self._on_source(test["pattern"]), is_negated)
        if transform.kind == "Filter":
            self._filter(test, topics, is_negated=is_negated)
        elif transform.kind == "RegexRouter":
            self._route(transform, has_predicate=bool(test))
        elif transform.kind == "TimestampRouter":
            raise NotCarried(
                "mirrors named by time take a link for each period (docs/pipelines.md)"
            )
        elif transform.kind == "SetSchemaMetadata":
            self.told = "nothing: bytes and JSON without a schema have no such name"
        else:
            if (
                test
                and topics is None
                and not _is_for_values(transform, test, is_negated=is_negated)
            ):
                raise NotCarried(f"{test['type']} decides for each record, which only Filter can")
            naming = "" if self._is_routed else self._draft.naming_format
            is_avro = self._is_avro(transform)
            own = steps_of(transform, naming)
            own = avro_steps(own) if is_avro else own
            if is_avro:
                self._add_avro(own, topics)
            else:
                self.steps += [Conditional(step, topics) for step in own]
            self.told = f"pipelines, {', '.join(next(iter(step)) for step in own)}"
            if not is_avro:
                self._tell_bytes(name, transform)

    def _add_avro(self, own: Sequence[Step], topics: OnTopics | None) -> None:
        """Add steps for Avro fields: a column has one, so that what comes later joins it."""
        steps = list(self.steps)
        for step in own:
            for place, (before, of) in enumerate(steps):
                whole = joined(before, step) if "avro_fields" in before else None
                if whole is None:
                    continue
                if of != topics:
                    raise NotCarried(f"{WHY_NOT_JOINED} another predicate decided before")
                if "to_headers" in step["avro_fields"] and place < len(steps) - 1:
                    raise NotCarried(f"{WHY_NOT_JOINED} headers were changed meanwhile")
                steps[place] = Conditional(whole, topics)
                break
            else:
                steps.append(Conditional(step, topics))
        self.steps = steps

    def _test(self, predicate: str) -> Mapping[str, str]:
        """Return a predicate's properties, its class without package."""
        if not predicate:
            return {}
        own = _options(self._draft, f"predicates.{predicate}.")
        properties = {key: setting.value.strip() for key, setting in own.items()}
        kind = properties.get("type", "")
        names = ("TopicNameMatches", "RecordIsTombstone", "HasHeaderKey")
        if kind.removeprefix(_PREDICATES) not in names:
            raise NotCarried(f"its predicate {kind or predicate} is none of Kafka's own")
        return properties | {"type": kind.removeprefix(_PREDICATES)}

    def _filter(
        self, test: Mapping[str, str], topics: OnTopics | None, *, is_negated: bool
    ) -> None:
        match test.get("type"):
            case "RecordIsTombstone":
                step: Step = {"where": "value IS NULL"} if is_negated else {"drop_tombstones": True}
            case "HasHeaderKey":
                which = "keep_with_header" if is_negated else "drop_with_header"
                step = {which: {"name": test.get("name", "")}}
            case "TopicNameMatches":
                step = {"where": "false"}
            case _:
                raise NotCarried("a Filter without a predicate leaves nothing")
        self.steps.append(Conditional(step, topics))
        self.told = f"pipelines, {next(iter(step))}"

    def _route(self, transform: Transform, *, has_predicate: bool) -> None:
        regex, replacement = (transform.options.get(k, "") for k in ("regex", "replacement"))
        routed = None if has_predicate else _routed(self._draft.naming_format, regex, replacement)
        if routed is None:
            raise NotCarried(
                "topics.naming is one format with ${topic} for all topics of a link, without "
                "groups of a regular expression; give topics that are named otherwise a link each"
            )
        self._draft.put("topics", "naming", "same" if routed == TOPIC else {"format": routed})
        self._is_routed = True
        self.told = "topics.naming"

    def _on_source(self, pattern: str) -> str:
        """Return an expression of source names for one of mirrors' names, at which Kafka looks."""
        if self._is_routed:
            raise NotCarried("TopicNameMatches looks at a name that a router has given")
        try:
            (ours,) = patterns_in([pattern], "TopicNameMatches")
        except ConfigError as error:
            raise NotCarried(f"its pattern: {'; '.join(error.problems)}") from None
        return _without_naming(ours, self._draft.naming_format)

    def _is_avro(self, transform: Transform) -> bool:
        """Whether what it changes is Avro; otherwise it is JSON without a schema, or can be."""
        if not transform.changes_fields:
            return False
        name = f"src.{transform.column or 'value'}.converter"
        setting = self._draft.given.get(name)
        kind = "" if setting is None else setting.value.strip().rpartition(".")[2]
        schemas = self._draft.given.get(f"{name}.schemas.enable")
        if kind in {"", "ByteArrayConverter"}:
            return False
        if kind == "AvroConverter":
            return True
        if kind != "JsonConverter":
            raise NotCarried(f"{name} is {kind}; steps change JSON and Avro records")
        if schemas is None or schemas.is_true:
            raise NotCarried(f"{name} has schemas.enable: JSON with its schema beside it")
        return False

    def _tell_bytes(self, name: str, transform: Transform) -> None:
        """Tell that a transformation can't have worked where it gets bytes."""
        given = self._draft.given.get(f"src.{transform.column or 'value'}.converter")
        if transform.changes_fields and (given is None or "Json" not in given.value):
            self._draft.ledger.differs(
                f"{self._draft.flow.name}: transform {name} got bytes, at which Kafka's fails; its "
                "step takes them for JSON objects"
            )


def _is_for_values(transform: Transform, test: Mapping[str, str], *, is_negated: bool) -> bool:
    """Whether it is for all records but tombstones, which its step leaves alone in any case."""
    is_not_tombstone = test["type"] == "RecordIsTombstone" and is_negated
    return is_not_tombstone and transform.changes_fields and transform.column != "key"


def _routed(naming: str, regex: str, replacement: str) -> str | None:
    """Return the format of names after a router; None: it is no format."""
    match = _ROUTED.fullmatch(regex)
    if match is None or replacement.count("$") != 1 or "$1" not in replacement:
        return None
    before, after = naming.split(TOPIC, 1)
    start = _end_of(match["before"], before)
    # From the end backwards there is nothing to choose only if it stands for itself.
    stop = match["after"].replace("\\", "")
    is_plain = re.fullmatch(r"(?:\\.|[\w-])*", match["after"]) is not None
    if start is None or not is_plain or not after.endswith(stop):
        return None
    kept = before[start:] + TOPIC + after[: len(after) - len(stop)]
    return replacement.replace("$1", kept)


def _end_of(expression: str, text: str) -> int | None:
    """Return where an expression without choices ends at the beginning of a text."""
    if re.search(r"(?<!\\)[*+?{|\[]", expression):
        return None
    try:
        match = re.match(expression, text)
    except re.error:
        return None
    return None if match is None else match.end()


def _without_naming(pattern: str, naming: str) -> str:
    """Return what a pattern of mirrors' names asks of source names.

    Raises
    ------
    NotCarried
        It can't be said.
    """
    before, after = naming.split(TOPIC, 1)
    if pattern in _ANY or not before + after:
        return pattern
    text = re.escape(pattern) if is_plain_name(pattern) else pattern
    if not after:
        for size in range(len(text)):  # a part at its beginning that is the prefix and no more
            head, rest = text[:size], text[size:]
            is_prefix = "|" not in text and _end_of(head, before) == len(before)
            if is_prefix and rest[:1] not in "*+?{":
                return rest.replace(r"\-", "-") if is_plain_name(pattern) else rest
        rest = text.removeprefix(".*")
        if rest != text and re.match(r"[A-Za-z0-9]", rest) and rest[0] not in before:
            return text
    raise NotCarried(f"TopicNameMatches asks of mirrors' names what {naming} does not keep apart")


def _pipelines(steps: Sequence[Conditional], beginning: str) -> Iterator[dict[str, Any]]:
    """Yield a pipeline for each set of topics that are treated alike."""
    patterns = list(dict.fromkeys(own.topics.pattern for own in steps if own.topics is not None))
    if len(patterns) > _PATTERNS_MAX:
        raise ConfigError(
            f"transforms look at {len(patterns)} patterns of topics' names",
            hint="give these topics links of their own, each with its part of the chain",
        )
    number = 0
    for matches in product((True, False), repeat=len(patterns)):
        named = dict(zip(patterns, matches, strict=True))
        own = [
            step
            for step, topics in steps
            if topics is None or named[topics.pattern] is not topics.is_negated
        ]
        if own:
            number += 1
            name = NAME if not patterns else f"{NAME}-{number}"
            yield {"name": name, "topics": [_expression(named, beginning)], "steps": own}


def _expression(named: Mapping[str, bool], beginning: str) -> str:
    """Return an expression of the topics that match these patterns, and don't match those."""
    if list(named.values()) == [True] and is_plain_name(next(iter(named))):
        return next(iter(named))
    looks = (
        f"(?{'=' if is_so else '!'}(?:{compile_pattern(pattern).pattern})$)"
        for pattern, is_so in named.items()
    )
    return beginning + "".join(looks) + ".*"
