"""`heliostat sandbox load`: records for a cluster, at a steady rate or as fast as possible."""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import asdict, dataclass

import click

from heliostat.errors import Refused
from heliostat.names import TopicName
from heliostat_sandbox import named
from heliostat_sandbox.efd import CATALOGUE_TOPICS, Profile, efd_load, efd_topics
from heliostat_sandbox.load import LoadCounts, LoadGenerator
from heliostat_sandbox.shapes import CODECS, GenericShape, TopicLoad

GENERIC_RATE_HZ = 100.0
"""Records per second of `--topic` when no `--rate` is given."""


@dataclass(frozen=True, slots=True)
class _Totals:
    """Answer for `--json`, at the end."""

    topics: int
    partitions: int
    seconds: float
    counts: LoadCounts


@click.command("load")
@click.argument("cluster")
@click.option(
    "--profile",
    type=click.Choice([each.name.lower() for each in Profile]),
    default="nominal",
    show_default=True,
    help="Records per second over all topics: 300, 2,200 or 12,000.",
)
@click.option(
    "--topics",
    "topic_count",
    type=click.IntRange(1, CATALOGUE_TOPICS),
    default=200,
    show_default=True,
    help="Number of topics of the EFD's catalogue.",
)
@click.option("--rate", type=click.FloatRange(0), help="Records per second, instead of a profile.")
@click.option("--seconds", type=click.FloatRange(0), help="Duration; until Ctrl-C by default.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of names and contents.")
@click.option("--compact-events", is_flag=True, help="Compact events, as at the observatory.")
@click.option("--log-append-time", is_flag=True, help="Create topics with LogAppendTime.")
@click.option("--idempotent", is_flag=True, help="Send producer ids and sequences, as Java does.")
@click.option("--topic", "topic", metavar="NAME", help="One topic of generic records instead.")
@click.option("--partitions", type=click.IntRange(1), default=1, help="Partitions of --topic.")
@click.option("--value-bytes", type=click.IntRange(0), default=500, help="Value size in --topic.")
@click.option("--batch-records", type=click.IntRange(1), default=1, help="Records per batch.")
@click.option("--codec", type=click.Choice(list(CODECS)), default="none", help="Compression.")
@click.option("--keys", type=click.IntRange(0), help="Number of different keys; default null keys.")
@click.option(
    "--fill", type=click.IntRange(1), help="Write this many records to --topic, fast, then end."
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def load_command(  # noqa: PLR0917 - click passes them by name
    cluster: str,
    profile: str,
    topic_count: int,
    rate: float | None,
    seconds: float | None,
    seed: int,
    compact_events: bool,
    log_append_time: bool,
    idempotent: bool,
    topic: str | None,
    partitions: int,
    value_bytes: int,
    batch_records: int,
    codec: str,
    keys: int | None,
    fill: int | None,
    as_json: bool,
) -> None:
    r"""Put load on CLUSTER: the name of a sandbox cluster, or `host:port`.

    --partitions, --value-bytes, --batch-records, --codec, --keys and --fill are for --topic.

    \b
    Examples:
      heliostat sandbox load summit --profile quiet --seconds 60
      heliostat sandbox load summit --topic bulk --batch-records 128 --fill 1000000
      heliostat sandbox load 127.0.0.1:9092 --topic tiny --partitions 4 --rate 5000
    """
    configs = {"message.timestamp.type": "LogAppendTime"} if log_append_time else {}
    if topic is not None:
        shape = GenericShape(value_bytes, keys)
        wanted_hz = GENERIC_RATE_HZ if rate is None else rate
        name = TopicName(topic)
        loads = [TopicLoad(name, partitions, wanted_hz, shape, batch_records, codec, configs)]
    elif fill is not None:
        raise click.UsageError("--fill needs --topic")
    else:
        catalogue = efd_topics(
            topic_count, seed, compact_events=compact_events, log_append_time=log_append_time
        )
        loads = efd_load(catalogue, Profile[profile.upper()] if rate is None else rate)
    started_s = time.monotonic()
    if fill is not None:
        generator = LoadGenerator(_bootstrap(cluster), [], seed=seed, idempotent=idempotent)
        counts = LoadCounts(fill, generator.fill(loads[0], fill).total(), 0, 0, 0, 0)
    else:
        generator = LoadGenerator(_bootstrap(cluster), loads, seed=seed, idempotent=idempotent)
        counts = _run(generator, seconds)
    partition_count = sum(load.partitions for load in loads)
    _show(_Totals(len(loads), partition_count, time.monotonic() - started_s, counts), as_json)


def _run(generator: LoadGenerator, seconds: float | None) -> LoadCounts:
    """Run until the time is over, or Ctrl-C or SIGTERM."""
    ended = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        generator.start()
        ended.wait(seconds)
        return generator.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _bootstrap(cluster: str) -> str:
    if ":" in cluster:
        return cluster
    found = named.open_cluster(cluster)
    if found is None:
        raise Refused("no such sandbox cluster", name=cluster, known=named.known_names())
    return found.bootstrap


def _show(totals: _Totals, as_json: bool) -> None:
    counts = totals.counts
    if as_json:
        facts = {**asdict(totals), **asdict(counts)}
        del facts["counts"]
        click.echo(json.dumps(facts))
        return
    lost = counts.refused + counts.unknown + counts.left_out
    click.echo(
        f"{counts.acknowledged:,} records acknowledged in {totals.topics:,} topics "
        f"({totals.partitions:,} partitions) in {totals.seconds:.1f} s"
        + (
            f"; refused {counts.refused:,}, unknown {counts.unknown:,}, "
            f"left out {counts.left_out:,}"
            if lost
            else ""
        )
    )
