"""What a scan says of topics and groups, in each of its faces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.cli.scan import Duration, cluster_of, markdown_lines, text_lines
from heliostat.config.one_cluster import cluster_at, security_in
from heliostat.errors import ConfigError
from heliostat.operate.scanned import Care, ScannedCluster, ScannedGroup, ScannedTopic, cares

SASL = {
    "protocol": "SASL_SSL",
    "mechanism": "SCRAM-SHA-512",
    "username": "m",
    "password": {"env": "PASSWORD"},
}


def topic(name: str, size: int | None = 100, **more: Any) -> ScannedTopic:
    """Return a topic of one partition."""
    settings = {key.replace("_", "."): value for key, value in more.pop("settings", {}).items()}
    return ScannedTopic(name, 1, 1, False, size, 10, None, None, settings, **more)


def cluster(*topics: ScannedTopic, groups: tuple[ScannedGroup, ...] = ()) -> ScannedCluster:
    """Return a cluster that has these."""
    return ScannedCluster(
        *("east", "e:1", "id", "4.1", ("1: e:1",), False, 0.0, topics, groups),
        *((), {}, None, None, cares(topics, groups), ("SCRAM users: no",)),
    )


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (topic("t", settings={"cleanup_policy": "compact,delete"}), "COMPACTED"),
        (topic("t", open_transactions=2), "OPEN_TRANSACTIONS"),
        (topic("t", settings={"remote_storage_enable": "true"}), "TIERED"),
        (topic("t", settings={"message_timestamp_type": "LogAppendTime"}), "LOG_APPEND_TIME"),
        (topic("t", settings={"max_message_bytes": "2000000"}), "LARGE_MESSAGES"),
        (topic("t", settings={"max_message_bytes": "200000000"}), "TOO_LARGE_MESSAGES"),
        (topic("t", settings={"retention_ms": "60000"}), "SHORT_RETENTION"),
        (topic("t", without_leader=1), "NO_LEADER"),
        (topic("t.a_b"), "DOTS_AND_UNDERSCORES"),
        (topic("__t"), "NEVER_MIRRORED"),
        (topic("heliostat.x.state"), "NEVER_MIRRORED"),
    ],
)
def test_care_is_named_by_topic(one: ScannedTopic, code: str) -> None:
    assert cares([one], []) == (Care(code, cares([one], [])[0].text, (one.name,)),)


def test_a_plain_topic_needs_no_care_and_groups_by_kind_do() -> None:
    assert cares([topic("t", settings={"retention_ms": "-1"})], []) == ()
    groups = [ScannedGroup(kind, kind, "Stable", 1, 0) for kind in ("share", "streams", "classic")]
    assert [care.code for care in cares([], groups)] == ["SHARE_GROUPS", "STREAMS_GROUPS"]
    clash = cares([topic("a.b"), topic("a_b")], [])
    assert [care.items for care in clash if care.code == "NAME_COLLISION"] == [("a.b = a_b",)]


def test_every_face_shows_topics_groups_care_and_what_is_not_shown() -> None:
    many = [topic(f"t{number:03}", 1000 - number) for number in range(40)]
    seen = cluster(*many, topic("big|one", None), groups=(ScannedGroup("g", "", "", 1, None),))
    lines = list(text_lines(seen, 30))
    assert "  … 11 more (--all)" in lines
    assert "at least" in "".join(lines)
    assert "  not shown: SCRAM users: no" in lines
    page = "\n".join(markdown_lines(seen))
    assert "| big\\|one | 1 | 1 | - | 10 |" in page
    assert page.count("\n| t0") == 40


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("2m", 120), ("0.5", 0.5)])
def test_a_window_is_a_duration(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


def test_a_cluster_is_named_by_the_file_or_by_its_address(tmp_path: Path) -> None:
    file = tmp_path / "sasl.yaml"
    file.write_text(yaml.safe_dump(SASL))
    given_one = cluster_of("kafka-1.example.org:9093,k2:9093", tmp_path / "none", file)
    assert given_one.bootstrap == ("kafka-1.example.org:9093", "k2:9093")
    assert given_one.access().alias == "kafka-1.example.org"
    assert security_in(file) == SASL
    with pytest.raises(ConfigError, match="no such file"):
        cluster_of("east", tmp_path / "none", None)


@pytest.mark.parametrize(
    ("address", "security", "words"),
    [
        ("nowhere", {}, "not host:port"),
        ("a:1", {"protocol": "SASL_SSL", "password": "geheim"}, "a secret is never written here"),
        ("a:1", {"colour": "red"}, "security.colour"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_said_without_its_secrets(
    address: str, security: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster_at(address, security)
    assert words in str(raised.value)
    assert "geheim" not in str(raised.value)
