"""`heliostat explain` at a real link: what it says is what both clusters hold."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import RunningLink, ends, wait_for, write_config
from support.records import Sample, encode, write_batches, write_transaction

from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def write(cluster: Cluster, topic: str, count: int) -> None:
    at_ms = int(time.time() * 1000)
    batch = encode([Sample(b"k", b"%d" % number, at_ms) for number in range(count)])
    write_batches(cluster.bootstrap, topic, [batch])


@pytest.mark.usefixtures("spark")
def test_what_is_explained_is_so(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a mapped mirror, an excluded topic, a mirror that another producer wrote into / when it

    is asked why / then each answer is what both clusters hold, and names what to do.
    """
    source, target, name = cluster_pair.source, cluster_pair.target, fresh_name("link")
    mapped, written, excluded = (create_topic(source, fresh_name("explain")) for _ in range(3))
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        name=name,
        topics={
            "include": [mapped, written, excluded],
            "exclude": [excluded],
            "refresh_interval_s": 1,
        },
    )

    def explained(*words: str, code: int) -> dict[str, Any]:
        answer = heliostat(config, "explain", name, *words, "--json")
        assert answer.returncode == code, answer.said
        return dict(answer.json)

    write_transaction(source.bootstrap, mapped, 5, commit=True)
    write_transaction(source.bootstrap, mapped, 5, commit=False)
    write(source, mapped, 10)
    write(source, written, 10)
    seen = read_committed(source.bootstrap, mapped)
    with RunningLink(config) as running:
        both = {mapped: 1, written: 1}
        wait_for("the copy", lambda: ends(target.bootstrap, both) == {mapped: [15], written: [10]})
        level = wait_for("a level status", lambda: _level(explained, mapped))
        assert "everything that the source had" in level["answer"]
        copies = read_committed(target.bootstrap, mapped)
        assert [row[1:] for row in copies] == [row[1:] for row in seen]
        for row, copied in zip(seen, copies, strict=True):
            if row[0] in {0, 4, 12, 21}:  # of both transactions' neighbours, the first and the last
                landing = explained(f"{mapped}-0@{row[0]}", code=0)["landing"]
                assert (landing["topic"], landing["offset"]) == (mapped, copied[0])
                assert landing["to_ms"] is not None
        assert explained(f"{mapped}-0@7", code=1)["kind"] == "no_record"  # aborted
        end = ends(source.bootstrap, {mapped: 1})[mapped][0]
        assert f"ends at offset {end}" in explained(f"{mapped}-0@{end}", code=1)["answer"]
        assert "there is only 0" in explained(f"{mapped}-7", code=1)["answer"]
        left = explained(excluded, code=1)
        assert (left["kind"], excluded in left["answer"]) == ("not_mirrored", True)
        assert "excluded by" in left["answer"]
        for words, told in ((("never.seen",), "no topic"), (("group", "never.seen"), "no group")):
            assert told in explained(*words, code=1)["answer"]

        began_s = time.time()
        write(source, mapped, 1)
        wait_for("one more", lambda: ends(target.bootstrap, {mapped: 1})[mapped] == [16])
        landed_s = time.time()
        landing = wait_for("its time", lambda: _timed(explained(f"{mapped}-0@{end}", code=0)))
        check_time(landing, began_s, landed_s)

        write(target, written, 1)
        write(source, written, 1)
        wait_for("the stop", lambda: heliostat(config, "gaps").returncode == 1)
        stopped = explained(f"{written}-0", code=1)
        assert (stopped["kind"], stopped["choices"][2]["choice"]) == ("stopped", "restart")
        assert "deleted and recreated" in stopped["choices"][2]["does"]
        assert f"heliostat resolve {written} 0 --link {name}" in stopped["next_steps"][0]["command"]
        assert stopped["since_ms"] > 0
        assert "1 partition is stopped" in heliostat(config, "explain", name).stdout
        assert running.stop() == 0
    away = explained(mapped, code=1)
    assert f"o driver runs the link {name}" in away["answer"]


def check_time(landing: dict[str, Any], began_s: float, landed_s: float) -> None:
    """The times that are told hold the true one, and lie near each other."""
    assert landing["from_ms"] <= landed_s * 1000
    assert landing["to_ms"] >= began_s * 1000
    assert landing["to_ms"] - landing["from_ms"] <= 10_000


def _timed(answer: dict[str, Any]) -> dict[str, Any] | None:
    landing: dict[str, Any] = answer["landing"]
    return None if landing["from_ms"] is None else landing


def _level(explained: Any, topic: str) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = explained(topic, code=0)
    except AssertionError:
        return None
    return answer
