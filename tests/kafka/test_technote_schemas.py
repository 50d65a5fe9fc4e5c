"""Sections 4.3 and 4.4 of the first users' technote, and its appendix: records with schemas, with a
real `heliostat run` in place of Connect, MirrorMaker 2 and Confluent's Replicator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from support.avro_clients import AvroReader, AvroWriter, open_registry
from support.clusters import HEAP_MB, create_topic, until
from support.connect_clients import Client
from support.connect_tour import ConnectTour
from support.links import LinkProcess
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from support.toy import JANE, JOHN, foo, register_own, with_own
from unit.connect.technote import KEPT_NAMES, REPLICATOR, UPLOADS

from heliostat_sandbox import ClusterSpec, SandboxRegistry, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

Registries = AbstractContextManager[tuple[str, str]]
"""Addresses of both sides' registries."""


@contextmanager
def _doubles() -> Iterator[tuple[str, str]]:
    """Registries with Confluent's rules."""
    with RegistryServer(with_own(5)) as here, RegistryServer(RegistryDouble()) as there:
        yield here.url, there.url


@contextmanager
def _apicurio() -> Iterator[tuple[str, str]]:
    """What `heliostat sandbox up --registry` starts; the target has more schemas of its own."""
    with SandboxRegistry.start() as here, SandboxRegistry.start() as there:
        register_own(there.url, 5)
        yield here.url, there.url


@contextmanager
def _begun(
    folder: Path, strategy: str, opened: Registries
) -> Iterator[tuple[ConnectTour, Client, LinkProcess, tuple[str, str]]]:
    """Give clusters with a registry each, a run that knows them, and `kafkaconnect`."""
    specs = [ClusterSpec("src", heap_mb=HEAP_MB), ClusterSpec("destn", heap_mb=HEAP_MB)]
    both = start_many(specs)  # of its own: whoever runs the links of a home runs all of them
    with both[0] as source, both[1] as target, opened as registries:
        tour = ConnectTour(source, target, folder, registries, strategy)
        with (
            LinkProcess(tour.config, "--plain") as run,
            Client("connect_clients", "kafkaconnect.cli:main", tour.options(), {}) as client,
        ):
            until(lambda: client.run("list")[1].strip() == "[]", run.text)
            yield tour, client, run, registries
            assert run.stop() == 0, run.text()


@pytest.mark.parametrize(
    ("strategy", "registries"),
    [("", _doubles), ("rewrite", _apicurio)],
    ids=["doubles", "apicurio"],
)
def test_avro_records_arrive_decodable_by_mirror_maker_and_by_replicator(
    strategy: str, registries: Callable[[], Registries], tmp_path: Path
) -> None:
    """Given a registry beside each cluster / when the technote's connectors name `_schemas` with an

    empty alias and separator, and then its Replicator takes their place / then Confluent's own

    consumer decodes each record as soon as it sees it, under both names.
    """
    with _begun(tmp_path, strategy, registries()) as (tour, client, run, (here, there)):
        create_topic(tour.cluster, tour.topic)
        with (
            AvroReader(tour.target, there, tour.topic) as kept,
            AvroReader(tour.target, there, f"summit.{tour.topic}") as renamed,
            AvroWriter(tour.source, here, foo(tour.topic)) as writer,
            open_registry(there) as registry,
        ):
            writer.write(tour.topic, JOHN, JANE)
            for config in UPLOADS:
                changed = {**config, **KEPT_NAMES, "topics": "foo,_schemas"}
                tour.upload(client, str(config["name"]), changed)
            until(lambda: tour.states(client)[0] == "RUNNING", run.text)
            kept.wait([JOHN, JANE])
            assert f"{tour.topic}-value" in registry.get_subjects()
            assert min(kept.ids) > 5, "ids are the source's, or the target's own"

            assert client.run("delete", "mirror-source")[0] == 0
            replicator = {
                **REPLICATOR,
                "src.kafka.bootstrap.servers": tour.source,
                "dest.kafka.bootstrap.servers": tour.target,
                "topic.whitelist": f"_schemas,{tour.topic}",
            }
            tour.upload_as_is(client, "replicator", replicator)
            until(
                lambda: (
                    json.loads(client.run("status", "replicator")[1])["connector"]["state"]
                    == "RUNNING"
                ),
                run.text,
            )
            writer.write(tour.topic, JOHN)
            renamed.wait([JOHN, JANE, JOHN])
            assert f"summit.{tour.topic}-value" in registry.get_subjects()
            assert renamed.ids == kept.ids
            kept.wait([JOHN, JANE])  # what the first connector made stays, and gets no more
