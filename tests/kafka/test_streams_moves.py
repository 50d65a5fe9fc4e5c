"""A real Kafka Streams application that moves: it goes on exactly where it stood."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.group_sides import write_values
from support.links import RunningLink, ends, write_config
from support.streams_app import StreamsApp, counts_in, exact_counts

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 2
WORDS = [f"w{number * number % 7}" for number in range(300)]
MORE = [f"w{number % 5}" for number in range(100)]


def write(bootstrap: str, topic: str, words: list[str]) -> None:
    for partition in range(PARTITIONS):
        own = [word.encode() for word in words[partition::PARTITIONS]]
        write_values(bootstrap, topic, own, partition)


@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_an_exactly_once_application_moves_with_exact_counts(
    cluster_pair: ClusterPair, tmp_path: Path, protocol: str
) -> None:
    """Given an application that counts exactly once, with a repartition topic and a changelog /

    when it is stopped at the source, with records that it has not read, and started at the target
    without any state of its own / then each count of each word is there once, in order.
    """
    name = fresh_name("counting")
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    words = create_topic(cluster_pair.source, fresh_name("words"), partitions=PARTITIONS)
    counts = create_topic(cluster_pair.source, fresh_name("counts"))
    path = write_config(
        tmp_path,
        source,
        target,
        name=fresh_name("link"),
        topics={"include": [words, counts, f"{name}-.*"], "refresh_interval_s": 0.5},
        groups={"sync": True, "include": [name], "interval_s": 0.5},
    )
    write(source, words, WORDS)
    with RunningLink(path) as link:
        with StreamsApp(source, name, words, counts, tmp_path / "here", protocol=protocol) as app:
            at_source = exact_counts(WORDS)
            until(lambda: counts_in(source, counts) == at_source, app.text)
        write(source, words, MORE)

        def has_moved() -> bool:
            sizes = {words: PARTITIONS}
            if ends(target, sizes) != ends(source, sizes):  # a status may be as of a second ago
                return False
            (status,) = said(path, "status")
            return status["lag_records"] == 0 and heliostat(path, "groups").returncode == 0

        until(has_moved, link.text, timeout_s=180)
        assert counts_in(target, counts) == at_source
    with StreamsApp(target, name, words, counts, tmp_path / "there", protocol=protocol) as app:
        wanted = exact_counts(WORDS + MORE)

        def what() -> str:
            found = counts_in(target, counts)
            return f"{ {word: (found.get(word), wanted[word]) for word in wanted} }: {app.text()}"

        until(lambda: counts_in(target, counts) == wanted, what)
