"""Chains of Kafka's transformations, and records that go through them."""

from __future__ import annotations

import json
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
SMT = "org.apache.kafka.connect.transforms."


class Given(NamedTuple):
    """A record before a chain."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    topic: str = "orders"


Chain = tuple[dict[str, str], tuple[Given, ...]]
ORDER = b"""{"id": 7, "name": "Ada", "price": 1.5, "paid": true, "note": null,
 "big": 9007199254740993,
 "at": 1767323045000, "on": "2026-01-02T03:04:05.006Z", "count": "12",
 "in": {"x": 1, "deep": {"y": "z"}, "none": {}}, "list": [1, {"a": 2}]}"""
SMALL = b'{"id": 8}'
OBJECTS = tuple(map(Given, (ORDER, SMALL, b"{}", b"[1]", b'"text"', b"5", None)))
KEYED = (
    Given(ORDER, b'{"id": 1, "in": {"x": "k"}}'),
    Given(SMALL, b'{"id": "one"}'),
    Given(None, b'{"id": 2}'),
    Given(ORDER, None),
)


def chain(*transforms: str, **predicates: str) -> dict[str, str]:
    """Return a chain's properties.

    Parameters
    ----------
    transforms
        `Type$Side name=value; ...`.
    predicates
        The same by name.
    """
    made = {"transforms": ",".join(f"t{number}" for number in range(len(transforms)))}
    for number, text in enumerate(transforms):
        made |= _properties(f"transforms.t{number}.", SMT, text)
    if predicates:
        made["predicates"] = ",".join(predicates)
    for name, text in predicates.items():
        made |= _properties(f"predicates.{name}.", SMT + "predicates.", text)
    return made


def _properties(beginning: str, package: str, text: str) -> dict[str, str]:
    kind, _, rest = text.partition(" ")
    pairs = (entry.partition("=") for entry in rest.split(";") if entry)
    own = {f"{beginning}{name.strip()}": value.strip() for name, _, value in pairs}
    return {f"{beginning}type": package + kind, **own}


def replicator(properties: dict[str, str], **more: str) -> dict[str, str]:
    """Return the file of a Replicator that gives its transformations JSON objects."""
    config = {
        "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
        "src.kafka.bootstrap.servers": "a:9092",
        "dest.kafka.bootstrap.servers": "b:9092",
        "topic.regex": ".*",
        "offset.translator.tasks.max": "1",
        **{
            f"src.{side}.converter": "org.apache.kafka.connect.json.JsonConverter" for side in SIDES
        },
        **{f"src.{side}.converter.schemas.enable": "false" for side in SIDES},
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return {"replicator.json": json.dumps({"name": "r", "config": config | properties})}


SIDES = ("key", "value")
_ROUTES = tuple(Given(SMALL, topic=name) for name in ("orders", "orders-eu", "users"))
_TRACED = (
    Given(SMALL, headers=(("trace", b"x"),)),
    Given(SMALL, headers=(("other", b"x"), ("trace", b"y"), ("trace", None))),
    Given(None, headers=(("test", b""),)),
    Given(SMALL),
)
_TIMES = tuple(
    Given(b'{"at": %s}' % value)
    for value in (b"0", b"1767323045006", b"-1000", b"null", b'"2026-01-02 03:04"', b"true", b"1.5")
)
_TEXTS = tuple(
    Given(b'{"at": "%s"}' % value)
    for value in (b"2026-01-02 03:04:05.006", b"2026-1-2 3:4:5.6", b"nothing", b"2026-01-02 x", b"")
)
_CASTS = tuple(
    Given(b'{"f": %s}' % value)
    for value in (
        *(
            b"7",
            b"-7",
            b"0",
            b"7.9",
            b"-7.9",
            b"true",
            b"false",
            b"null",
            b'"7"',
            b'"-7"',
            b'"7.5"',
        ),
        *(b'"x"', b'""', b'"true"', b'"TRUE"', b'"yes"', b"{}", b"[]", b"0.5", b'"1_0"', b'" 7"'),
    )
)
CHAINS: dict[str, Chain] = {
    "insert static": (
        chain("InsertField$Value static.field=src;static.value=summit"),
        OBJECTS,
    ),
    "insert static over": (
        chain("InsertField$Value static.field=name;static.value=x"),
        OBJECTS,
    ),
    "insert place": (
        chain("InsertField$Value topic.field=t;partition.field=p!;timestamp.field=ts?"),
        OBJECTS,
    ),
    "insert into keys": (chain("InsertField$Key static.field=src;static.value=7"), KEYED),
    "exclude": (chain("ReplaceField$Value exclude=name,in,none"), OBJECTS),
    "include": (chain("ReplaceField$Value include=name,id"), OBJECTS),
    "rename": (chain("ReplaceField$Value renames=id:number,name:who"), OBJECTS),
    "all of ReplaceField": (
        chain("ReplaceField$Value exclude=who;include=id,name,who;renames=name:who"),
        OBJECTS,
    ),
    "mask": (chain("MaskField$Value fields=name,price,paid,id,note,gone"), OBJECTS[:-4]),
    "mask with text": (chain("MaskField$Value fields=name;replacement=***"), OBJECTS[:-4]),
    "mask with a number": (chain("MaskField$Value fields=id;replacement=13"), OBJECTS[:-4]),
    "flatten": (chain("Flatten$Value"), OBJECTS),
    "flatten with": (chain("Flatten$Value delimiter=_"), OBJECTS),
    "flatten keys": (chain("Flatten$Key delimiter=_"), KEYED),
    "value to key": (chain("ValueToKey fields=id,gone,in"), KEYED[:2] + KEYED[3:] + OBJECTS[3:5]),
    "key of one field": (
        chain("ValueToKey fields=id", "ExtractField$Key field=id"),
        KEYED[:2] + KEYED[3:],
    ),
    "key as text": (
        chain("ValueToKey fields=id", "ExtractField$Key field=id", "Cast$Key spec=string"),
        KEYED[:2] + KEYED[3:],
    ),
    "key in an object": (
        chain("HoistField$Key field=id"),
        (Given(SMALL, b"7"), Given(SMALL, b'"a"')),
    ),
    "hoist": (chain("HoistField$Value field=line"), OBJECTS[:-1]),
    "extract": (chain("ExtractField$Value field=in"), OBJECTS),
    "extract null": (chain("ExtractField$Value field=note"), OBJECTS[:3]),
    "extract deep": (
        chain("ExtractField$Value field=in.deep.y;field.syntax.version=V2"),
        OBJECTS[:3],
    ),
    "extract and hoist": (
        chain("ExtractField$Value field=id", "HoistField$Value field=number"),
        OBJECTS[:2],
    ),
    "headers from": (
        chain("HeaderFrom$Value fields=id,name,gone,paid;headers=i,n,g,p;operation=copy"),
        OBJECTS[:3],
    ),
    "headers moved from": (
        chain("HeaderFrom$Value fields=id,name;headers=i,n;operation=move"),
        (*OBJECTS[:3], *_TRACED[:2]),
    ),
    "headers from keys": (
        chain("HeaderFrom$Key fields=id;headers=i;operation=copy"),
        KEYED[:3],
    ),
    "insert and drop headers": (
        chain(
            "DropHeaders headers=trace,gone",
            "InsertHeader header=trace;value.literal=summit",
            "InsertHeader header=number;value.literal=7",
        ),
        _TRACED,
    ),
    "drop tombstones": (chain("Filter predicate=p", p="RecordIsTombstone"), OBJECTS),
    "only tombstones": (chain("Filter predicate=p;negate=true", p="RecordIsTombstone"), OBJECTS),
    "drop with header": (chain("Filter predicate=p", p="HasHeaderKey name=trace"), _TRACED),
    "only with header": (
        chain("Filter predicate=p;negate=true", p="HasHeaderKey name=trace"),
        _TRACED,
    ),
    "values alone": (
        chain(
            "InsertField$Value static.field=s;static.value=x;predicate=p;negate=true",
            p="RecordIsTombstone",
        ),
        OBJECTS,
    ),
    "some topics": (
        chain(
            "InsertField$Value static.field=s;static.value=x;predicate=p",
            "InsertField$Value static.field=u;static.value=y;predicate=q;negate=true",
            "InsertField$Value static.field=all;static.value=z",
            p="TopicNameMatches pattern=orders.*",
            q="TopicNameMatches pattern=.*-eu",
        ),
        _ROUTES,
    ),
    "no records of some topics": (
        chain("Filter predicate=p", p="TopicNameMatches pattern=orders(-eu)?"),
        _ROUTES,
    ),
    **{
        f"cast to {kind}": (chain(f"Cast$Value spec=f:{kind}"), _CASTS)
        for kind in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    },
    "cast two": (chain("Cast$Value spec=id:string,count:int32"), OBJECTS[:3]),
    "cast whole": (
        chain("Cast$Value spec=string"),
        tuple(map(Given, (b"7", b'"a"', b"true", None))),
    ),
    "times as text": (
        chain(
            "TimestampConverter$Value field=at;target.type=string;"
            "format=yyyy-MM-dd HH:mm:ss.SSS " + 3 * "X"
        ),
        _TIMES[:4] + _TIMES[5:],
    ),
    "times in words": (
        chain(
            "TimestampConverter$Value field=at;target.type=string;"
            "format=EEEE, d MMM yyyy 'o''clock' h:mm a, MMMM EEE Z"
        ),
        _TIMES[:4],
    ),
    "times as numbers": (
        chain("TimestampConverter$Value field=at;target.type=unix;format=yyyy-MM-dd HH:mm:ss.SSS"),
        _TEXTS,
    ),
    "times in seconds": (
        chain(
            "TimestampConverter$Value field=at;target.type=unix;format=yyyy-MM-dd;"
            "unix.precision=seconds"
        ),
        _TEXTS,
    ),
    "seconds as text": (
        chain(
            "TimestampConverter$Value field=at;target.type=string;"
            "format=yyyyMMddHHmmss;unix.precision=seconds"
        ),
        (Given(b'{"at": 1767323045}'), Given(b'{"at": "20260102030405"}')),
    ),
    "times of zones": (
        chain("TimestampConverter$Value field=at;target.type=unix;format=yyyy-MM-dd'T'HH:mmX"),
        tuple(
            Given(b'{"at": "2026-01-02T03:04%s"}' % zone) for zone in (b"Z", b"+01", b"-0930", b"")
        ),
    ),
    "a whole time": (
        chain("ExtractField$Value field=at", "TimestampConverter$Value target.type=unix"),
        OBJECTS[:1],
    ),
}
