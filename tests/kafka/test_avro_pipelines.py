"""Pipelines in running links, a topic a case: fields of Avro records, and steps about headers.

All topics go through two links that run for the whole file; Confluent's clients are at both ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.avro_piped import AT_MS, CUT, FIRST, SECOND, AvroLink, AvroTopic, row
from support.clusters import ClusterPair, until
from support.command import heliostat, said
from support.holes import read_if_there
from support.links import RunningLink
from support.records import GZIP

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

KEEP: dict[str, Any] = {
    "where": "fields.id % 2 = 0 AND fields.kind = 'REAL' AND fields.price < 100"
}
REWRITE: dict[str, Any] = {
    "where": "fields.kind = 'REAL'",
    "set": {"id": "fields.id + 1000", "twice": "fields.price * 2"},
    "cast": {"twice": "decimal(12,1)"},
    "mask": {"secret": None},
    "rename": {"other": "others"},
    "drop": ["price"],
    "to_key": ["id"],
}
HEADERS: list[dict[str, Any]] = [
    {"drop_with_header": {"name": "skip"}},
    {"drop_tombstones": True},
    {"drop_headers": ["secret"]},
    {"rename_headers": {"kept": "held"}},
    {"insert_headers": {"from": "summit's"}},
]
WRITTEN = (("secret", b"1"), ("kept", None))
NEXT_ID = 1000
"""A schema id that the source's registry gives later."""


class Tour:
    """Both links and their topics; before the links run, each topic has its first records."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        for name in ("preserve", "isolate"):
            (folder / name).mkdir()
        self.preserving = AvroLink(
            pair, folder / "preserve", "preserve", {"keep": [{"avro_fields": KEEP}]}
        )
        self.isolating = AvroLink(
            pair,
            folder / "isolate",
            "isolate",
            {
                "rewrite": [{"avro_fields": REWRITE}],
                "cut": [{"avro_fields": CUT}],
                "headers": HEADERS,
                "refused": [{"avro_fields": {"drop": ["missing"]}}],
            },
            errors={"transform": {"policy": "dead_letter"}},
        )

    def fill(self) -> None:
        """Create the topics and write what the links find there."""
        for number in range(3):
            text = json.dumps({"type": "record", "name": f"own{number}", "fields": []})
            self.isolating.target.double.register(f"own-{number}-value", {"schema": text})
        self.kept = self.preserving.topic("keep")
        rows = [*map(row, range(10)), row(10, kind="TEST")]
        self.kept_values = self.kept.encode(FIRST, *rows)
        self.kept.write(*self.kept_values[:5])
        self.kept.write(*self.kept_values[5:], codec=GZIP)
        self.stopped = self.preserving.topic("keep", "stopped")
        values = self.stopped.encode(FIRST, *map(row, range(90, 110)))
        later = b"\0" + NEXT_ID.to_bytes(4, "big") + values[0][5:]
        self.stopped.write(values[0], values[15], partition=1)
        self.stopped.write(later, partition=1)
        self.stopped.write(*values[:4])
        self.stopped.write(values[4], values[6][:-3], values[8])
        self.refused = self.isolating.topic("refused")
        self.refused.write(*self.refused.encode(FIRST, row(1)))
        self.changed = self.isolating.topic("rewrite")
        rows = [row(1), row(2, kind="TEST"), row(3, other=None)]
        values = self.changed.encode(FIRST, *rows)
        self.changed.write(*values[:2], None, values[2])
        self.cut = self.isolating.topic("cut")
        values = self.cut.encode(FIRST, *map(row, range(6)))
        self.cut.write(values[0], None, values[1], codec=GZIP)
        self.cut.write(values[2], values[3][:-3], values[4], codec=GZIP)
        self.cut.write(values[5])
        self.headers = self.isolating.topic("headers")
        self.headers.write(b"one", None, b"two", headers=WRITTEN)
        self.headers.write(b"three", None, codec=GZIP, headers=WRITTEN)
        self.headers.write(b"four", headers=(("skip", b""),))
        self.plain = self.isolating.topic("plain")
        self.plain.write(b"plain", headers=WRITTEN)


@pytest.fixture(scope="module")
def tour(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    made = Tour(cluster_pair, tmp_path_factory.mktemp("tour"))
    with made.preserving, made.isolating, ExitStack() as stack:
        made.fill()
        links = [
            stack.enter_context(RunningLink(each.config))
            for each in (made.preserving, made.isolating)
        ]
        yield made
        assert not [each.text() for each in links if each.has_ended]


def encode_later(topic: AvroTopic, *rows: dict[str, Any]) -> list[bytes]:
    """Return values with a schema that no other topic has, registered now."""
    return topic.encode({**SECOND, "doc": topic.name}, *rows)


def wait_read(link: AvroLink, topic: AvroTopic, count: int) -> None:
    """Wait until the topic's consumer has decoded so many records."""
    until(lambda: len(topic.reader.seen) >= count, lambda: link.told(topic), timeout_s=180)


