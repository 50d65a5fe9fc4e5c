"""`heliostat check` without brokers: what is asked about rights, this machine, and what is dead."""

from __future__ import annotations

import hashlib
import socket
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.command import heliostat

from heliostat.clusters.acl import AclRule, Operation, PatternKind, ResourceKind
from heliostat.config import load_config
from heliostat.errors import BrokerError
from heliostat.names import TopicName
from heliostat.operate import check as checking
from heliostat.operate.acls import ClusterGrants, Grant
from heliostat.operate.check import refused_findings
from heliostat.operate.check_machine import (
    certificate_findings,
    machine_findings,
    spark_findings,
)
from heliostat.operate.check_rights import rights_asked, rights_findings
from heliostat.operate.check_target import trial_topic
from heliostat.operate.finding import Finding, Standing
from heliostat.ops.certificates import validities
from heliostat.serve.check_service import service_findings

NOW = datetime(2026, 11, 28, tzinfo=UTC)
FIRST, SECOND = TopicName("a.1"), TopicName("a.2")


def written(folder: Path, **keys: Any) -> Path:
    """Write a configuration whose clusters answer nowhere."""
    settings = {
        "clusters": {"east": {"bootstrap": ["127.0.0.1:1"]}, "west": {"bootstrap": "127.0.0.1:2"}},
        "service": {"listen": "127.0.0.1:0"},
        "links": [{"name": "one", "source": "east", "target": "west", "topics": {"include": "a"}}],
        **keys,
    }
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def grant(operation: Operation, name: str = "a.", kind: ResourceKind = ResourceKind.TOPIC) -> Grant:
    """Return a rule for names that begin so."""
    return Grant(AclRule("User:m", operation, kind, name, PatternKind.PREFIXED), "copy")


def side(*grants: Grant) -> ClusterGrants:
    """Return the rules of a target."""
    return ClusterGrants("target", "west", "w:1", "User:m", grants, ())


def by_code(findings: list[Finding]) -> dict[str, Finding]:
    """Return what is not fine."""
    return {each.code: each for each in findings if each.standing is not Standing.FINE}


def test_a_prefix_is_asked_about_for_topics_there_and_for_those_to_come() -> None:
    write = grant(Operation.WRITE)
    asked = rights_asked([write], [FIRST, TopicName("b")])
    names = [right.name for right in asked[write]]
    assert names == ["a.1", "a.heliostat.probe"]


@pytest.mark.parametrize(
    ("refused", "code", "words"),
    [
        (("a.1", "a.2", "a.heliostat.probe"), "RIGHT_MISSING", "Write on topic names that begin"),
        (("a.1",), "RIGHT_MISSING", "refused for a.1"),
        (("a.heliostat.probe",), "RIGHT_MISSING_FOR_NEW_TOPICS", "not for those to come"),
    ],
)
def test_a_missing_right_is_one_line_with_what_it_is_for(
    refused: tuple[str, ...], code: str, words: str
) -> None:
    write, read = grant(Operation.WRITE), grant(Operation.READ)
    asked = rights_asked([write, read], [FIRST, SECOND])
    answers = {
        right: not (right.operation is Operation.WRITE and right.name in refused)
        for rights in asked.values()
        for right in rights
    }
    (finding,) = rights_findings("link one", side(write, read), asked, answers)
    assert (finding.code, words in finding.text) == (code, True), finding
    assert "it is needed to copy" in finding.hint


def test_rights_that_are_not_shown_are_a_note() -> None:
    write = grant(Operation.WRITE)
    asked = rights_asked([write], [])
    findings = list(rights_findings("link one", side(write), asked, dict.fromkeys(asked[write])))
    assert list(by_code(findings)) == ["RIGHT_NOT_SHOWN"]
    assert findings[-1].text == "0 of 1 rights at the target"


def test_one_policy_is_one_problem_for_all_its_topics() -> None:
    answers = {
        name: BrokerError(f"create topic {name}: not {name}, by policy", kafka_code=44)
        for name in (FIRST, SECOND)
    }
    hidden = BrokerError("create topic b: no", kafka_code=29)
    (finding,) = refused_findings("link one", {**answers, TopicName("b"): hidden})
    assert finding.code == "POLICY_VIOLATION"
    assert "(and 1 more topics)" in finding.text


@pytest.mark.parametrize(
    ("topics", "name"),
    [
        ({"include": ["a"]}, "heliostat.one.check"),
        ({"include": [".*"]}, "heliostat.one.check"),
        ({"include": [".*"], "naming": {"prefix": "e."}}, "e.heliostat-check.one"),
        ({"include": [r"b\..*"], "naming": {"prefix": "e."}}, "e.b.heliostat-check.one"),
        ({"include": [r"b\..*"]}, "b.heliostat-check.one"),
    ],
)
def test_the_topic_of_a_try_has_a_name_that_the_rights_cover(
    tmp_path: Path, topics: dict[str, Any], name: str
) -> None:
    link = {"name": "one", "source": "east", "target": "west", "topics": topics}
    (first,) = load_config(written(tmp_path, links=[link])).links
    assert trial_topic(first) == name


