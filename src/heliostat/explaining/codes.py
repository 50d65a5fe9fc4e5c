"""What each code means, and what to do about it: hints of errors where they have one; pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from heliostat.errors import HeliostatError, Verdict, kafka_error
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause
from heliostat.kafka_error_names import KAFKA_ERROR_NAMES
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.lane import PartitionCode
from heliostat.topics.topic_plan import RefusalCode

DECIDE = "decide with heliostat resolve, which shows in numbers what each choice does"
_BY_ITSELF = "nothing needs to be done: it is tried again; if it lasts, the reason says where"
_BY_VERDICT = {
    Verdict.RETRY: _BY_ITSELF,
    Verdict.HALT: "put right what the reason names; the partition stays as it is until then",
    Verdict.SET_ASIDE: "it is left out and told again at each look; what else there is goes on",
}
_OTHER_PRODUCER = f"revoke the Write permission of who else writes into the mirror; then {DECIDE}"
_REBUILD = "take the mirror back with heliostat state rebuild"
_OWN_RECORD = f"{DECIDE}; a rule of error_policies does the same for later records"

_OF_PARTITIONS: dict[str, tuple[str, str]] = {
    PartitionCode.TAIL_UNREAD: (
        "who wrote the mirror's last record can't be read at the moment",
        f"{_BY_ITSELF}; the target's replicas, mostly",
    ),
    PartitionCode.OFFSETS_GO_BACK: (
        "it was decided to copy earlier offsets again, and offsets are to stay equal",
        "delete the mirror, so that it is copied again, or set topics.offsets: auto",
    ),
    PartitionCode.MARKERS_MISSING: (
        "the mirror does not end where markers for a hole should have brought it",
        _BY_ITSELF,
    ),
    PartitionCode.LEASE_ENDED: (
        "its lane has no answers from the driver, and may not send",
        "nothing, if the driver is back within seconds; else see where it runs, and start it",
    ),
    PartitionCode.SCHEMA_UNREADABLE: (
        "schemas of its next records can't be read at the target's registry",
        "heliostat schemas status says why; it goes on by itself once they can be read",
    ),
    StopReason.HOLE_TOO_LARGE.name: (
        "the source has a larger hole than is filled to keep offsets equal",
        "set topics.offsets: auto and delete the mirror: it is copied again, with a map",
    ),
    StopReason.CORRUPT.name: (
        "",
        f"check the source's disks, another replica may have it intact; else {DECIDE}",
    ),
    StopReason.TOO_LARGE.name: (
        "",
        f"raise max.message.bytes of the target topic, and it goes on; or {_OWN_RECORD}",
    ),
    StopReason.RECORD_REFUSED.name: ("", _OWN_RECORD),
    StopReason.TRANSFORM_FAILED.name: (
        "",
        f"heliostat try shows it; change the pipeline and restart the link, or {_OWN_RECORD}",
    ),
    PartitionCode.SOURCE_OVERTOOK: ("", f"raise retention at the source, and {DECIDE}"),
    PartitionCode.TARGET_TRUNCATED: ("", f"check the target's disks, and {DECIDE}"),
    PartitionCode.PRODUCERS_LOST: (
        "rows that tell links' producers from the site's own are gone at the source",
        "docs/merge.md says how to merge the topic anew",
    ),
    PartitionCode.FOREIGN_TAIL: (
        "",
        f"{_REBUILD}, if the reason names a former producer id; else {_OTHER_PRODUCER}",
    ),
    PartitionCode.APPENDED_ELSEWHERE: ("", _OTHER_PRODUCER),
    PartitionCode.TARGET_REFUSES_SEQUENCE: ("", _OTHER_PRODUCER),
    "INVALID_PRODUCER_EPOCH": ("", _OTHER_PRODUCER),
}
"""Meaning, where neither a cause nor an error has one, and what to do."""

_OF_TOPICS: dict[str, tuple[str, str]] = {
    RefusalCode.INTERNAL: (
        "it is an internal topic of the source's brokers",
        "nothing: such topics are never mirrored",
    ),
    RefusalCode.NAME: (
        "Kafka does not allow the name that its mirror would have",
        "choose another topics.naming",
    ),
    RefusalCode.NAME_COLLISION: (
        "its mirror's name differs from another topic's only in . and _, which Kafka refuses",
        "choose another topics.naming, or exclude one of the topics",
    ),
    RefusalCode.TWO_LINKS: (
        "another link writes into the same target topic",
        "exclude it in one of the links, or give one another naming or a slot (topics.fan_in)",
    ),
    RefusalCode.MAYBE_TWO_LINKS: (
        "it is not known now whether another link writes into the same target topic",
        "nothing: it waits until the other link's source or state can be read",
    ),
    RefusalCode.CYCLE: (
        "its records come from the target, or would come back",
        "exclude it in one of the links",
    ),
    RefusalCode.SOURCE_CHANGED: (
        "its mirror was copied from another cluster",
        "check the addresses of the source: the alias leads to another cluster than before",
    ),
    RefusalCode.RENAMED: (
        "its mirror has another name than the naming gives now",
        "restore topics.naming, or use a new link",
    ),
    RefusalCode.FAN_IN_CHANGED: (
        "its mirror has other partitions than topics.fan_in gives now",
        "restore topics.fan_in: records stay in the partitions they are in",
    ),
    RefusalCode.TARGET_NOT_OURS: (
        "a topic of its mirror's name has records, and the link's state has no row of it",
        f"{_REBUILD} if the link wrote them, with heliostat adopt if MirrorMaker 2 did",
    ),
    RefusalCode.TARGET_HAS_MORE_PARTITIONS: (
        "the topic of its mirror's name has more partitions than the source",
        "delete the target topic to mirror it from the start: Kafka never removes partitions",
    ),
    RefusalCode.MERGE: (
        "it can't be merged with the target's topic, or was begun as something else",
        "put topics.naming back, or leave it out; docs/merge.md says what can be merged",
    ),
    RefusalCode.UNREADABLE: (
        "a cluster does not return what must be known about it",
        f"{_BY_ITSELF}; check its leaders, and the rights (heliostat acls)",
    ),
    RefusalCode.CONFIGS: (
        "settings of the target topic would reject its records or delete them",
        "set at the target topic what the reason names",
    ),
    RefusalCode.REPLICATION_FACTOR: (
        "the target has fewer brokers than the mirror's replication factor",
        "lower topics.replication_factor, or wait until brokers are back",
    ),
    RefusalCode.START: (
        "the group or file of topics.start is not known, or gives an offset above the log end",
        "correct the group's name or the file, or choose another topics.start",
    ),
}
_OF_CAUSES = {
    Cause.TARGET_DELETED: "nothing: it was copied anew from the beginning",
    Cause.SKIPPED: "nothing: an operator asked for it (heliostat offsets skip, Connect's API)",
}
_IN_TEXT = re.compile(r"\[([A-Z][A-Z_0-9]+)\]")


@dataclass(frozen=True, slots=True)
class CodeKnown:
    """A code.

    Parameters
    ----------
    meaning
        A clause in plain words.
    hint
        What to do.
    is_decided
        Whether `heliostat resolve` decides on it.
    """

    code: str
    meaning: str
    hint: str
    is_decided: bool = False


def known_code(code: str, *, by_the_reason: str = "") -> CodeKnown:
    """Return what is known of a code; of an unknown one that it is not.

    Parameters
    ----------
    by_the_reason
        A hint that came with it; it knows more.
    """
    meaning, hint = _meaning_and_hint(code)
    return CodeKnown(code, meaning, by_the_reason or hint, code in CAUSE_OF_CODE)


def code_in(text: str) -> str:
    """Return the code that an error's text begins with; empty: there is none."""
    code = _IN_TEXT.search(text)
    return "" if code is None else code[1]


