"""Missing clusters, Java or JVM: the operator sees one clear sentence, soon, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import LinkProcess, RunningLink, ends, wait_for, words_of, write_config
from support.provoked import Provoked
from support.records import Sample, encode, write_batches

from heliostat_sandbox import ClientAuth, Cluster, Listener, Mechanism, SandboxSecurity
from heliostat_sandbox.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

TOLD_WITHIN_S = 15.0
STARTED_WITHIN_S = 30.0
"""Limit for a separate process, whose imports alone take 5 s of a shared processor."""
HALTED = 3
RECORDS = 20
SAMPLES = encode([Sample(b"k", b"v", 1_790_000_000_000) for _ in range(RECORDS)])


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    security = SandboxSecurity(users={"link": "secret"}, client_auth=ClientAuth.NONE)
    with Cluster.start("secured", heap_mb=HEAP_MB, security=security) as cluster:
        yield cluster


@dataclass(frozen=True)
class Misfit:
    """A cluster that the configuration fails to reach, and the expected message."""

    alias: str
    section: dict[str, Any]
    word: str


def misfits(secured: Cluster) -> tuple[Misfit, ...]:
    """A closed port, TLS spoken to a listener without, and the other way round."""
    tls = secured.credentials.access("link", Listener.SSL, Mechanism.PLAIN)
    plain = secured.credentials.access("link", Listener.PLAINTEXT, Mechanism.PLAIN)
    with_tls = {"protocol": "SSL", "ca_file": tls.security.ca_file}
    return (
        Misfit("closed", {"bootstrap": [f"127.0.0.1:{free_ports(1)[0]}"]}, "[CONNECTION_LOST]"),
        Misfit("no-tls", {"bootstrap": [*tls.bootstrap]}, "our request was plaintext"),
        Misfit(
            "only-tls", {"bootstrap": [*plain.bootstrap], "security": with_tls}, "one without TLS"
        ),
    )


def config_of(folder: Path, found: tuple[Misfit, ...], good: Cluster) -> Path:
    """Each of them as the source of one link and the target of another; the good one beside."""
    sections = {each.alias: each.section for each in found}
    sections["good"] = {"bootstrap": [good.bootstrap]}
    pairs = [(each.alias, "good") for each in found] + [("good", each.alias) for each in found]
    config = {
        "clusters": sections,
        "spark": {"master": "local[2]"},
        "links": [
            {
                "name": f"{fresh_name(source)}-to-{target}",
                "source": source,
                "target": target,
                "topics": {"include": [f"none-of-{source}"]},
                "lanes": {"lease_s": 5, "count": 1},
            }
            for source, target in pairs
        ],
    }
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_cluster_that_cannot_be_entered_is_reported_by_alias(
    secured: Cluster, cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a closed port, TLS where none is and none where it is / then one sentence, by verb."""
    found = misfits(secured)
    config = config_of(tmp_path, found, cluster_pair.source)
    links = yaml.safe_load(config.read_text())["links"]
    for each in found:
        [as_source] = [link["name"] for link in links if link["source"] == each.alias]
        [as_target] = [link["name"] for link in links if link["target"] == each.alias]
        for verb, link in (
            ("plan", as_source),
            ("verify", as_source),
            ("plan", as_target),
            ("status", as_target),
        ):
            began_s = time.monotonic()
            answer = heliostat(config, verb, "--link", link)
            assert time.monotonic() - began_s < TOLD_WITHIN_S
            assert answer.returncode == HALTED, answer.said
            [line] = answer.stderr.splitlines()
            assert each.word in line
            assert each.alias in line


