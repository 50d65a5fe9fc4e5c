"""Log lines for partitions that stop or are retried, each alarm of a link, and their ends.

Without a terminal nobody sees the live view: the start and the end of each problem are logged once,
in one line for all partitions of a topic that have the same. What is retried with one code is one
line for all topics, as is its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliostat.names import LinkName
from heliostat.ops.events import NOTHING, Events, Subject
from heliostat.status.alarms import Alarm, Alarms
from heliostat.status.values import PartitionProblem, state_words

LISTED_MAX = 20
"""Most lines about partitions per look; a broker that fails affects thousands."""
SETTLES_WITHIN_MS = 2_000
"""A retried partition is logged only after this time: leaders move."""
DELETED = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"})
DELETED_WITHIN_MS = 30_000
"""A deleted topic is not said to be retried for so long: a reconciliation says that it is gone."""
HELD_MS = 3_000
"""Retries are over if no partition was seen retried for so long: others follow the first."""
RETRYING = "retrying"
TOPICS_MAX = 3
"""Most topics named in one line."""
NUMBERS_MAX = 12
"""Most partitions of a topic named in one line."""
_Key = tuple[str, int]
_What = tuple[str, str]
Say = Callable[[str, Subject], None]


@dataclass(slots=True)
class Retry:
    """Partitions that are retried for one reason."""

    since_ms: int
    last_ms: int = 0
    """When any of them was seen to be last."""
    keys: set[_Key] = field(default_factory=set)


class Changes:
    """The problems of a link as last logged.

    Parameters
    ----------
    link
        Name of the link.
    events
        Sink of the lines.
    """

    def __init__(self, link: LinkName, events: Events) -> None:
        self._link = link
        self._events = events
        self._problems: dict[_Key, tuple[_What, int]] = {}
        """State and code as last logged, and their start (wall ms), by partition."""
        self._retries: dict[str, Retry] = {}
        """What is retried now, by code."""
        self._alarms: dict[str, Alarm] = {}

    def look(self, problems: Sequence[PartitionProblem], now_ms: int) -> None:
        """Log what has changed about partitions; cheap if nothing has."""
        now = {
            (item.source, item.partition): item
            for item in problems
            if item.state != RETRYING or now_ms - item.since_ms >= _settles_within_ms(item)
        }
        still = {(item.source, item.partition) for item in problems}
        retried = {key: item for key, item in now.items() if item.state == RETRYING}
        worse = [
            item
            for key, item in now.items()
            if key not in retried
            and (key not in self._problems or self._problems[key][0] != _what(item))
        ]
        for key in retried:
            self._problems.pop(key, None)
        over = [key for key in self._problems if key not in still]
        for item in worse:
            # If no lane has checked it since the driver started, the start is unknown.
            since_ms = item.since_ms if item.since_ms > 0 else now_ms
            self._problems[item.source, item.partition] = (_what(item), since_ms)
        texts = {(item.source, item.partition): (_words(item), item.code) for item in worse}
        self._tell(texts, "partitions are not copied as they should be", self._warn)
        ended: dict[_Key, tuple[str, str]] = {}
        for key in over:
            (state, code), since_ms = self._problems.pop(key)
            lasted_s = max(0, now_ms - since_ms) / 1000
            ended[key] = f"no longer {state_words(state)} [{code}], after {lasted_s:.0f} s", code
        self._tell(ended, "partitions are copied again", self._info)
        self._look_at_retries(retried, now_ms)

    def _look_at_retries(self, retried: Mapping[_Key, PartitionProblem], now_ms: int) -> None:
        """Log what is retried: a line for each code when the first partitions are, and are over.

        A broker that is away is one fact, whatever each of its partitions says of it, and whichever
        follow it later.
        """
        by_code: dict[str, dict[_Key, PartitionProblem]] = {}
        for key, item in retried.items():
            by_code.setdefault(item.code, {})[key] = item
        for code, items in by_code.items():
            first = next(iter(items.values()))
            retry = self._retries.get(code)
            if retry is None:
                retry = self._retries[code] = Retry(first.since_ms)
                text = f"{_named(_by_topic(items))} {_words(first)}"
                self._warn(text, _about(items, code))
            retry.last_ms = now_ms
            retry.keys.update(items)
        for code, retry in list(self._retries.items()):
            if now_ms - retry.last_ms >= HELD_MS:
                lasted_s = max(0, retry.last_ms - retry.since_ms) / 1000
                words = f"no longer {RETRYING} [{code}], after {lasted_s:.0f} s"
                text = f"{_named(_by_topic(retry.keys))} {words}"
                self._info(text, _about(retry.keys, code))
                del self._retries[code]

    def _tell(self, texts: Mapping[_Key, tuple[str, str]], words: str, say: Say) -> None:
        """Log what is told of partitions, text and code: a line for each topic and text."""
        alike: dict[tuple[str, str, str], list[int]] = {}
        for (topic, partition), (text, code) in texts.items():
            alike.setdefault((topic, text, code), []).append(partition)
        lines = list(alike.items())
        for (topic, text, code), numbers in lines[:LISTED_MAX]:
            about = _about([(topic, number) for number in numbers], code)
            say(f"{_named({topic: numbers})} {text}", about)
        if left := sum(len(partitions) for _, partitions in lines[LISTED_MAX:]):
            self._warn(f"and {left} more {words}: see `heliostat status`")

    def consume(self, alarms: Alarms | None) -> None:
        """Log new and ended alarms; None: the link does not run, so nothing is known of them."""
        if alarms is None:
            return
        for key in alarms.by_key.keys() - self._alarms.keys():
            self._warn(alarms.by_key[key].text)
        for key in self._alarms.keys() - alarms.by_key.keys():
            self._info(alarms.end_of(self._alarms[key]))
        self._alarms = dict(alarms.by_key)

    def _warn(self, text: str, about: Subject = NOTHING) -> None:
        self._events.warn(f"link {self._link}: {text}", about)

    def _info(self, text: str, about: Subject = NOTHING) -> None:
        self._events.info(f"link {self._link}: {text}", about)


def _about(keys: Collection[_Key], code: str) -> Subject:
    """Return what a line about partitions is about: their topic, and the partition if it is one."""
    topics = {topic for topic, _ in keys}
    topic = next(iter(topics)) if len(topics) == 1 else ""
    partition = next(iter(keys))[1] if len(keys) == 1 else None
    return Subject(topic=topic, partition=partition, code=code)


def _what(item: PartitionProblem) -> _What:
    return item.state, item.code


def _words(item: PartitionProblem) -> str:
    reason = item.reason.replace(f"[{item.code}] ", "", 1)
    return f"{state_words(item.state)} [{item.code}]: {reason}"


def _by_topic(keys: Iterable[_Key]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in keys:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _settles_within_ms(item: PartitionProblem) -> int:
    return DELETED_WITHIN_MS if item.code in DELETED else SETTLES_WITHIN_MS


def _named(topics: Mapping[str, Sequence[int]]) -> str:
    """Return partitions of one topic, or of the first of several, with the verb."""
    shown = [f"{topic}-{_numbers(sorted(topics[topic]))}" for topic in list(topics)[:TOPICS_MAX]]
    left = len(topics) - len(shown)
    more = f" and {left} more topics" if left else ""
    are = "is" if len(topics) == len(topics[next(iter(topics))]) == 1 else "are"
    return f"{'; '.join(shown)}{more} {are}"


def _numbers(partitions: Sequence[int]) -> str:
    named = ", ".join(map(str, partitions[:NUMBERS_MAX]))
    left = len(partitions) - NUMBERS_MAX
    return f"{named} and {left} more" if left > 0 else named
