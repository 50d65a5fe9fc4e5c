"""The names of a source's subjects at the target, which follow those of topics.

Three rules of Confluent's clients name a subject: after the topic (`TopicNameStrategy`: `foo-key`,
`foo-value`), after the record (`RecordNameStrategy`: `lsst.sal.Foo`), or after both
(`TopicRecordNameStrategy`: `foo-lsst.sal.Foo`). A consumer of a renamed mirror derives the subject
from the new topic, but a record keeps its name: so only what is named after a topic is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from heliostat.names import TopicName
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Context,
    Subject,
    join_subject,
    split_subject,
)

_AFTER_TOPIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
"""What stands behind a topic and a hyphen: `key`, `value` or a record's full name. None has one."""


def named_after(subject: Subject) -> TopicName | None:
    """The topic that a subject is named after, if there is such a topic."""
    topic, _, rest = split_subject(subject)[1].rpartition("-")
    return TopicName(topic) if topic and _AFTER_TOPIC.fullmatch(rest) else None


@dataclass(frozen=True, slots=True)
class SubjectNaming:
    """How a link names subjects.

    Parameters
    ----------
    topics
        Mirrors by their source topics.
    context
        The context at the target.
    keeps_original
        Whether what is renamed is also there under its own name: some clients derive a subject from
        what is in the record, as EfdClient does.
    """

    topics: Mapping[TopicName, TopicName] = field(default_factory=dict)
    context: Context = DEFAULT_CONTEXT
    keeps_original: bool = False

    def topic_of(self, subject: Subject) -> TopicName | None:
        """The mirrored source topic that a subject is named after, if any."""
        topic = named_after(subject)
        return topic if topic in self.topics else None

    def names(self, subject: Subject) -> tuple[Subject, ...]:
        """The subject's names at the target, at least one."""
        _, name = split_subject(subject)
        topic = self.topic_of(subject)
        renamed = name if topic is None else self.topics[topic] + name[len(topic) :]
        names = dict.fromkeys([renamed, name] if self.keeps_original else [renamed])
        return tuple(join_subject(self.context, target_name) for target_name in names)
