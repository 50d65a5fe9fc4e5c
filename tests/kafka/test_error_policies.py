"""Records that can't be copied: tried again, skipped, or kept as dead letters (I6).

One link has a topic for each way to fail; all of them are under way at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.holes import read_if_there
from support.links import RunningLink, ends
from support.one_partition import damage, segment_of
from support.piped import HEADERS, Topic, problems_of, write_link
from support.provoked import Provoked
from support.records import GZIP, Sample
from support.registry_contract import record
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.gaps.dead_letters import DeadLetter, DeadLetters, dead_letters_topic
from heliostat.names import LinkName, PartitionId, TopicPartition
from heliostat.schemas import HttpRegistry
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.values import Subject

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

NUMBER = "encode(cast(cast(decode(value, 'UTF-8') AS int) + 1 AS string), 'UTF-8')"
ADD_ONE = {"set": {"value": NUMBER}}
KEPT = {"policy": "dead_letter"}
LARGE = b"x" * 2_000_000
BAD = {201: b"no number", 202: b""}
"""Values of `Faulty.numbers` at which its pipeline fails, by offset; partition 1 has one more."""
COPIED_WITHIN_S = 180.0


class Faulty:
    """A link with rules for errors, and topics that have what each is about.

    Parameters
    ----------
    pair, folder
        Both clusters, and where the configuration is.
    registries
        Addresses of the source's and the target's schema registry.
    """

    running: RunningLink
    framed_values: list[bytes]

    def __init__(self, pair: ClusterPair, folder: Path, registries: list[str]) -> None:
        self.pair = pair
        self.numbers = Topic(pair, "numbers", partitions=2)
        self.hanging = Topic(pair, "hanging")
        self.large = Topic(pair, "large", configs={"max.message.bytes": "5000000"})
        self.damaged = Topic(pair, "damaged")
        self.framed = Topic(pair, "framed")
        rules = {
            "transform": KEPT,
            "too_large": KEPT,
            "corrupt": KEPT,
            "refused": {"policy": "skip"},
            "schema_missing": {**KEPT, "retry_for_s": 2},
        }
        self.config = write_link(
            folder,
            *(self.numbers, self.hanging, self.large, self.damaged, self.framed),
            pipelines=[
                self.numbers.pipeline(ADD_ONE),
                self.hanging.pipeline({"function": f"{__name__}:hangs"}, timeout_s=5),
            ],
            errors=rules,
            schemas={"strategy": "preserve", "interval_s": 1},
            registries=registries,
        )

    def copied(self, topic: Topic, expected: list[bytes | None]) -> None:
        """Wait until the mirror has these values."""
        wait_values(topic, expected, self.running)

    def letters(self, topic: Topic) -> list[DeadLetter]:
        """Return the dead letters of a topic."""
        whole = load_config(self.config)
        (link,) = whole.links
        letters = DeadLetters(LinkName(link.name), whole.clusters[link.target].access())
        every = list(letters.read().values())
        return [each for each in every if each.source.topic == topic.topic]

    def gaps(self, topic: Topic) -> list[dict[str, Any]]:
        """Return the rows of the gap ledger about a topic."""
        (report,) = said(self.config, "gaps")
        return [each for each in report["rows"] if each["topic"] == topic.topic]

    def letters_reported(self) -> int:
        """Return how many dead letters the status tells of."""
        (status,) = said(self.config, "status")
        return int(status["driver"]["gaps"]["dead_letters"])


def wait_values(topic: Topic, expected: list[bytes | None], running: RunningLink) -> None:
    until(
        lambda: topic.values() == expected,
        lambda: f"{len(expected)}, there are {len(topic.values())}\n{running.text()}",
        COPIED_WITHIN_S,
    )


def ranges(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["cause"], row["first"], row["last"], row["count"], row["choice"]) for row in rows]


@pytest.fixture(scope="module")
def faulty(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    with RegistryServer(RegistryDouble()) as source, RegistryServer(RegistryDouble()) as target:
        made = Faulty(cluster_pair, tmp_path_factory.mktemp("faulty"), [source.url, target.url])
        write_numbers(made.numbers)
        for values in ((b"0", b"1"), (b"hang",), (b"3",)):
            made.hanging.write(*values)
        write_large(made.large)
        write_damaged(made.damaged)
        made.framed_values = write_framed(made.framed, source.url)
        with RunningLink(made.config) as made.running:
            yield made


def write_numbers(topic: Topic) -> None:
    """Two batches, the second one with some at which a pipeline fails; and one in partition 1."""
    values = [BAD.get(n, b"%d" % n) for n in range(300)]
    topic.write(*values[:150])
    topic.write(*values[150:])
    topic.write(b"z", partition=1)


@pytest.mark.provokes("gap:record_failed")
def test_records_at_which_a_pipeline_fails_become_dead_letters(
    faulty: Faulty, provoked: Provoked
) -> None:
    """Given a rule for failing records / when some come amid others / then all others are copied,

    and those are dead letters, whole, with a row each in the gap ledger.
    """
    topic = faulty.numbers
    faulty.copied(topic, [b"%d" % (n + 1) for n in range(300) if n not in BAD])
    until(lambda: len(faulty.letters(topic)) == 3, faulty.running.text, COPIED_WITHIN_S)
    failed = faulty.letters(topic)
    assert {(each.source.partition, each.offset, each.value) for each in failed} == {
        *((0, offset, value) for offset, value in BAD.items()),
        (1, 0, b"z"),
    }
    for each in failed:
        assert (each.key, each.timestamp_ms) == (b"k", topic.at_ms)
        assert each.headers == HEADERS
        assert "CAST_INVALID_INPUT" in each.reason
    until(lambda: len(faulty.gaps(topic)) == 3, "a row each", timeout_s=30)
    rows = [each for each in faulty.gaps(topic) if each["partition"] == 0]
    assert ranges(rows) == [("record_failed", n, n, 1, "dead_letter") for n in BAD]
    provoked("gap:record_failed", rows[0])


def write_large(topic: Topic) -> None:
    """Batches with a record larger than the target will take, and with one without a key."""

    def row(key: bytes | None, value: bytes) -> Sample:
        return Sample(key, value, topic.at_ms, HEADERS)

    topic.write_rows(row(b"a", b"0"))
    topic.write_rows(row(b"b", b"1"), row(b"c", LARGE), row(b"d", b"3"))
    topic.write_rows(row(b"e", b"4"), row(None, b"5"), row(b"f", b"6"))
    settings = {"max.message.bytes": "1000000", "cleanup.policy": "compact"}
    with ClusterAdmin([topic.pair.source.bootstrap]) as admin:
        assert admin.alter_configs({topic.topic: settings}) == {topic.topic: None}


def test_records_too_large_or_refused_are_passed_by_rules(faulty: Faulty) -> None:
    """Given records larger than the target takes, and without keys for a compacted topic / when

    rules say to keep the former and to skip the latter / then all others arrive, and each of these
    is accounted for.
    """
    topic = faulty.large
    faulty.copied(topic, [b"0", b"1", b"3", b"4", b"6"])
    (letter,) = faulty.letters(topic)
    assert (letter.offset, letter.key, letter.value) == (2, b"c", LARGE)
    assert letter.headers == HEADERS
    assert ranges(faulty.gaps(topic)) == [
        ("record_too_large", 2, 2, 1, "dead_letter"),
        ("record_refused", 5, 5, 1, "continue"),
    ]


def write_damaged(topic: Topic) -> None:
    """Three batches, the second of which is damaged in the broker's file."""
    topic.write(b"0", b"1")
    topic.write(b"2", b"3")
    damage(segment_of(topic.pair.source, TopicPartition(topic.topic, PartitionId(0))))
    topic.write(b"4")


