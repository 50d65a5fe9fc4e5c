"""A frozen driver that rules keep out of mirrors: each broker of the target shows them at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.group_sides import write_values
from support.links import LinkProcess, ends, wait_for, wait_level, write_config

from heliostat.config import load_config
from heliostat.operate.verb_acls import grants_of_verbs
from heliostat_sandbox import Cluster, Listener, Mechanism, SandboxSecurity

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LINK = "link"


@pytest.fixture
def target(start_cluster: Callable[..., Cluster]) -> Cluster:
    security = SandboxSecurity(
        users={LINK: f"{LINK}-secret"}, mechanisms=(Mechanism.SCRAM_SHA_256,), authorizer=True
    )
    return start_cluster("shut", brokers=3, security=security)


def secured(folder: Path, source: str, target: Cluster, prefix: str, name: str) -> Path:
    """Return a configuration whose link has the printed rights at the target and no others."""
    topics = {"include": [f"{prefix}-.*"], "refresh_interval_s": 1}
    path = write_config(folder, source, "y:1", name=name, topics=topics, lanes={"lease_s": 30})
    access = target.credentials.access(LINK, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256)
    config = yaml.safe_load(path.read_text())
    config["clusters"]["west"] = {
        "bootstrap": list(access.bootstrap),
        "security": {
            "protocol": "SASL_PLAINTEXT",
            "mechanism": "SCRAM-SHA-256",
            "username": LINK,
            "password": {"file": access.security.sasl.password.file},
        },
    }
    path.write_text(yaml.safe_dump(config))
    loaded = load_config(path)
    target.accounts.allow(grants_of_verbs(loaded, loaded.links[0])[1].rules)
    return path


def test_rules_keep_a_frozen_driver_out_at_once(
    cluster_pair: ClusterPair, target: Cluster, tmp_path: Path
) -> None:
    """Given a frozen driver with leases of half a minute / when it is failed over / then rules hold

    within seconds, what it sends once it is back is refused, and the next call lifts them.
    """
    source, prefix, name = cluster_pair.source.bootstrap, fresh_name("shut"), fresh_name("link")
    moved, kept = (create_topic(cluster_pair.source, f"{prefix}-{letter}") for letter in "ab")
    config = secured(tmp_path, source, target, prefix, name)
    topics = {moved: 1, kept: 1}
    with LinkProcess(config) as link:
        for topic in topics:
            write_values(source, topic, [b"1", b"2"])
        wait_level(link, source, target.bootstrap, topics)
        frozen = [process for process in link.tree() if process.is_running()]
        for process in frozen:
            process.suspend()
        for topic in topics:
            write_values(source, topic, [b"late"])
        time.sleep(6)
        [status] = heliostat(config, "status", "--json").json
        assert status["failover_fence"]["by"] == "deny_rule", status["failover_fence"]
        answer = heliostat(config, "failover", name, "--topics", moved, "--yes", "--json")
        assert answer.returncode == 0, answer.said
        report = answer.json
        assert report["fenced_by"] == "deny_rule", answer.said
        print(report["took_s"])
        assert report["took_s"]["fence"] < status["failover_fence"]["within_s"] + 1.0
        write_values(target.bootstrap, moved, [b"new"])
        for process in frozen:
            process.resume()

        def are_copied() -> bool:
            return ends(target.bootstrap, {kept: 1})[kept] == [3]

        wait_for("the other topic is copied", are_copied, 120.0)
        time.sleep(3)
        again = heliostat(config, "failover", name, "--topics", moved, "--yes", "--json").json
        assert again["fenced_by"] == "owner"
        assert again["partitions"] == report["partitions"]
        assert ends(target.bootstrap, {moved: 1})[moved] == [3]
        link.kill_all()