def _meaning_and_hint(code: str) -> tuple[str, str]:
    cause = CAUSE_OF_CODE.get(code)
    meaning, hint = _OF_PARTITIONS.get(code) or _OF_TOPICS.get(code) or ("", "")
    if cause is not None:
        return meaning or cause.words, hint or DECIDE
    if code in {member.value for member in Cause}:
        of_ledger = Cause(code)
        return of_ledger.words, _OF_CAUSES.get(of_ledger, DECIDE)
    if meaning:
        return meaning, hint
    if code in _ERRORS:
        kind = _ERRORS[code]
        said = inspect.cleandoc(kind.__doc__ or "").split("\n")[0].rstrip(".")
        return _lowered(said), kind.hint or _lowered(kind.no_hint)
    for name, verdict, of_row in _rows():
        if name == code:
            return f"a cluster answered {code}", of_row or _BY_VERDICT[verdict]
    return f"the code {code} is not known to this version", _BY_ITSELF


def _rows() -> Iterator[tuple[str, Verdict, str]]:
    """Yield name, verdict and hint of codes with which brokers and registries answer."""
    of_brokers = map(kafka_error, KAFKA_ERROR_NAMES)
    yield from ((error.name, error.verdict, error.hint) for error in of_brokers)
    # Only here: its package loads an HTTP client.
    from heliostat.schemas.registry.error_codes import REGISTRY_ERRORS

    yield from ((error.name, error.verdict, error.hint) for error in REGISTRY_ERRORS.values())


def _subclasses(kind: type[HeliostatError]) -> Iterator[type[HeliostatError]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _lowered(text: str) -> str:
    """Return a sentence as a clause, unless it begins with a name."""
    is_name = len(text) > 1 and text[:2].isupper()
    return text if is_name or text.startswith(("Spark", "Kafka")) else text[:1].lower() + text[1:]


_ERRORS = {kind.code: kind for kind in reversed(list(_subclasses(HeliostatError)))}