@pytest.mark.provokes("gap:record_corrupt", how="a byte of the source's segment file is changed")
def test_a_damaged_batch_is_kept_as_bytes(faulty: Faulty, provoked: Provoked) -> None:
    """Given a batch that is damaged at the source / when a rule says to keep it / then the records

    behind it arrive, its bytes are a dead letter, and that can't be replayed.
    """
    topic = faulty.damaged
    faulty.copied(topic, [b"0", b"1", b"4"])
    (letter,) = faulty.letters(topic)
    assert (letter.offset, letter.last, letter.is_batch) == (2, 3, True)
    assert letter.value is not None
    assert len(letter.value) > 61  # more than a header
    rows = faulty.gaps(topic)
    assert ranges(rows) == [("record_corrupt", 2, 3, None, "dead_letter")]
    provoked("gap:record_corrupt", rows[0])
    answer = heliostat(faulty.config, "dlq", "replay", topic.topic, "--to-source", "--yes")
    assert answer.returncode == 1
    assert "can't be decoded" in answer.said
    assert len(faulty.letters(topic)) == 1


def write_framed(topic: Topic, registry_url: str) -> list[bytes]:
    """Four batches, the third one compressed; ids of the values at 1, 2, 4 and 6 have no schema."""
    with HttpRegistry(RegistryAccess((registry_url,))) as registry:
        known = registry.ask(calls.register(Subject(f"{topic.topic}-value"), record()))
    unknown = known + 1000
    ids = {1: unknown, 2: unknown, 4: unknown, 6: unknown + 1}
    values = [b"\0" + ids.get(n, known).to_bytes(4, "big") + b"%d" % n for n in range(9)]
    topic.write(*values[:4])
    topic.write(values[4])
    topic.write(*values[5:8], codec=GZIP)
    topic.write(values[8])
    return values


@pytest.mark.provokes("gap:schema_missing")
def test_records_whose_schema_never_appears_become_dead_letters(
    faulty: Faulty, provoked: Provoked
) -> None:
    """Given a rule for missing schemas / when records have ids that no registry has, amid others of

    their batches and compressed / then the others arrive, in order, and those are dead letters.
    """
    values, bad = faulty.framed_values, (1, 2, 4, 6)
    faulty.copied(faulty.framed, [value for n, value in enumerate(values) if n not in bad])
    kept = [(each.offset, each.value) for each in faulty.letters(faulty.framed)]
    assert kept == [(n, values[n]) for n in bad]
    rows = faulty.gaps(faulty.framed)
    assert ranges(rows) == [
        ("schema_missing", 1, 2, 2, "dead_letter"),
        ("schema_missing", 4, 4, 1, "dead_letter"),
        ("schema_missing", 6, 6, 1, "dead_letter"),
    ]
    provoked("gap:schema_missing", rows[0])