def test_dead_clusters_and_this_machine_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "STEP_S", 0.1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        service = {"listen": listen, "tokens_file": str(tmp_path / "none")}
        answer = heliostat(written(tmp_path, service=service), "check", "--no-spark", "--json")
    findings = answer.json["findings"]
    problems = [(row["subject"], row["code"]) for row in findings if row["standing"] == "problem"]
    assert answer.returncode == 1
    assert set(problems) == {
        ("this machine", "SPARK_UNAVAILABLE"),
        ("service", "REFUSED"),
        ("service", "CONFIG_REFUSED"),
        ("cluster east", "CONNECTION_LOST"),
        ("cluster west", "CONNECTION_LOST"),
    }
    assert all(row["hint"] for row in findings if row["standing"] == "problem")
    assert [row["subject"] for row in findings if row["code"] == "NOT_CHECKED"] == ["link one"]


@pytest.mark.parametrize(
    ("folder", "code"), [("", "SPARK_UNAVAILABLE"), ("/etc/hadoop/conf", "SPARK_NOT_TRIED")]
)
def test_yarn_is_found_by_a_folder_of_hadoops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, code: str
) -> None:
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", folder)
    config = load_config(written(tmp_path, spark={"master": "yarn"}))
    (found,) = spark_findings(config, starts=False)
    assert found.code == code
    assert "HADOOP_CONF_DIR" in found.text or folder


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('openjdk version "11.0.2" 2019', "JAVA_TOO_OLD"),
        ('java version "1.8.0_292"', "JAVA_TOO_OLD"),
        ('openjdk version "17.0.1"', ""),
        ("no idea", "JAVA_UNUSABLE"),
    ],
)
def test_java_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    first = next(iter(machine_findings(load_config(written(tmp_path)))))
    assert first.code == code


def certificate(folder: Path, name: str, days: int, *, begins_days: int = -1) -> Path:
    """Write a certificate that ends so many days from `NOW` on, and its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW + timedelta(days=min(begins_days, days - 1)))
        .not_valid_after(NOW + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.mark.parametrize("days", [1, 400, 20_000])  # from 2050 on times are written otherwise
def test_validity_is_read_as_by_a_library(tmp_path: Path, days: int) -> None:
    path = certificate(tmp_path, "one", days)
    (seen,) = validities(path)
    assert seen.end == NOW + timedelta(days=days)


@pytest.mark.parametrize("text", ["", "no", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.pem").write_text(text)
    with pytest.raises(ValueError, match=r"certificate|PEM|padding|broken"):
        validities(tmp_path / "bad.pem")


@pytest.mark.parametrize(
    ("days", "begins_days", "code"),
    [
        (-1, -9, "CERTIFICATE_EXPIRED"),
        (9, 3, "CERTIFICATE_EXPIRED"),
        (9, -1, "CERTIFICATE_EXPIRES"),
        (90, -1, ""),
    ],
)
def test_certificates_that_end_are_told(
    tmp_path: Path, days: int, begins_days: int, code: str
) -> None:
    path = certificate(tmp_path, "own", days, begins_days=begins_days)
    security = {"protocol": "SSL", "ca_file": str(path)}
    clusters = {"east": {"bootstrap": ["e:1"], "security": security}, "west": {"bootstrap": "w:1"}}
    config = load_config(written(tmp_path, clusters=clusters))
    (finding,) = certificate_findings(config, NOW.timestamp())
    assert (finding.code, finding.subject) == (code, "cluster east")


def test_a_service_is_looked_at_with_its_tokens_and_its_key(tmp_path: Path) -> None:
    one, other = certificate(tmp_path, "one", 90), certificate(tmp_path, "other", 90)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"me:view:{hashlib.sha256(b'x').hexdigest()}\n")
    tokens.chmod(stat.S_IRUSR)

    def findings(key: Path) -> list[Finding]:
        tls = {"certificate_file": str(one), "key_file": str(key)}
        service = {"listen": "127.0.0.1:0", "tokens_file": str(tokens), "tls": tls}
        return list(service_findings(load_config(written(tmp_path, service=service))))

    assert by_code(findings(one.with_suffix(".key"))) == {}
    assert list(by_code(findings(other.with_suffix(".key")))) == ["CREDENTIALS_UNREADABLE"]


def test_a_refused_file_is_usage(tmp_path: Path) -> None:
    answer = heliostat(written(tmp_path, links=[{"name": "x"}]), "check")
    assert answer.returncode == 2
