"""The import's result does what MirrorMaker 2's own classes do with the same files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.mirror_jvm import MirrorJvm
from support.mirror_maker_files import CASES
from support.mirror_maker_judge import GROUPS, TOPICS, ClientView, Judge, Verdict

from heliostat.config import (
    BUILT_IN_EXCLUDE,
    ClusterConfig,
    LinkConfig,
    compile_pattern,
    load_config,
)
from heliostat.groups.select import compile_selection
from heliostat.mm2.config import import_mm2
from heliostat.names import TopicName
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

pytestmark = [pytest.mark.peer, pytest.mark.thorough]
NEVER_MIRRORED = {
    t for t in TOPICS if any(compile_pattern(e).fullmatch(t) for e in BUILT_IN_EXCLUDE)
}
"""A link leaves these out even where MirrorMaker 2 copies them."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with MirrorJvm() as jvm:
        yield Judge(jvm)


@pytest.mark.parametrize("case", CASES)
def test_a_file_means_what_mirror_maker_makes_of_it(
    case: str, judge: Judge, tmp_path: Path
) -> None:
    """Given files / when imported / then names, selection and clients are theirs, or told."""
    files, line = CASES[case]
    imported = import_mm2(files)
    told = " ".join(imported.differences)
    assert line in told
    assert bool(line) == bool(told), imported.differences
    (tmp_path / "heliostat.yaml").write_text(imported.to_yaml())
    config = load_config(tmp_path / "heliostat.yaml", env={})
    verdicts = judge.verdicts(files)
    assert len(verdicts) == len(config.links)
    for verdict, link in zip(verdicts, config.links, strict=True):
        wrong = [*differences(verdict, link, told)]
        clusters = {side: config.clusters[getattr(link, side)] for side in ("source", "target")}
        for role, theirs in verdict.clients.items():
            ours = client_view(clusters[role.partition(" ")[0]])
            if ours != theirs and role not in told:
                wrong.append(f"{role}: theirs {theirs}, ours {ours}")
        assert not wrong, "\n".join(wrong)


def differences(theirs: Verdict, link: LinkConfig, told: str) -> Iterator[str]:
    """Yield what the link does otherwise and no line tells."""
    selection, naming = selection_of(link), naming_of(link)
    mirrors = {t: naming.target_name(TopicName(t)) for t in TOPICS if selection.selects(t)}
    for topic in TOPICS:
        is_named_so = topic.endswith("heartbeats")
        is_left_out = topic.endswith("internal") and "are left out" in told
        is_known = is_left_out or (
            is_named_so and ("heartbeats" in told or link.topics.naming == "same")
        )
        if topic in NEVER_MIRRORED or is_known:
            continue
        if mirrors.get(topic) != theirs.mirrors.get(topic):
            yield f"{topic}: theirs {theirs.mirrors.get(topic)}, ours {mirrors.get(topic)}"
    if "emit.checkpoints.enabled" in theirs.values:
        groups = compile_selection(link.groups)
        ours = {each for each in GROUPS if groups.by_name(each).skip is None}
        if ours != theirs.groups:
            yield f"groups: theirs {theirs.groups}, ours {ours}"
    for name, value in values_of(link).items():
        expected = theirs.values.get(name)
        is_told = name in told or (name.startswith("heartbeats") and "heartbeats were" in told)
        if expected is not None and value != expected and not is_told:
            yield f"{name}: theirs {expected!r}, ours {value!r}"


def values_of(link: LinkConfig) -> dict[str, Any]:
    """Return what a link does, by the names of MirrorMaker 2."""
    topics, records = link.topics, link.records
    start = "earliest" if topics.start == "earliest" else "latest"
    return {
        "replication.factor": 2 if topics.replication_factor is None else topics.replication_factor,
        "sync.topic.configs.enabled": topics.sync_configs,
        "heartbeats.replication.enabled": link.heartbeats.mirror,
        "heartbeats at the source": link.heartbeats.interval_s if link.heartbeats.emit else 0,
        "consumer.auto.offset.reset": start,
        "consumer.fetch.max.bytes": str(records.fetch_bytes_max),
        "consumer.max.partition.fetch.bytes": str(records.partition_fetch_bytes_max),
        "producer.compression.type": records.compression,
        "sync.group.offsets.enabled": link.groups.sync,
        "emit.checkpoints.enabled": link.checkpoints.emit,
    }


def client_view(cluster: ClusterConfig) -> ClientView:
    """Return what decides where our clients connect, and as whom."""
    security = cluster.security
    found: ClientView = {"bootstrap": sorted(cluster.bootstrap), "protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        found["verify_hostname"] = security.verify_hostname
    if security.protocol.startswith("SASL"):
        found["mechanism"] = security.mechanism
        endpoint = security.token_endpoint
        found["user"] = security.username if endpoint is None else endpoint.client_id
    return found
