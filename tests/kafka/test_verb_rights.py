"""A switch and a drill with only the rights that `heliostat acls --switch` prints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from support.clusters import create_topic, fresh_name
from support.links import RunningLink, ends, wait_for, write_config

from heliostat.clusters.acl import AclRule, Operation, PatternKind, ResourceKind
from heliostat.config import ConfigFile, read_config_file
from heliostat.handover.desk import SwitchOptions
from heliostat.handover.drill import DrillWish
from heliostat.handover.drill_report import Verdict
from heliostat.handover.run import RunState
from heliostat.operate.drill import drill
from heliostat.operate.switch import SwitchWish, plan_switch, switch
from heliostat.operate.verb_acls import grants_of_verbs
from heliostat_sandbox import Cluster, Listener, Mechanism, SandboxSecurity

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

LINK, APP = "link", "app"


class Writing:
    """An application that writes until it is stopped, and counts what is refused."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._producer = Producer({**settings, "linger.ms": 5})
        self._topic = topic
        self._is_over = threading.Event()
        self.accepted = 0
        self.refused = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.01):
            try:
                self._producer.produce(self._topic, b"v", on_delivery=self._delivered)
            except KafkaException as error:  # once metadata says so, at once
                self._delivered(error.args[0], None)
            self._producer.poll(0)
        self._producer.flush(30)

    def _delivered(self, error: KafkaError | None, _: Message | None) -> None:
        if error is None:
            self.accepted += 1
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self.refused += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Scene:
    """Two clusters that deny by default, a link with the printed rights, and an application."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path) -> None:
        self.source, self.target = source, target
        self.name, self.topic = fresh_name("moved"), fresh_name("orders")
        create_topic(source, self.topic, partitions=2)
        path = write_config(
            folder,
            *("x:1", "y:1"),
            name=self.name,
            topics={"include": [self.topic], "refresh_interval_s": 1},
            groups={"sync": True, "include": ["readers"], "interval_s": 1},
        )
        config = yaml.safe_load(path.read_text())
        for alias, cluster in (("east", source), ("west", target)):
            access = cluster.credentials.access(
                LINK, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256
            )
            config["clusters"][alias] = {
                "bootstrap": list(access.bootstrap),
                "security": {
                    "protocol": "SASL_PLAINTEXT",
                    "mechanism": "SCRAM-SHA-256",
                    "username": LINK,
                    "password": {"file": access.security.sasl.password.file},
                },
            }
        path.write_text(yaml.safe_dump(config))
        self.path = path
        self.file: ConfigFile = read_config_file(path)
        [self.link] = self.file.config.links
        topic = ResourceKind.TOPIC
        write = AclRule(f"User:{APP}", Operation.WRITE, topic, self.topic, PatternKind.LITERAL)
        sides = grants_of_verbs(self.file.config, self.link)
        for cluster, side in zip((source, target), sides, strict=True):
            cluster.accounts.allow([*side.rules, write])

    def application(self, cluster: Cluster) -> Writing:
        access = cluster.credentials.access(APP, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256)
        settings = {
            "bootstrap.servers": ",".join(access.bootstrap),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": APP,
            "sasl.password": Path(access.security.sasl.password.file).read_text().strip(),
        }
        return Writing(settings, self.topic)

    def denied(self) -> list[str]:
        """Return what brokers have refused the link for want of a right, not by a fence's rule."""
        return [
            line
            for cluster in (self.source, self.target)
            for line in (cluster.brokers[0].folder / "broker.log").read_text().splitlines()
            if "is Denied" in line and f"User:{LINK}" in line
            if "permissionType=DENY" not in line  # a drill's own producers are the link's
        ]


@pytest.fixture
def scene(start_cluster: Callable[..., Cluster], tmp_path: Path) -> Scene:
    security = SandboxSecurity(
        users={LINK: f"{LINK}-secret", APP: f"{APP}-secret"},
        mechanisms=(Mechanism.SCRAM_SHA_256,),
        authorizer=True,
    )
    source, target = (start_cluster(name, security=security) for name in ("left", "right"))
    return Scene(source, target, tmp_path)


def test_a_switch_and_a_drill_need_no_more_rights_than_are_printed(scene: Scene) -> None:
    """Given these rights only / when a drill is held, then the link is switched / then rules keep

    the application out of the source, and the link was refused nothing.
    """
    with RunningLink(scene.path) as running:
        writing = scene.application(scene.source)

        def is_copied() -> bool:
            return sum(ends(scene.target.bootstrap, {scene.topic: 2})[scene.topic]) > 0

        wait_for("something is copied", is_copied, 120.0)
        wish = DrillWish(partitions=6, records_a_second=60, still_s=2.0, load_s=1.0, by="test")
        report = drill(scene.file, scene.link, wish, lambda step: print(step.line(), flush=True))
        assert report.verdict is Verdict.READY, report.markdown()
        fenced = {step.name: step.facts for step in report.steps if "by_rules" in step.facts}
        assert fenced.keys() == {"back", "switch", "return"}
        assert all(facts["by_rules"] for facts in fenced.values()), fenced
        assert writing.refused == 0
        asked = SwitchWish(options=SwitchOptions(still_s=3.0, watch_s=1.0), by="test")
        plan = plan_switch(scene.file.config, scene.link, asked)
        assert plan.is_possible, plan.problems
        run = switch(scene.file.config, scene.link, asked)
        assert run.state is RunState.DONE, run
        assert run.step("fence").facts["by_rules"], run.step("fence")
        until_s = time.monotonic() + 10
        while not writing.refused and time.monotonic() < until_s:
            time.sleep(0.1)
        writing.stop()
        assert writing.refused
        more = scene.application(scene.target)
        wait_for("the target is written", lambda: more.accepted > 0, 20.0)
        more.stop()
        at_target = ends(scene.target.bootstrap, {scene.topic: 2})[scene.topic]
        assert sum(at_target) == writing.accepted + more.accepted
        assert not scene.denied(), scene.denied()[:5]
        running.kill_all()
