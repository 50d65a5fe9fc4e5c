"""Records that can't be copied: tried again, skipped, or kept as dead letters (I6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.holes import read_if_there
from support.links import RunningLink, ends, write_config
from support.one_partition import damage, segment_of
from support.piped import Piped
from support.provoked import Provoked
from support.records import GZIP, Headers, Sample, encode, write_batches
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
LARGE_BYTES = 2_000_000
HEADERS: Headers = (("secret", b"1"), ("kept", None))


class Link:
    """A topic, and a link of its own with rules for errors."""

    def __init__(
        self, pair: ClusterPair, folder: Path, errors: dict[str, Any], **more: Any
    ) -> None:
        self.pair = pair
        self.topic = create_topic(
            pair.source, fresh_name("faulty"), configs={"max.message.bytes": "5000000"}
        )
        self.at_ms = int(time.time() * 1000)
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=fresh_name("link"),
            topics={"include": [self.topic], "refresh_interval_s": 0.5},
            errors=errors,
            **more,
        )

    def write(self, *records: tuple[bytes | None, bytes | None], codec: int = 0) -> None:
        """Write one batch of keys and values."""
        rows = [Sample(key, value, self.at_ms, HEADERS) for key, value in records]
        write_batches(self.pair.source.bootstrap, self.topic, [encode(rows, codec)])

    def set(self, **configs: str) -> None:
        """Change settings of the source topic."""
        values = {name.replace("_", "."): value for name, value in configs.items()}
        with ClusterAdmin([self.pair.source.bootstrap]) as admin:
            assert admin.alter_configs({self.topic: values}) == {self.topic: None}

    def values(self) -> list[bytes | None]:
        rows = read_if_there(self.pair.target.bootstrap, self.topic)
        return [row[2] for row in rows]


def letters_of(config: Path) -> list[DeadLetter]:
    whole = load_config(config)
    (link,) = whole.links
    letters = DeadLetters(LinkName(link.name), whole.clusters[link.target].access())
    return list(letters.read().values())


def rows_of(config: Path) -> list[dict[str, Any]]:
    (report,) = said(config, "gaps")
    return list(report["rows"])


def ranges(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["cause"], row["first"], row["last"], row["count"], row["choice"]) for row in rows]


def copied(link: Link | Piped, expected: list[bytes | None], running: RunningLink) -> None:
    """Wait until the target has these values."""
    until(
        lambda: link.values() == expected,
        lambda: f"{len(expected)}, there are {len(link.values())}\n{running.text()}",
        timeout_s=180,
    )


@pytest.mark.provokes("gap:record_failed")
def test_records_at_which_a_pipeline_fails_become_dead_letters(
    cluster_pair: ClusterPair, tmp_path: Path, provoked: Provoked
) -> None:
    """Given a rule for failing records / when some come amid others / then all others are copied,

    and those are dead letters, whole, with a row each in the gap ledger.
    """
    piped = Piped(cluster_pair, tmp_path, ADD_ONE, errors={"transform": KEPT})
    values = [b"%d" % n for n in range(300)]
    bad = {7: b"seven", 201: b"no number", 202: b""}
    for at, value in bad.items():
        values[at] = value
    piped.write(*values[:150])
    piped.write(*values[150:])
    with RunningLink(piped.config) as running:
        copied(piped, [b"%d" % (n + 1) for n in range(300) if n not in bad], running)
        until(lambda: not piped.problems(), "no stop", timeout_s=30)
        (status,) = said(piped.config, "status")
        assert status["driver"]["gaps"]["dead_letters"] == 3
    letters = letters_of(piped.config)
    assert [(each.offset, each.value) for each in letters] == list(bad.items())
    for each in letters:
        assert (each.key, each.timestamp_ms) == (b"k", piped.at_ms)
        assert each.headers == HEADERS
        assert "CAST_INVALID_INPUT" in each.reason
    rows = rows_of(piped.config)
    assert ranges(rows) == [("record_failed", at, at, 1, "dead_letter") for at in bad]
    provoked("gap:record_failed", rows[0])


def test_records_too_large_or_refused_are_passed_by_rules(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given records larger than the target takes, and without keys for a compacted topic / when

    rules say to keep the former and to skip the latter / then all others arrive, and each of these
    is accounted for.
    """
    link = Link(cluster_pair, tmp_path, {"too_large": KEPT, "refused": {"policy": "skip"}})
    large = bytes(LARGE_BYTES)
    link.write((b"a", b"0"))
    link.write((b"b", b"1"), (b"c", large), (b"d", b"3"))
    link.write((b"e", b"4"), (None, b"5"), (b"f", b"6"))
    link.set(max_message_bytes="1000000", cleanup_policy="compact")
    with RunningLink(link.config) as running:
        copied(link, [b"0", b"1", b"3", b"4", b"6"], running)
    (letter,) = letters_of(link.config)
    assert (letter.offset, letter.key, letter.value) == (2, b"c", large)
    assert letter.headers == HEADERS
    assert ranges(rows_of(link.config)) == [
        ("record_too_large", 2, 2, 1, "dead_letter"),
        ("record_refused", 5, 5, 1, "continue"),
    ]