@pytest.mark.usefixtures("spark")
def test_a_running_link_reports_such_clusters_too(
    secured: Cluster, cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given links from and to such clusters / when run / then each is reported soon, in a line."""
    found = misfits(secured)
    config = config_of(tmp_path, found, cluster_pair.source)
    names = [link["name"] for link in yaml.safe_load(config.read_text())["links"]]
    with RunningLink(config) as link:

        def told(name: str, misfit: Misfit) -> bool:
            said = [line for line in link.text().splitlines() if name in line]
            return any(misfit.word in line and misfit.alias in line for line in said)

        wait_for(
            "word of all",
            lambda: all(told(name, each) for name, each in zip(names, [*found] * 2, strict=True)),
            TOLD_WITHIN_S,
        )
        assert "Traceback" not in link.text()
        assert link.stop() == 0


def env_without_java(folder: Path) -> dict[str, str]:
    """A PATH that leads to no Java."""
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(folder)}


def called(config: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "heliostat.cli.entry", *words, "-c", str(config)]
    return subprocess.Popen(  # the test's own program
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


@pytest.fixture
def filled(cluster_pair: ClusterPair, tmp_path: Path) -> tuple[Path, str]:
    """A link of a topic with some records: its file, and the topic."""
    topic = create_topic(cluster_pair.source)
    write_batches(cluster_pair.source.bootstrap, topic, [SAMPLES])
    config = write_config(
        tmp_path,
        cluster_pair.source.bootstrap,
        cluster_pair.target.bootstrap,
        name=fresh_name("link"),
        topics={"include": [topic], "refresh_interval_s": 1},
        lanes={"lease_s": 5, "count": 1},
    )
    return config, topic


@pytest.mark.parametrize("home", ["", "/nowhere"])
def test_without_java_only_verbs_that_need_it_fail(
    filled: tuple[Path, str], tmp_path: Path, home: str
) -> None:
    """Given no Java / when called / then `run` and `verify` report it, other verbs work."""
    config, _ = filled
    env = env_without_java(tmp_path) | ({"JAVA_HOME": home} if home else {})
    for verb in ("run", "verify"):
        words = (verb, "--plain") if verb == "run" else (verb,)
        began_s = time.monotonic()
        out, err = called(config, *words, env=env).communicate(timeout=60)
        assert time.monotonic() - began_s < STARTED_WITHIN_S
        [line] = err.splitlines()
        assert line.startswith("heliostat: [SPARK_UNAVAILABLE] "), (out, err)
        assert "Java" in line
        assert home in line
    for verb in ("plan", "status"):
        process = called(config, verb, env=env)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (1, ""), (out, err)


def jvm_below(pid: int) -> psutil.Process | None:
    """Spark's JVM among the children of a process."""
    below = psutil.Process(pid).children(recursive=True)
    return next(
        (each for each in below if "org.apache.spark.deploy" in " ".join(words_of(each))), None
    )


def is_working(pid: int) -> bool:
    """Whether its Spark has begun to run Python."""
    below = psutil.Process(pid).children(recursive=True)
    return any("daemon" in " ".join(words_of(each)) for each in below)


@pytest.mark.provokes("SPARK_UNAVAILABLE", how="kill -9 of the driver's JVM")
def test_a_link_whose_jvm_dies_reports_it_and_ends(
    filled: tuple[Path, str], cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given a link that copies / when Spark's JVM is killed / then reported soon, exit code 3."""
    config, topic = filled
    with LinkProcess(config) as link:
        wait_for(
            "records",
            lambda: ends(cluster_pair.target.bootstrap, {topic: 1})[topic] == [RECORDS],
        )
        jvm = jvm_below(link.process.pid)
        assert jvm is not None
        jvm.kill()
        wait_for("word of it", lambda: "[SPARK_UNAVAILABLE]" in link.text(), TOLD_WITHIN_S)
        assert link.process.wait(60) == HALTED, link.text()
        said = link.text()
        assert "Traceback" not in said, said
        [halted] = [line for line in said.splitlines() if line.startswith("halted: ")]
        assert "JVM" in halted
        provoked("SPARK_UNAVAILABLE", halted)


@pytest.mark.parametrize("moment", [jvm_below, is_working], ids=["at its start", "at work"])
def test_verify_whose_jvm_dies_reports_it(
    filled: tuple[Path, str], cluster_pair: ClusterPair, moment: Callable[[int], object]
) -> None:
    """Given `verify` / when Spark's JVM is killed / then one sentence, and exit code 3."""
    config, topic = filled
    create_topic(cluster_pair.target, topic)
    write_batches(cluster_pair.target.bootstrap, topic, [SAMPLES])
    process = called(config, "verify", "--topic", topic)
    wait_for("the moment", lambda: moment(process.pid), 60)
    jvm = jvm_below(process.pid)
    assert jvm is not None
    jvm.kill()
    began_s = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began_s < TOLD_WITHIN_S
    assert process.returncode == HALTED, (out, err)
    told = [line for line in err.splitlines() if "[SPARK_UNAVAILABLE]" in line]
    assert len(told) == 1, err
    assert "Traceback" not in err, err