def wait_clean(link: AvroLink, topic: AvroTopic) -> None:
    """Wait until nothing is wrong with a topic; all of its records were decoded at once."""
    until(lambda: not link.problems(topic), lambda: link.told(topic))
    assert topic.reader.failures == []


def records_of(topic: AvroTopic) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the decoded records by place, without their time, which must be as it was."""
    found = {place: {**each.record} for place, each in topic.reader.seen.items()}
    assert {each.pop("at").timestamp() * 1000 for each in found.values()} == {AT_MS}
    return found


def cut_row(number: int, **others: Any) -> dict[str, Any]:
    """Return a record without its time, with what `CUT` and `REWRITE` leave alike."""
    left = row(number, secret="", **{"others": "x", **others})
    return {name: each for name, each in left.items() if name not in ("price", "other", "at")}


def test_records_are_filtered_by_fields_and_keep_their_bytes(tour: Tour) -> None:
    """Given records of two schema versions, compressed ones and a second version that is only

    registered while the link runs / when they are filtered by fields of several types /
    then those that pass are byte for byte what they were, and a consumer decodes each at once.
    """
    link, topic, values = tour.preserving, tour.kept, tour.kept_values
    wait_read(link, topic, 5)
    later = encode_later(topic, *(row(n, more="m") for n in range(11, 15)))
    topic.write(*later, values[0])
    wait_read(link, topic, 8)
    wait_clean(link, topic)
    found = [topic.reader.seen[place] for place in sorted(topic.reader.seen)]
    assert [each.value for each in found] == [*values[:10:2], later[1], later[3], values[0]]
    assert {each.schema_id for each in found} == {
        int.from_bytes(each[1:5], "big") for each in (values[0], later[0])
    }


def test_changed_records_have_schemas_of_their_own(tour: Tour) -> None:
    """Given a target whose registry gives ids of its own / when fields are set, masked, renamed and

    dropped / then a consumer decodes each record the moment it sees it, of both versions, and
    what was not named is as it was.
    """
    link, topic = tour.isolating, tour.changed
    wait_read(link, topic, 2)
    later = encode_later(topic, row(4, more="m", other=5))
    topic.write(*later, partition=1, codec=GZIP)
    wait_read(link, topic, 3)
    wait_clean(link, topic)
    twice = Decimal("14.0")
    expected = {
        (0, 0): cut_row(1001, twice=twice),
        (0, 2): cut_row(1003, twice=twice, others=None),
        (1, 0): cut_row(1004, twice=twice, others=5, more="m"),
    }
    assert records_of(topic) == expected
    keys = {place: json.loads(each.key or b"") for place, each in topic.reader.seen.items()}
    assert keys == {place: {"id": each["id"]} for place, each in expected.items()}
    made = link.target.double.subjects[f"{topic.name}-value"].values()
    assert len(made) == 2
    (told,) = said(link.config, "schemas", "status")
    derived = {each["target_id"] for each in told["derived"] if each["pipeline"] == "rewrite"}
    assert derived == {each.schema_id for each in made}
    words = ("verify", "--topic", topic.name, "--json")
    assert heliostat(link.config, *words).json["records"] == 4
    other = link.config.with_name("other.yaml")
    other.write_text(link.config.read_text().replace("+ 1000", "+ 1001"))
    done = heliostat(other, *words)
    assert (done.returncode, done.json["different"]) == (1, 3)  # all but the tombstone


def test_fields_are_cut_without_rows(tour: Tour) -> None:
    """Given records of two versions, the second of which is registered while the link runs, and one

    that can't be cut / when fields are masked and dropped, and nothing else / then a consumer
    decodes each record the moment it sees it, all but that one come, and it is accounted for.
    """
    link, topic = tour.isolating, tour.cut
    note = f"pipeline cut: 1 topic ({topic.name}), on the bytes of batches"
    assert note in heliostat(link.config, "plan").stdout
    wait_read(link, topic, 5)
    topic.write(*encode_later(topic, row(6, more="m", other=5)), partition=1)
    wait_read(link, topic, 6)
    wait_clean(link, topic)
    places = {0: 0, 2: 1, 3: 2, 4: 4, 5: 5}  # the mirror closes the hole
    expected = {(0, offset): cut_row(number) for offset, number in places.items()}
    expected[1, 0] = cut_row(6, more="m", others=5)
    assert records_of(topic) == expected
    (report,) = said(link.config, "gaps")
    (gap,) = report["rows"]
    assert (gap["topic"], gap["cause"]) == (topic.name, "record_failed")
    assert (gap["first"], gap["last"], gap["choice"]) == (4, 4, "dead_letter")
    verified = heliostat(link.config, "verify", "--topic", topic.name, "--json")
    assert (verified.returncode, verified.json["records"]) == (0, 7), verified.said
    notes = [note for each in verified.json["details"] for note in each["notes"]]
    assert len(notes) == 1, notes
    assert notes[0].startswith("the pipeline fails at 1 record, first at offset 4")


def test_headers_are_changed_without_rows(tour: Tour) -> None:
    """Given steps about headers and tombstones alone / when records come, before and while the link

    runs / then the target has what the steps make of them, in order, once, and a topic without a
    pipeline has its records as they were.
    """
    link, topic = tour.isolating, tour.headers
    target = topic.pair.target.bootstrap
    expected = [b"one", b"two", b"three"]

    def values() -> list[bytes | None]:
        return [each[2] for each in read_if_there(target, topic.name)]

    until(lambda: values() == expected, lambda: f"{values()}, {link.problems(topic)}", 90)
    for number in range(30):
        topic.write(b"n%d" % number, None, headers=WRITTEN)
        expected.append(b"n%d" % number)
    until(lambda: values() == expected, lambda: f"{values()}, {link.problems(topic)}")
    headers = {each[4] for each in read_if_there(target, topic.name)}
    assert headers == {(("held", None), ("from", b"summit's"))}
    until(lambda: read_if_there(target, tour.plain.name), "the plain one")
    assert [each[2:5:2] for each in read_if_there(target, tour.plain.name)] == [(b"plain", WRITTEN)]
    until(lambda: not link.problems(topic), lambda: f"{link.problems(topic)}")


def test_unknown_schemas_are_waited_for_and_what_is_no_record_stops_its_partition(
    tour: Tour,
) -> None:
    """Given a record whose schema is registered later, and one that its schema does not fit / when

    a link filters them / then the first waits, and goes on by itself; at the second its partition
    stops, with all before it copied, and the other one goes on.
    """
    link, topic = tour.preserving, tour.stopped
    until(lambda: topic.ends() == [3, 1], lambda: f"{topic.ends()}", timeout_s=90)
    until(lambda: len(link.problems(topic)) == 2, lambda: link.told(topic))
    stop, waiting = link.problems(topic)
    assert (stop["code"], stop["position"]) == ("TRANSFORM_FAILED", 5)
    assert "source offset 5: heliostat.errors.TransformFailed" in stop["reason"]
    assert "it is no record of schema id 1" in stop["reason"]
    assert (waiting["state"], waiting["code"]) == ("retrying", "SCHEMA_UNREADABLE")
    assert f"schema id {NEXT_ID} is not known to the pipeline" in waiting["reason"]
    double = link.source.double
    double.contexts["."].id_max = NEXT_ID - 1
    text = json.dumps({**FIRST, "doc": "later"})
    assert double.register(f"{topic.name}-value", {"schema": text})["id"] == NEXT_ID
    until(lambda: topic.ends() == [3, 2], lambda: link.told(topic))


def test_a_field_that_no_schema_has_is_refused(tour: Tour) -> None:
    """Given a step that names such a field / when schemas are known / then nothing is copied."""
    link, topic = tour.isolating, tour.refused

    def codes() -> set[str]:
        # Before schemas are known, records wait for them.
        return {each["code"] for each in link.problems(topic)}

    until(lambda: codes() == {"PIPELINE_REFUSED"}, lambda: link.told(topic), timeout_s=90)
    reasons = [each["reason"] for each in link.problems(topic)]
    why = "no schema of its topics has a field missing"
    assert all(why in each for each in reasons)
    assert topic.ends() == [0, 0]
    planned = heliostat(link.config, "plan").stdout
    assert f"[PIPELINE_REFUSED] {why}" in planned, planned
    assert f"; not copied: {topic.name}" in planned, planned


def test_a_step_is_tried(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given records of Avro / when a step is tried / then their fields are shown before and after,

    and nothing is registered.
    """
    step = {"where": "fields.id != 2", "mask": {"secret": "***"}, "drop": ["lines"]}
    with AvroLink(cluster_pair, tmp_path, "isolate", {"try": [{"avro_fields": step}]}) as link:
        topic = link.topic("try")
        values = topic.encode(FIRST, row(1), row(2))
        topic.write(*values, None, values[0][:-1])
        done = heliostat(link.config, "try", link.name, topic.name, "--json")
        assert done.returncode == 1
        found = done.json["records"]
        verdicts = ["changed", "filtered out", "unchanged", "fails"]
        assert [each["verdict"] for each in found] == verdicts
        before, after = (found[0][side]["value"]["fields"] for side in ("before", "after"))
        assert (before["secret"], after["secret"]) == ("hide me", "***")
        assert (before["lines"], "lines" in after) == ([{"a": "TEST"}, {}], False)
        assert after["price"] == "7"
        assert "it is no record of schema id" in found[3]["error"]
        assert not link.target.double.subjects