@pytest.mark.provokes("gap:record_corrupt", how="a byte of the source's segment file is changed")
def test_a_damaged_batch_is_kept_as_bytes(
    cluster_pair: ClusterPair, tmp_path: Path, provoked: Provoked
) -> None:
    """Given a batch that is damaged at the source / when a rule says to keep it / then the records

    behind it arrive, its bytes are a dead letter, and that can't be replayed.
    """
    link = Link(cluster_pair, tmp_path, {"corrupt": KEPT})
    link.write((b"a", b"0"), (b"b", b"1"))
    link.write((b"c", b"2"), (b"d", b"3"))
    damage(segment_of(cluster_pair.source, TopicPartition(link.topic, PartitionId(0))))
    link.write((b"e", b"4"))
    with RunningLink(link.config) as running:
        copied(link, [b"0", b"1", b"4"], running)
    (letter,) = letters_of(link.config)
    assert (letter.offset, letter.last, letter.is_batch) == (2, 3, True)
    assert letter.value is not None
    assert len(letter.value) > 61  # more than a header
    rows = rows_of(link.config)
    assert ranges(rows) == [("record_corrupt", 2, 3, None, "dead_letter")]
    provoked("gap:record_corrupt", rows[0])
    answer = heliostat(link.config, "dlq", "replay", link.topic, "--to-source", "--yes")
    assert answer.returncode == 1
    assert "can't be decoded" in answer.said
    assert len(letters_of(link.config)) == 1


@pytest.fixture
def registries() -> Iterator[tuple[RegistryServer, RegistryServer]]:
    with RegistryServer(RegistryDouble()) as source, RegistryServer(RegistryDouble()) as target:
        yield source, target


@pytest.mark.provokes("gap:schema_missing")
def test_records_whose_schema_never_appears_become_dead_letters(
    cluster_pair: ClusterPair,
    tmp_path: Path,
    registries: tuple[RegistryServer, RegistryServer],
    provoked: Provoked,
) -> None:
    """Given a rule for missing schemas / when records have ids that no registry has, amid others of

    their batches and compressed / then the others arrive, in order, and those are dead letters.
    """
    rule = {**KEPT, "retry_for_s": 2}
    schemas = {"strategy": "preserve", "interval_s": 1}
    urls = [each.url for each in registries]
    rules = {"schema_missing": rule}
    link = Link(cluster_pair, tmp_path, rules, schemas=schemas, registries=urls)
    with HttpRegistry(RegistryAccess((registries[0].url,))) as registry:
        known = registry.ask(calls.register(Subject(f"{link.topic}-value"), record()))

    def framed(number: int, schema_id: int = known) -> tuple[bytes, bytes]:
        return b"k", b"\x00" + schema_id.to_bytes(4, "big") + b"%d" % number

    unknown = known + 1000
    batches = [
        [framed(0), framed(1, unknown), framed(2, unknown), framed(3)],
        [framed(4, unknown)],
        [framed(5), framed(6, unknown + 1), framed(7)],
        [framed(8)],
    ]
    for number, batch in enumerate(batches):
        link.write(*batch, codec=GZIP if number == 2 else 0)
    bad = {1, 2, 4, 6}
    rows = [each for batch in batches for each in batch]
    with RunningLink(link.config) as running:
        copied(link, [value for n, (_, value) in enumerate(rows) if n not in bad], running)
    letters = letters_of(link.config)
    assert [(each.offset, each.value) for each in letters] == [(n, rows[n][1]) for n in sorted(bad)]
    found = rows_of(link.config)
    assert ranges(found) == [
        ("schema_missing", 1, 2, 2, "dead_letter"),
        ("schema_missing", 4, 4, 1, "dead_letter"),
        ("schema_missing", 6, 6, 1, "dead_letter"),
    ]
    provoked("gap:schema_missing", found[0])


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
    errors = {"transform": {"policy": "skip", "retry_for_s": 600}}
    step = {"function": f"{__name__}:fails_until_mended"}
    piped = Piped(cluster_pair, tmp_path, step, errors=errors)
    piped.write(b"0", str(flag).encode(), b"2")
    with RunningLink(piped.config) as running:
        until(
            lambda: [each["state"] for each in piped.problems()] == ["blocked"], running.text, 180
        )
        assert piped.values() == [b"0"]
        flag.touch()
        copied(piped, [b"0", str(flag).encode(), b"2"], running)
    assert rows_of(piped.config) == []