def fails_until_mended(frame: Any) -> Any:
    """A function that can't do a record that names a file which is not there."""
    from pyspark.sql import functions

    def checked(value: bytes | None) -> bytes | None:
        if value and value.startswith(b"/") and not Path(value.decode()).exists():
            raise ValueError("not mended")
        return value

    # Without type hints, of which Spark would make another kind of function.
    mended = functions.udf(lambda value: checked(value), "binary")  # noqa: PLW0108  # see above
    return frame.withColumn("value", mended("value"))


def hangs(frame: Any) -> Any:
    """A function that never returns for one record."""
    from pyspark.sql import functions

    def slow(value: bytes | None) -> bytes | None:
        if value == b"hang":
            time.sleep(3600)
        return value

    hanging = functions.udf(lambda value: slow(value), "binary")  # noqa: PLW0108  # as above
    return frame.withColumn("value", hanging("value"))


def test_what_fails_for_a_while_is_tried_again(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a rule to try again / when what a function needs comes later / then the record goes

    through by itself, and nothing is recorded.
    """
    flag = tmp_path / "mended"
    topic = Topic(cluster_pair, "mended")
    config = write_link(
        tmp_path,
        topic,
        pipelines=[topic.pipeline({"function": f"{__name__}:fails_until_mended"})],
        errors={"transform": {"policy": "skip", "retry_for_s": 600}},
    )
    values: list[bytes | None] = [b"0", str(flag).encode(), b"2"]
    for value in values:
        topic.write(value)
    with RunningLink(config) as running:
        until(
            lambda: [each["state"] for each in problems_of(config)] == ["blocked"],
            running.text,
            COPIED_WITHIN_S,
        )
        assert topic.values() == [b"0"]
        flag.touch()
        wait_values(topic, values, running)
    (report,) = said(config, "gaps")
    assert report["rows"] == []


def test_a_record_at_which_a_pipeline_hangs_is_passed(faulty: Faulty) -> None:
    """Given a function that hangs at one record / when its time is over / then that record is

    found and kept, as its rule says, and all others are copied.
    """
    faulty.copied(faulty.hanging, [b"0", b"1", b"3"])
    assert "it hangs" in faulty.running.text()
    assert [each.value for each in faulty.letters(faulty.hanging)] == [b"hang"]
    assert ranges(faulty.gaps(faulty.hanging)) == [("record_failed", 2, 2, 1, "dead_letter")]


def test_dead_letters_are_listed_shown_replayed_and_dropped(faulty: Faulty) -> None:
    """Given dead letters / when they are shown, replayed (to a topic, to the source) and dropped /

    then each record is whole where it was written, and no letter is left; a mirror is refused.
    """
    topic, config = faulty.numbers, faulty.config
    repaired = create_topic(faulty.pair.target, fresh_name("repaired"))
    until(lambda: faulty.letters_reported() == 9, faulty.running.text, COPIED_WITHIN_S)
    until(lambda: not problems_of(config), lambda: f"{problems_of(config)}", timeout_s=30)
    assert faulty.running.stop() == 0
    (report,) = said(config, "dlq", "list", topic.topic)
    places = {(each["partition"], each["offset"]) for each in report["letters"]}
    assert places == {(0, 201), (0, 202), (1, 0)}
    shown = said(config, "dlq", "show", topic.topic, "0", "201")
    assert (shown["value"], shown["headers"]) == (
        "bm8gbnVtYmVy",
        [["secret", "MQ=="], ["kept", None]],
    )
    assert "no number" in heliostat(config, "dlq", "show", topic.topic, "0", "201").said

    def replay(*words: str) -> Any:
        return heliostat(config, "dlq", "replay", topic.topic, *words, "--yes")

    refused = replay("--to", topic.topic)
    assert refused.returncode == 1
    assert "is a mirror" in refused.said
    assert replay("--to", dead_letters_topic(LinkName("other"))).returncode == 1
    assert replay("0", "201", "--to", repaired).returncode == 0
    ((_, key, value, at_ms, headers),) = read_if_there(faulty.pair.target.bootstrap, repaired)
    assert (key, value, at_ms) == (b"k", b"no number", topic.at_ms)
    assert headers == (*HEADERS, ("heliostat.replayed", f"{topic.topic}/0/201".encode()))
    assert replay("1", "--to-source").returncode == 0
    assert ends(faulty.pair.source.bootstrap, {topic.topic: 2})[topic.topic] == [300, 2]
    assert [each.value for each in faulty.letters(topic)] == [b""]
    assert heliostat(config, "dlq", "drop", topic.topic, "--yes").returncode == 0
    assert faulty.letters(topic) == []
    assert heliostat(config, "dlq", "drop", topic.topic, "--yes").returncode == 2
