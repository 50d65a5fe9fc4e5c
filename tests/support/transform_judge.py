"""What Kafka's own transformations make of records that are JSON without a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from support.mirror_jvm import MirrorJvm
from support.transform_chains import SMT, Given

FAILS = "fails"
GONE = "filtered out"
_EXPECTED = ("DataException", "NumberFormatException")


class Outcome(NamedTuple):
    """A record after a chain; texts of JSON as Python's values."""

    topic: str
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]


class KafkaChain:
    """A chain of Kafka's classes.

    Parameters
    ----------
    jvm
        Where they are.
    properties
        Of a connector.
    """

    def __init__(self, jvm: MirrorJvm, properties: Mapping[str, str]) -> None:
        self._jvm = jvm.jvm
        connect = self._jvm.org.apache.kafka.connect
        self._json = connect.json.JsonConverter()
        self._json.configure(self._map({"schemas.enable": "false"}), False)
        self._text = connect.storage.SimpleHeaderConverter()
        self._text.configure(self._map({}))
        # What is no object crosses to Java and back within one: py4j makes other numbers of it.
        self._unwrap = [
            self._made("ExtractField$Key", field="x"),
            self._made("ExtractField$Value", field="x"),
        ]
        self._wrap = [
            self._made("HoistField$Key", field="x"),
            self._made("HoistField$Value", field="x"),
        ]
        names = properties["transforms"].split(",")
        self._stages = [self._stage(name, properties) for name in names]

    def outcome(self, given: Given, time_ms: int) -> Outcome | str:
        """Return what becomes of a record."""
        headers = self._jvm.org.apache.kafka.connect.header.ConnectHeaders()
        for name, content in given.headers:
            if content is None:
                headers.add(name, None, None)
            else:
                headers.add(name, self._text.toConnectHeader(given.topic, name, content))
        record = self._jvm.org.apache.kafka.connect.source.SourceRecord(
            *(None, None, given.topic, 3),
            *(None, self._object(given.key), None, self._object(given.value)),
            *(time_ms, headers),
        )
        try:
            for transform in self._unwrap:
                record = transform.apply(record)
            for transform, predicate, is_negated in self._stages:
                if predicate is not None and bool(predicate.test(record)) is is_negated:
                    continue
                record = transform.apply(record)
                if record is None:
                    return GONE
            after = [
                (header.key(), self._bytes(header, given.topic))
                for header in _each(record.headers().iterator())
            ]
            for transform in self._wrap:
                record = transform.apply(record)
            key, value = (self._parsed(record.topic(), c) for c in (record.key(), record.value()))
        except Py4JJavaError as error:
            if not any(kind in str(error) for kind in _EXPECTED):
                raise
            return FAILS
        return Outcome(record.topic(), key, value, after)

    def _bytes(self, header: Any, topic: str) -> bytes | None:
        content = self._text.fromConnectHeader(topic, header.key(), header.schema(), header.value())
        return None if content is None else bytes(content)

    def _object(self, content: bytes | None) -> Any:
        text = b'{"x":' + (b"null" if content is None else content) + b"}"
        return self._json.toConnectData("t", text).value()

    def _parsed(self, topic: str, value: Any) -> Any:
        return json.loads(bytes(self._json.fromConnectData(topic, None, value)))["x"]

    def _stage(self, name: str, properties: Mapping[str, str]) -> tuple[Any, Any, bool]:
        own = _below(f"transforms.{name}.", properties)
        predicate = own.pop("predicate", None)
        is_negated = own.pop("negate", "false") == "true"
        test = None
        if predicate is not None:
            of_test = _below(f"predicates.{predicate}.", properties)
            test = self._configured(of_test.pop("type"), of_test)
        return self._configured(own.pop("type"), own), test, is_negated

    def _made(self, kind: str, **options: str) -> Any:
        return self._configured(SMT + kind, options)

    def _configured(self, kind: str, options: Mapping[str, str]) -> Any:
        made = (
            self._jvm.java.lang.Class.forName(kind).getDeclaredConstructor(None).newInstance(None)
        )
        made.configure(self._map(options))
        return made

    def _map(self, given: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.HashMap()
        for key, value in given.items():
            made.put(key, value)
        return made


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _below(beginning: str, properties: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(beginning): value
        for name, value in properties.items()
        if name.startswith(beginning)
    }
