"""The first users' own tour, section 4 of their technote, with a real `heliostat run` in place of
Connect and MirrorMaker 2, driven by their `kafkaconnect` as published.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from support.clusters import HEAP_MB, create_topic, until
from support.command import heliostat
from support.connect_clients import Client
from support.connect_tour import ConnectTour
from support.links import LinkProcess
from unit.connect.technote import CHECKPOINT, HEARTBEAT, SOURCE

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LINK = "src-to-destn"


def test_three_uploads_are_a_link_that_is_steered_by_their_own_command(
    tmp_path: Path,
) -> None:
    """Given a run without a link / when three connectors are uploaded, a topic made and grown, the

    connector paused, resumed, restarted, given an offset and other names, and deleted / then each

    is seen by `heliostat`, too.
    """
    specs = [ClusterSpec("src", heap_mb=HEAP_MB), ClusterSpec("destn", heap_mb=HEAP_MB)]
    both = start_many(specs)  # of its own: whoever runs the links of a home runs all of them
    with both[0] as source, both[1] as target:
        _tour(ConnectTour(source, target, tmp_path))


def exists(bootstrap: str, name: str) -> bool:
    with closing(ClusterAdmin(bootstrap.split(","))) as admin:
        topic = TopicName(name)
        return admin.describe_topics([topic])[topic].error is None


def _tour(tour: ConnectTour) -> None:
    with (
        LinkProcess(tour.config, "--plain") as run,
        Client("connect_clients", "kafkaconnect.cli:main", tour.options(), {}) as client,
    ):
        until(lambda: client.run("list")[1].strip() == "[]", run.text)
        for name, config in (
            ("heartbeat", HEARTBEAT),
            ("checkpoint", CHECKPOINT),
            ("mirror-source", SOURCE),
        ):
            tour.upload(client, name, config)
        until(lambda: tour.states(client)[0] == "RUNNING", run.text)
        until(lambda: exists(tour.target, "heartbeats"), run.text)
        until(lambda: exists(tour.source, "mm2-offset-syncs.destn.internal"), run.text)
        create_topic(tour.cluster, tour.topic)
        tour.write(1)
        until(lambda: tour.mirror() == [1], run.text)
        with closing(ClusterAdmin(tour.source.split(","))) as admin:
            admin.grow_partitions({tour.topic: 2})
        until(lambda: tour.mirror() == [1, 0], run.text)
        tour.write(2)
        until(lambda: tour.mirror() == [2, 1], run.text)
        assert set(tour.states(client)[1]) == {"RUNNING"}

        assert client.run("pause", "mirror-source")[0] == 0
        until(lambda: tour.states(client)[0] == "PAUSED", run.text)
        [status] = heliostat(tour.config, "status", "--json").json
        assert (status["link"], status["state"]) == (LINK, "paused")
        assert heliostat(tour.config, "resume", LINK).returncode == 0
        until(lambda: tour.states(client)[0] == "RUNNING", run.text)
        assert client.run("restart", "mirror-source")[0] == 0
        tour.write(2)
        until(lambda: tour.mirror() == [3, 2], run.text)

        _skip(tour, client, run)

        tour.upload(client, "mirror-source", SOURCE | {"replication.policy.separator": "-"})
        until(lambda: tour.mirror("src-") == [6, 4], run.text)
        tour.upload(client, "mirror-source", SOURCE)
        tour.write(2)
        until(lambda: tour.mirror() == [5, 5], run.text)

        assert client.run("delete", "mirror-source")[0] == 0
        until(lambda: "mirror-source" not in client.run("list")[1], run.text)
        until(lambda: heliostat(tour.config, "status", "--json").json == [], run.text)
        assert tour.mirror() == [5, 5], "mirrors stay"
        # Their link may still have copied the last records before it ended.
        assert tour.mirror("src-") in ([6, 4], [7, 5]), "as those of other names"
        assert run.stop() == 0, run.text()


def _skip(tour: ConnectTour, client: Client, run: LinkProcess) -> None:
    """Leave out two of three records of a partition, of a mirror that has three, by its offset."""
    one, before = "/connectors/mirror-source", {0: 2, 1: 1}
    until(lambda: tour.offsets() == before, run.text)
    assert tour.ask("PUT", f"{one}/stop")[0] == 204
    until(lambda: tour.states(client)[0] == "STOPPED", run.text)
    for partitions in (1, 2, 2):
        tour.write(partitions)
    assert tour.offsets() == before
    for wrong in ({0: 5, 1: 0}, {0: 5, 1: 99}):
        assert tour.alter(wrong)[0] == 500
        assert tour.offsets() == before, "all of it, or nothing"
    status, told = tour.alter({0: 4})
    assert status == 200, told
    assert tour.offsets() == {0: 4, 1: 1}
    assert tour.ask("PUT", f"{one}/resume")[0] == 202
    until(lambda: tour.mirror() == [4, 4], run.text)
    until(lambda: tour.offsets() == {0: 5, 1: 3}, run.text)
    [report] = heliostat(tour.config, "gaps", "--json").json
    [gap] = report["rows"]
    assert (gap["cause"], gap["first"], gap["last"], gap["count"]) == ("skipped", 3, 4, 2)
    assert "left out, as an operator has set the offset forwards" in run.text()
