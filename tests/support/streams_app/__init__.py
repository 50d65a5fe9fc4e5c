"""A real application of Kafka Streams that counts words exactly once (`Counts.java`).

It is run from its source, so it needs a JDK, not only a Java runtime. Its group, its repartition
topic and its changelog are what moves with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Self

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from support.clusters import until

from heliostat_sandbox.jars import STREAMS, ensure_jars
from heliostat_sandbox.java import find_java

SOURCE = Path(__file__).with_name("Counts.java")
HEAP = "-Xmx192m"
READY_WITHIN_S = 120.0
END_WITHIN_S = 60.0


class StreamsApp:
    """A running application; it leaves its group at the block's end.

    Parameters
    ----------
    bootstrap
        The cluster that it reads and writes.
    name
        Its `application.id`, and so its group.
    words, counts
        Topics in and out.
    folder
        Where its state and its log are; another one each time, so that it restores its changelog.
    protocol
        `streams` (KIP-1071) or `classic`.
    """

    def __init__(
        self,
        bootstrap: str,
        name: str,
        words: str,
        counts: str,
        folder: Path,
        *,
        protocol: str = "streams",
    ) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log"
        command = (
            *(str(find_java()), HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Dlog4j2.level=ERROR", "-cp", os.pathsep.join(map(str, ensure_jars(STREAMS)))),
            *(str(SOURCE), bootstrap, name, words, counts, str(folder / "state"), protocol),
        )
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        until(lambda: "state RUNNING" in self.text(), self.text, READY_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let it commit and leave its group, if it runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_WITHIN_S)
            raise AssertionError(f"it does not end: {self.text()}") from None

    def text(self) -> str:
        """What it has written."""
        return self.log.read_text(errors="replace")


def counts_in(bootstrap: str, topic: str) -> dict[str, list[int]]:
    """Return all counts of each word in a topic of one partition, in order; committed ones."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    found: dict[str, list[int]] = {}
    try:
        partition = KafkaPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        (end,) = consumer.end_offsets([partition]).values()
        while consumer.position(partition) < end:
            for records in consumer.poll(1_000).values():
                for record in records:
                    found.setdefault(record.key.decode(), []).append(int(record.value))
    finally:
        consumer.close()
    return found


def exact_counts(words: list[str]) -> dict[str, list[int]]:
    """Return what an application makes of these words that counts each exactly once."""
    return {word: list(range(1, count + 1)) for word, count in Counter(words).items()}