def test_a_record_at_which_a_pipeline_hangs_is_found_and_skipped(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a function that hangs at one record / when its time is over / then that record is

    found and skipped, as its rule says, and all others are copied.
    """
    piped = Piped(
        cluster_pair,
        tmp_path,
        {"function": f"{__name__}:hangs"},
        errors={"transform": {"policy": "skip"}},
        timeout_s=5,
    )
    piped.write(b"0", b"1", b"hang", b"3")
    with RunningLink(piped.config) as running:
        copied(piped, [b"0", b"1", b"3"], running)
        assert "it hangs" in running.text()
    assert ranges(rows_of(piped.config)) == [("record_failed", 2, 2, 1, "continue")]


def test_dead_letters_are_listed_shown_replayed_and_dropped(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given dead letters / when they are shown, replayed (to a topic, to the source) and dropped /

    then each record is whole where it was written, and no letter is left; a mirror is refused.
    """
    piped = Piped(cluster_pair, tmp_path, ADD_ONE, errors={"transform": KEPT})
    repaired = create_topic(cluster_pair.target, fresh_name("repaired"))
    piped.write(b"x", b"1", b"y")
    piped.write(b"z", partition=1)
    with RunningLink(piped.config) as running:
        until(lambda: len(letters_of(piped.config)) == 3, running.text, timeout_s=180)
        copied(piped, [b"2"], running)
    (report,) = said(piped.config, "dlq", "list", piped.topic)
    places = {(each["partition"], each["offset"]) for each in report["letters"]}
    assert places == {(0, 0), (0, 2), (1, 0)}
    shown = said(piped.config, "dlq", "show", piped.topic, "0", "2")
    assert (shown["value"], shown["headers"]) == ("eQ==", [["secret", "MQ=="], ["kept", None]])
    assert "y" in heliostat(piped.config, "dlq", "show", piped.topic, "0", "2").said

    def replay(*words: str) -> Any:
        return heliostat(piped.config, "dlq", "replay", piped.topic, *words, "--yes")

    refused = replay("--to", piped.topic)
    assert refused.returncode == 1
    assert "is a mirror" in refused.said
    assert replay("--to", dead_letters_topic(LinkName("other"))).returncode == 1
    assert replay("0", "2", "--to", repaired).returncode == 0
    ((_, key, value, at_ms, headers),) = piped.read(repaired)
    assert (key, value, at_ms) == (b"k", b"y", piped.at_ms)
    assert headers == (*HEADERS, ("heliostat.replayed", f"{piped.topic}/0/2".encode()))
    assert replay("1", "--to-source").returncode == 0
    assert ends(cluster_pair.source.bootstrap, {piped.topic: 2})[piped.topic] == [3, 2]
    assert [each.value for each in letters_of(piped.config)] == [b"x"]
    dropped = heliostat(piped.config, "dlq", "drop", piped.topic, "--yes")
    assert dropped.returncode == 0
    assert letters_of(piped.config) == []
    assert heliostat(piped.config, "dlq", "drop", piped.topic, "--yes").returncode == 2
