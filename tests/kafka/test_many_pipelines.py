"""Many pipelines as rows, and few places: how long until each has copied a record."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml
from support.clusters import ClusterPair, until
from support.links import RunningLink
from support.piped import Topic, write_link
from support.spark import CORES

from heliostat.config import load_config
from heliostat.operate.plan import plan_link, with_pipelines

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

PLACES = 8
"""As on a machine of two cores, by default."""


@pytest.mark.parametrize("count", [23, 45])
def test_each_of_many_pipelines_begins_soon(
    cluster_pair: ClusterPair, tmp_path: Path, count: int
) -> None:
    """Given more pipelines as rows than places / when the link runs / then each has copied a record

    within the time that `plan` tells, and those after it at once.
    """
    topics = [Topic(cluster_pair, f"many-{number}") for number in range(count)]
    steps = [
        ({"where": f"length(value) < {100 + number}"}, {"set": {"key": f"'{number}'"}})
        for number in range(count)
    ]
    pipelines = [each.pipeline(*own) for each, own in zip(topics, steps, strict=True)]
    path = write_link(tmp_path, *topics, pipelines=pipelines)
    config = yaml.safe_load(path.read_text())
    config["spark"] = {"master": f"local[{CORES}]", "task_cpus": CORES / PLACES}
    path.write_text(yaml.safe_dump(config))
    for each in topics:
        each.write(b"first", b"x" * 200)
    within_s = told_by_plan(path)
    begun_s = time.monotonic()
    waits_s: dict[str, float] = {}

    def look(wanted: int) -> bool:
        for each in topics:
            if each.topic not in waits_s and len(each.values()) == wanted:
                waits_s[each.topic] = time.monotonic() - begun_s
        return len(waits_s) == count

    with RunningLink(path) as link:
        until(lambda: look(1), link.text, timeout_s=600)
        tell(f"{count} pipelines, first records within {within_s:.0f} s", waits_s)
        assert max(waits_s.values()) <= within_s
        for number, each in enumerate(topics):
            assert [(row[1], row[2]) for row in each.read()] == [(b"%d" % number, b"first")]
        waits_s.clear()
        begun_s = time.monotonic()
        for each in topics:
            each.write(b"later")
        until(lambda: look(2), link.text, timeout_s=600)
        tell(f"{count} pipelines, later records", waits_s)


def told_by_plan(path: Path) -> float:
    """Return within how many seconds all pipelines copy."""
    config = load_config(path)
    (link,) = config.links
    notes = " ".join(with_pipelines(config, link, plan_link(config, link)).notes)
    found = re.search(r"all of them copy within about (\d+) s", notes)
    assert found is not None, notes
    return float(found[1])


def tell(what: str, waits_s: dict[str, float]) -> None:
    found = sorted(waits_s.values())
    half = found[len(found) // 2]
    print(f"{what}: first {found[0]:.1f} s, half {half:.1f} s, last {found[-1]:.1f} s")
