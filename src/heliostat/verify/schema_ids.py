"""Schema ids of a mirror whose target gives ids of its own: what each id of the source must be.

A key or value with an id begins with a zero byte and four bytes, big endian (Confluent's
`AbstractKafkaSchemaSerDe`), or a header has these, or a byte 1 and a GUID (`SchemaId`).
The source's rows are read with the ids that they must have at the target, so any other id there is
a difference, as any other byte is. Where two ids of the target have the same content, both sides
are read with one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from typing_extensions import override

from heliostat.names import TopicName
from heliostat.verify.piped import Pipe, piped
from heliostat.verify.stream_values import Batch, ConsumedRecord

if TYPE_CHECKING:
    from heliostat.verify.origin import Origin

RowView = Callable[[ConsumedRecord], ConsumedRecord]
"""A record as it is to be compared."""
_FRAME_BYTES = 5
_GUID_FRAME_BYTES = 17
_OF_KEY, _OF_VALUE = "__key_schema_id", "__value_schema_id"


class Views(NamedTuple):
    """How the rows of both sides are compared; None: as they are."""

    source: RowView | None = None
    target: RowView | None = None
    pipe: Pipe | None = None
    """The pipeline that the source's records go through first."""
    origin: Origin | None = None
    """Whose records the partition has, if several sites write it."""

    def of_source(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Return the source's batches as they are compared."""
        if self.origin is not None:
            batches = self.origin.of_site(batches)
        return viewed(batches if self.pipe is None else piped(batches, self.pipe), self.source)

    def of_target(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Return the target's batches as they are compared."""
        return viewed(batches, self.target)


AS_THEY_ARE = Views()


@dataclass(frozen=True, slots=True)
class MirroredIds:
    """A link's map of schema ids; travels to Spark's workers.

    Parameters
    ----------
    at_source, at_target
        What ids in records of each side are compared as; all others as they are.
    keys, values
        Source topics whose keys, or values, begin with ids.
    headers
        Source topics whose headers may have ids.
    guids
        GUIDs of the source that are others at the target, and these (16 bytes).
    """

    at_source: Mapping[int, int] = field(default_factory=dict)
    at_target: Mapping[int, int] = field(default_factory=dict)
    keys: frozenset[TopicName] = frozenset()
    values: frozenset[TopicName] = frozenset()
    headers: frozenset[TopicName] = frozenset()
    guids: Mapping[bytes, bytes] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ids: Mapping[int, int],
        alike: Mapping[int, int],
        *,
        keys: Iterable[TopicName] = (),
        values: Iterable[TopicName] = (),
        headers: Iterable[TopicName] = (),
        guids: Mapping[bytes, bytes] | None = None,
    ) -> Self:
        """Return the map.

        Parameters
        ----------
        ids
            Ids of the source, and what they are at the target.
        alike
            Ids of the target that have the content of another one, and that one, which stands for
            both.
        keys, values, headers
            See `MirroredIds`.
        guids
            GUIDs of the source, and what they are at the target.
        """
        # An id that is not mapped stays in the mirror: it is compared as what the target's is.
        shown = {**alike, **{own: alike.get(there, there) for own, there in ids.items()}}
        moved = {own: there for own, there in shown.items() if own != there}
        others = {own: there for own, there in (guids or {}).items() if own != there}
        parts = frozenset(keys), frozenset(values), frozenset(headers)
        return cls(moved, dict(alike), *parts, others)

    def views(self, topic: TopicName) -> Views:
        """Return how a source topic and its mirror are compared."""
        parts = _Parts(topic in self.keys, topic in self.values, topic in self.headers)
        return Views(_view(self.at_source, parts, self.guids), _view(self.at_target, parts, {}))


class _Parts(NamedTuple):
    keys: bool
    values: bool
    headers: bool


NO_IDS = MirroredIds()


def _view(ids: Mapping[int, int], parts: _Parts, guids: Mapping[bytes, bytes]) -> RowView | None:
    if not (ids or guids) or not any(parts):
        return None
    keys, values, in_headers = parts

    def seen(row: ConsumedRecord) -> ConsumedRecord:
        offset, timestamp, key, value, headers = row
        said = {name for name, content in headers if _says_id(content)} if headers else ()
        key = _with_ids(key, ids) if keys and _OF_KEY not in said else key
        value = _with_ids(value, ids) if values and _OF_VALUE not in said else value
        if in_headers and (_OF_KEY in said or _OF_VALUE in said):
            headers = [
                (name, _in_header(content, ids, guids) if name in (_OF_KEY, _OF_VALUE) else content)
                for name, content in headers
            ]
        return offset, timestamp, key, value, headers

    return seen


def _says_id(content: bytes | None) -> bool:
    """Return whether a header for an id has one: then none is in front of the key or value."""
    if content is None or len(content) < _FRAME_BYTES:
        return False
    is_guid = content[0] == 1 and len(content) >= _GUID_FRAME_BYTES
    return is_guid or (content[0] == 0 and content[1] < 128)


def _in_header(
    content: bytes | None, ids: Mapping[int, int], guids: Mapping[bytes, bytes]
) -> bytes | None:
    if content is None or len(content) < _GUID_FRAME_BYTES or content[0] != 1:
        return _with_ids(content, ids)
    guid = content[1:_GUID_FRAME_BYTES]
    return content[:1] + guids.get(guid, guid) + content[_GUID_FRAME_BYTES:]


def _with_ids(content: bytes | None, ids: Mapping[int, int]) -> bytes | None:
    if content is None or len(content) < _FRAME_BYTES or content[0]:
        return content
    number = int.from_bytes(content[1:_FRAME_BYTES], "big")
    if number not in ids:
        return content
    return b"\0" + ids[number].to_bytes(4, "big") + content[_FRAME_BYTES:]


@dataclass(frozen=True, slots=True)
class ViewedBatch(Batch):
    """A batch whose rows are seen through a view."""

    inner: Batch
    view: RowView

    @override
    def rows(self, start: int, end: int) -> list[ConsumedRecord]:
        """Decode the rows with an offset in `[start, end)`."""
        return [self.view(row) for row in self.inner.rows(start, end)]

    @override
    def same_as(self, other: Batch) -> bool:
        """Return False: equal bytes don't say that ids are right."""
        return False


def viewed(batches: Iterable[Batch], view: RowView | None) -> Iterable[Batch]:
    """Return batches whose rows are seen through a view, if there is one."""
    return batches if view is None else _viewed(batches, view)


def _viewed(batches: Iterable[Batch], view: RowView) -> Iterator[Batch]:
    for each in batches:
        fields = each.base_offset, each.next_offset, each.records, each.meaning, each.data
        yield ViewedBatch(*fields, each, view)
