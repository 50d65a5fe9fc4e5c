"""Pipelines that know the fields of Avro records, with Confluent's clients at both ends."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.avro_piped import AT_MS, FIRST, SECOND, AvroPiped, row
from support.clusters import ClusterPair, until
from support.command import heliostat, said
from support.links import RunningLink
from support.records import GZIP

from heliostat.config import load_config

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def test_records_are_filtered_by_fields_and_keep_their_bytes(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given records of two schema versions, compressed ones and a second version that is only

    registered while the link runs / when they are filtered by fields of several types /
    then those that pass are byte for byte what they were, and a consumer decodes each at once.
    """
    step = {"where": "fields.id % 2 = 0 AND fields.kind = 'REAL' AND fields.price < 100"}
    with AvroPiped(cluster_pair, tmp_path, "preserve", step) as piped:
        kept: dict[int, bytes] = {}
        with piped.writer(FIRST) as first, piped.reader() as reader:
            values = first.encode(piped.topic, *(row(n) for n in range(10)), row(10, kind="TEST"))
            piped.write(*values[:5])
            piped.write(*values[5:], codec=GZIP)
            kept |= {n: values[n] for n in range(0, 10, 2)}
            with RunningLink(piped.config) as link:
                until(lambda: len(reader.seen) == 5, lambda: f"{reader.records()}", timeout_s=90)
                with piped.writer(SECOND) as second:
                    later = second.encode(piped.topic, *(row(n, more="m") for n in range(11, 15)))
                piped.write(*later, values[0])
                kept |= {12: later[1], 14: later[3]}
                until(lambda: len(reader.seen) == 8, lambda: f"{reader.records()}", timeout_s=60)
                assert not link.has_ended
                until(lambda: not piped.problems(), lambda: f"{piped.problems()}")
            assert reader.failures == []
            found = [reader.seen[place] for place in sorted(reader.seen)]
        assert [each.value for each in found] == [*kept.values(), values[0]]
        assert {each.schema_id for each in found} == {
            int.from_bytes(each[1:5], "big") for each in (values[0], later[0])
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


def test_changed_records_have_schemas_of_their_own(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a target whose registry gives ids of its own / when fields are set, masked, renamed and

    dropped / then a consumer decodes each record the moment it sees it, of both versions, and
    what was not named is as it was.
    """
    with AvroPiped(cluster_pair, tmp_path, "isolate", REWRITE) as piped:
        for number in range(3):
            text = json.dumps({"type": "record", "name": f"own{number}", "fields": []})
            piped.target.double.register(f"own-{number}-value", {"schema": text})
        with piped.writer(FIRST) as first, piped.reader() as reader:
            values = first.encode(piped.topic, row(1), row(2, kind="TEST"), row(3, other=None))
            piped.write(*values[:2], None, values[2])
            with RunningLink(piped.config) as link:
                until(lambda: len(reader.seen) == 2, lambda: piped.told(reader), timeout_s=90)
                with piped.writer(SECOND) as second:
                    later = second.encode(piped.topic, row(4, more="m", other=5))
                piped.write(*later, partition=1, codec=GZIP)
                until(lambda: len(reader.seen) == 3, lambda: piped.told(reader), timeout_s=60)
                assert not link.has_ended
                until(lambda: not piped.problems(), lambda: f"{piped.problems()}")
        assert reader.failures == []
        found = {place: each.record for place, each in reader.seen.items()}

        def changed(number: int, others: Any) -> dict[str, Any]:
            left = row(number + 1000, secret="", others=others, twice=Decimal("14.0"))
            return {name: each for name, each in left.items() if name not in ("price", "other")}

        at = {place: each.pop("at") for place, each in found.items()}
        expected = {(0, 0): changed(1, "x"), (0, 2): changed(3, None), (1, 0): changed(4, 5)}
        expected[1, 0]["more"] = "m"
        for each in expected.values():
            each.pop("at")
        assert found == expected
        assert {each.timestamp() * 1000 for each in at.values()} == {AT_MS}
        keys = {place: json.loads(each.key or b"") for place, each in reader.seen.items()}
        assert keys == {place: {"id": each["id"]} for place, each in expected.items()}
        subject = f"{piped.topic}-value"
        made = piped.target.double.subjects[subject].values()
        assert len(made) == 2
        (told,) = said(piped.config, "schemas", "status")
        assert {each["target_id"] for each in told["derived"]} == {each.schema_id for each in made}
        assert told["in_sync"]
        assert heliostat(piped.config, "verify", "--json").json["records"] == 4
        config = piped.config.read_text()
        piped.config.write_text(config.replace("+ 1000", "+ 1001"))
        done = heliostat(piped.config, "verify", "--json")
        assert (done.returncode, done.json["different"]) == (1, 3)  # all but the tombstone


def test_fields_are_cut_without_rows(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given records of two versions, the second of which is registered while the link runs, and one

    that can't be cut / when fields are masked and dropped, and nothing else / then a consumer
    decodes each record the moment it sees it, all but that one come, and it is accounted for.
    """
    step = {"mask": {"secret": None}, "drop": ["price"], "rename": {"other": "others"}}
    kept = {"transform": {"policy": "dead_letter"}}
    with AvroPiped(cluster_pair, tmp_path, "isolate", step, errors=kept) as piped:
        assert "on the bytes of batches" in heliostat(piped.config, "plan").stdout
        with piped.writer(FIRST) as first, piped.reader() as reader:
            values = first.encode(piped.topic, *(row(n) for n in range(6)))
            piped.write(values[0], None, values[1], codec=GZIP)
            piped.write(values[2], values[3][:-3], values[4], codec=GZIP)
            piped.write(values[5])
            with RunningLink(piped.config) as link:
                until(lambda: len(reader.seen) == 5, lambda: piped.told(reader), timeout_s=90)
                with piped.writer(SECOND) as second:
                    later = second.encode(piped.topic, row(6, more="m", other=5))
                piped.write(*later, partition=1)
                until(lambda: len(reader.seen) == 6, lambda: piped.told(reader), timeout_s=60)
                assert not link.has_ended
                until(lambda: not piped.problems(), lambda: f"{piped.problems()}")
        assert reader.failures == []
        found = {place: each.record for place, each in reader.seen.items()}
        for each in found.values():
            assert each.pop("at").timestamp() * 1000 == AT_MS

        def cut(number: int, **more: Any) -> dict[str, Any]:
            changed = row(number, secret="", others="x", **more)
            return {
                name: each for name, each in changed.items() if name not in ("price", "other", "at")
            }

        places = {0: 0, 2: 1, 3: 2, 4: 4, 5: 5}  # the mirror closes the hole
        expected = {(0, offset): cut(number) for offset, number in places.items()}
        expected[1, 0] = {**cut(6, more="m"), "others": 5}
        assert found == expected
        (report,) = said(piped.config, "gaps")
        (gap,) = report["rows"]
        assert (gap["cause"], gap["first"], gap["last"]) == ("record_failed", 4, 4)
        assert gap["choice"] == "dead_letter"
        verified = heliostat(piped.config, "verify", "--json")
        assert (verified.returncode, verified.json["records"]) == (0, 7), verified.said
        notes = [note for each in verified.json["details"] for note in each["notes"]]
        assert len(notes) == 1, notes
        assert notes[0].startswith("the pipeline fails at 1 record, first at offset 4")


def test_unknown_schemas_are_waited_for_and_what_is_no_record_stops_its_partition(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a record whose schema is registered later, and one that its schema does not fit / when

    a link filters them / then the first waits, and goes on by itself; at the second its partition
    stops, with all before it copied, and the other one goes on.
    """
    with AvroPiped(cluster_pair, tmp_path, "preserve", {"where": "fields.id < 100"}) as piped:
        with piped.writer(FIRST) as first:
            values = first.encode(piped.topic, *(row(n) for n in range(90, 110)))
        known = int.from_bytes(values[0][1:5], "big")
        later = b"\0" + (known + 1).to_bytes(4, "big") + values[0][5:]
        piped.write(values[0], values[15], partition=1)
        piped.write(later, partition=1)
        piped.write(*values[:4])
        piped.write(values[4], values[5][:-3], values[6])
        with RunningLink(piped.config) as link:
            until(lambda: piped.ends() == [5, 1], lambda: f"{piped.ends()}", timeout_s=90)
            until(lambda: len(piped.problems()) == 2, lambda: f"{piped.problems()}")
            stop, waiting = sorted(piped.problems(), key=lambda each: each["partition"])
            assert (stop["code"], stop["position"]) == ("TRANSFORM_FAILED", 5)
            assert "source offset 5: heliostat.errors.TransformFailed" in stop["reason"]
            assert f"it is no record of schema id {known}" in stop["reason"]
            assert (waiting["state"], waiting["code"]) == ("retrying", "SCHEMA_UNREADABLE")
            assert f"schema id {known + 1} is not known to the pipeline" in waiting["reason"]
            documented = json.dumps({**FIRST, "doc": "later"})
            made = piped.source.double.register(f"{piped.topic}-value", {"schema": documented})
            assert made["id"] == known + 1
            until(lambda: piped.ends() == [5, 2], lambda: f"{piped.ends()}", timeout_s=60)
            assert not link.has_ended


def test_a_step_is_tried_and_refused(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given records of Avro / when a step is tried / then their fields are shown before and after,

    and nothing is registered; a step that names a field which no schema has copies nothing.
    """
    step = {"where": "fields.id != 2", "mask": {"secret": "***"}, "drop": ["lines"]}
    with AvroPiped(cluster_pair, tmp_path, "isolate", step) as piped:
        with piped.writer(FIRST) as first:
            values = first.encode(piped.topic, row(1), row(2))
        piped.write(*values, None, values[0][:-1])
        (link,) = load_config(piped.config).links
        done = heliostat(piped.config, "try", link.name, piped.topic, "--json")
        assert done.returncode == 1
        found = done.json["records"]
        verdicts = ["changed", "filtered out", "unchanged", "fails"]
        assert [each["verdict"] for each in found] == verdicts
        before, after = (found[0][side]["value"]["fields"] for side in ("before", "after"))
        assert (before["secret"], after["secret"]) == ("hide me", "***")
        assert (before["lines"], "lines" in after) == ([{"a": "TEST"}, {}], False)
        assert after["price"] == "7"
        assert "it is no record of schema id" in found[3]["error"]
        assert not piped.target.double.subjects
        config = piped.config.read_text()
        assert config.count("- lines") == 1
        piped.config.write_text(config.replace("- lines", "- no_such_field"))
        with RunningLink(piped.config):
            # Before schemas are known, records wait for them.
            refused = "PIPELINE_REFUSED"
            until(
                lambda: [each["code"] for each in piped.problems()][:1] == [refused],
                lambda: f"{piped.problems()}",
                timeout_s=60,
            )
            stop = piped.problems()[0]
            assert "no schema of its topics has a field no_such_field" in stop["reason"]
            assert piped.ends() == [0, 0]
