"""Switch, tail, way back and drill with only the rights that `heliostat acls --switch` prints.

Over TLS with SCRAM, at clusters that deny by default.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from support.clusters import create_topic, fresh_name
from support.group_sides import write_values
from support.links import RunningLink, ends, wait_for, write_config

from heliostat.clusters.acl import AclRule, Operation, PatternKind, ResourceKind
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.config import ConfigFile, LinkConfig, read_config_file
from heliostat.errors import BrokerError
from heliostat.handover.desk import SwitchOptions, Weight
from heliostat.handover.drill import DrillWish
from heliostat.handover.drill_report import Verdict
from heliostat.handover.run import Run, RunState, StepState
from heliostat.names import GroupId, Offset, PartitionId, TopicPartition
from heliostat.operate.drill import drill, plan_drill
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import ReturnState, Reversal, Tail
from heliostat.operate.switch import SwitchWish, plan_switch, switch
from heliostat.operate.tail_moves import append_tail
from heliostat.operate.verb_acls import RUN_ID, grants_of_verbs
from heliostat.rescue import source_rest
from heliostat_sandbox import Cluster, Listener, Mechanism, SandboxSecurity

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

LINK, APP, READERS = "link", "app", "readers"
LISTENER, MECHANISM = Listener.SASL_SSL, Mechanism.SCRAM_SHA_256
FAST = SwitchOptions(still_s=1.0, watch_s=0.5)
PATIENT = SwitchOptions(still_s=5.0, watch_s=0.5)
OWN = "heliostat.drill-"
BEYOND = 1_000_000
"""An offset that the group of the old source has, and that never was."""


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

    def is_refused(self) -> bool:
        return self.refused > 0

    def is_accepted(self) -> bool:
        return self.accepted > 0

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Scene:
    """Two clusters that deny by default, links with the printed rights, and an application."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path, **topics: Any) -> None:
        self.source, self.target = source, target
        self.missed = 0
        """Refusals that were meant."""
        self.topic = create_topic(source, fresh_name("orders"), partitions=2)
        self.tailed = create_topic(source, fresh_name("tailed"))
        write_values(source.bootstrap, self.tailed, [b"before"])
        topics = {"include": [self.topic, self.tailed], "refresh_interval_s": 1, **topics}
        path = write_config(
            folder,
            *("x:1", "y:1"),
            name=fresh_name("moved"),
            topics=topics,
            groups={"sync": True, "include": [READERS], "interval_s": 1},
        )
        config = yaml.safe_load(path.read_text())
        [there] = config["links"]
        back = {"name": fresh_name("back"), "source": "west", "target": "east"}
        config["links"].append({**there, **back})
        for alias, cluster in (("east", source), ("west", target)):
            access = cluster.credentials.access(LINK, LISTENER, MECHANISM)
            config["clusters"][alias] = {
                "bootstrap": list(access.bootstrap),
                "security": {
                    "protocol": LISTENER.protocol,
                    "mechanism": MECHANISM.value,
                    "username": LINK,
                    "password": {"file": access.security.sasl.password.file},
                    "ca_file": access.security.ca_file,
                },
            }
        path.write_text(yaml.safe_dump(config))
        self.path = path
        self.file: ConfigFile = read_config_file(path)
        self.link, self.back = self.file.config.links
        topic = ResourceKind.TOPIC
        write = AclRule(f"User:{APP}", Operation.WRITE, topic, self.topic, PatternKind.LITERAL)
        for cluster in (source, target):
            cluster.accounts.allow([write])
        self.allow(self.link, source, target)

    def allow(self, link: LinkConfig, *clusters: Cluster) -> None:
        """Grant what is printed for a link and its verbs."""
        for cluster, side in zip(clusters, grants_of_verbs(self.file.config, link), strict=True):
            cluster.accounts.allow(side.rules)

    def application(self, cluster: Cluster) -> Writing:
        access = cluster.credentials.access(APP, LISTENER, MECHANISM)
        settings = {
            "bootstrap.servers": ",".join(access.bootstrap),
            "security.protocol": LISTENER.protocol,
            "ssl.ca.location": access.security.ca_file,
            "sasl.mechanism": MECHANISM.value,
            "sasl.username": APP,
            "sasl.password": Path(access.security.sasl.password.file).read_text().strip(),
        }
        return Writing(settings, self.topic)

    def ends(self, cluster: Cluster) -> list[int]:
        return ends(cluster.bootstrap, {self.topic: 2})[self.topic]

    def turn_back(self) -> Reversal:
        """Rescue the tail that a super user has written past the fence, and reverse."""
        config = self.file.config
        assert append_tail(config, self.link, by="test").appended == 1
        return reverse(config, self.link, self.back, tail=Tail.RECREATE, by="test")

    def commit(self, cluster: Cluster, offset: int) -> None:
        """Commit an offset of the group, as its owner does."""
        place = TopicPartition(self.topic, PartitionId(0))
        commits = {GroupId(READERS): {place: CommittedOffset(Offset(offset))}}

        def is_done() -> bool:
            """Whether it is: a cluster's first group has no coordinator for a while."""
            [answers] = admin.commit_offsets(commits).values()
            return not isinstance(answers, BrokerError) and set(answers.values()) == {None}

        with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
            wait_for("a commit", is_done, 60.0)

    def switch(self, link: LinkConfig, *, finishes: bool = False) -> None:
        """Switch all of a link; rules keep producers out, but for a super user: it is named."""
        wish = SwitchWish(options=FAST, by="test", finishes=finishes)
        config = self.file.config

        def is_possible() -> bool:
            plan = plan_switch(config, link, wish)
            print([each.text for each in plan.problems], flush=True)
            assert "right_missing" not in {each.code for each in plan.problems}
            return plan.is_possible

        wait_for("it can be switched", is_possible, 60.0)
        if finishes:
            self.finish_past_the_fence()
        late: list[str] = []

        def told(run: Run) -> None:
            if run.step("watch").state is StepState.RUNNING and link is self.link and not late:
                write_values(self.source.bootstrap, self.tailed, [b"past the fence"])
                late.append(f"{self.tailed}-0: 1 records came")

        run = switch(config, link, wish, told)
        assert run.state is RunState.DONE, run
        assert run.step("watch").facts.get("written", []) == late, run.step("watch")
        assert run.step("fence").facts["by_rules"], run.step("fence")

    def finish_past_the_fence(self) -> None:
        """Finish while a super user writes on: it is foretold, named, and sends the run back."""
        wish = SwitchWish(options=PATIENT, by="test", finishes=True)
        config, link = self.file.config, self.link
        plan = plan_switch(config, link, wish)
        [not_fenced] = [each for each in plan.problems if each.code == "not_fenced"]
        assert not_fenced.weight is Weight.TOLD
        assert "no rule holds for super users" in not_fenced.text
        write = partial(write_values, self.source.bootstrap, self.tailed, [b"past the fence"])
        past = threading.Timer(0.3, write)

        def told(run: Run) -> None:
            if run.step("still").state is StepState.RUNNING and past.ident is None:
                past.start()

        run = switch(config, link, wish, told)
        past.join(30)
        assert run.state is RunState.WENT_BACK, run
        assert run.step("fence").facts["by_rules"]
        assert f"{self.tailed}-0: 1 records came" in run.step("still").text, run.step("still")

    def miss_right(self) -> None:
        """Take the right away with which a run is kept, until a dry run names it."""
        config, link = self.file.config, self.link
        target = grants_of_verbs(config, link)[1]
        rules = [each.rule for each in target.grants if each.why in RUN_ID.values()]
        assert self.target.accounts.take_back(rules) == 1

        def is_named() -> bool:
            plan = plan_switch(config, link, SwitchWish(options=FAST, by="test"))
            texts = [each.text for each in plan.problems if each.code == "right_missing"]
            return any(f"heliostat.{link.name}.run" in text for text in texts)

        wait_for("the right to be missed", is_named, 60.0)
        self.target.accounts.allow(rules)
        wait_for("the right to be back", lambda: not is_named(), 60.0)
        missed = self.denied()
        assert all(f"heliostat.{link.name}.run" in line for line in missed), missed
        self.missed = len(missed)

    def miss_of_drill(self) -> None:
        """Take rights away that a drill needs for its way back only: they are named, no other."""
        [write] = [
            each.rule
            for each in grants_of_verbs(self.file.config, self.link)[0].grants
            if (each.rule.kind, each.rule.name) == (ResourceKind.TRANSACTIONAL_ID, OWN)
        ]
        assert self.source.accounts.take_back([write]) == 1

        def named() -> list[tuple[str, str, str]]:
            missing = plan_drill(self.file, self.link, DrillWish(by="test")).look.missing
            return [(each.cluster, each.text, each.part.value) for each in missing]

        line = ("east", f"Write on transactional ids {OWN}*", "way_back")
        wait_for("the right to be missed", lambda: named() == [line], 60.0)
        self.source.accounts.allow([write])
        wait_for("the right to be back", lambda: not named(), 60.0)
        self.missed += sum(OWN in line for line in self.denied())

    def denied(self) -> list[str]:
        """Return what brokers have refused the link for want of a right, not by a fence's rule."""
        # A drill's own producers are the link's.
        return [line for line in self.refusals() if "permissionType=DENY" not in line]

    def refusals(self) -> list[str]:
        """Return all that brokers have refused the link."""
        return [
            line
            for cluster in (self.source, self.target)
            for line in (cluster.brokers[0].folder / "broker.log").read_text().splitlines()
            if "is Denied" in line and f"User:{LINK}" in line
        ]


def a_scene(start_cluster: Callable[..., Cluster], folder: Path, **topics: Any) -> Scene:
    security = SandboxSecurity(
        users={LINK: f"{LINK}-secret", APP: f"{APP}-secret"},
        mechanisms=(MECHANISM,),
        authorizer=True,
    )
    source, target = (start_cluster(name, security=security) for name in ("left", "right"))
    return Scene(source, target, folder, **topics)


@pytest.fixture
def scene(start_cluster: Callable[..., Cluster], tmp_path: Path) -> Scene:
    return a_scene(start_cluster, tmp_path, protect=True)


def test_switch_tail_way_back_and_drill_need_no_more_rights_than_are_printed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given these rights only / when a drill is held, then the link is switched, a tail rescued and

    its topic made anew on the way back, and all switched back / then rules keep the application out
    where it is not to write, each record is at both sides, the group is set back, and the links
    were refused nothing.
    """
    monkeypatch.setattr(source_rest, "STANDS_STILL_S", 1.0)
    with RunningLink(scene.path) as running:
        writing = scene.application(scene.source)
        wait_for("something is copied", lambda: sum(scene.ends(scene.target)) > 0, 120.0)
        wish = DrillWish(partitions=6, records_a_second=60, still_s=1.0, load_s=1.0, by="test")
        report = drill(scene.file, scene.link, wish, lambda step: print(step.line(), flush=True))
        assert report.verdict is Verdict.READY, report.markdown()
        fenced = {step.name: step.facts for step in report.steps if "by_rules" in step.facts}
        assert fenced.keys() == {"back", "switch", "return"}
        assert all(facts["by_rules"] for facts in fenced.values()), fenced
        assert writing.refused == 0
        scene.miss_right()
        scene.miss_of_drill()
        written = 0
        ways = ((scene.link, scene.source, scene.target), (scene.back, scene.target, scene.source))
        for link, here, there in ways:
            scene.switch(link)
            wait_for("it is refused", writing.is_refused, 10.0)
            writing.stop()
            written += writing.accepted
            writing = scene.application(there)
            wait_for("the new primary is written", writing.is_accepted, 20.0)
            if link is scene.link:
                scene.commit(here, BEYOND)
                done = scene.turn_back()
                assert {each.state for each in done.topics} == {ReturnState.READY}
                assert [(each.group, each.offset) for each in done.groups] == [(READERS, BEYOND)]
                scene.allow(scene.back, there, here)
        writing.stop()
        assert not writing.refused
        at_source, at_target = scene.ends(scene.source), scene.ends(scene.target)
        assert sum(at_source) == written + writing.accepted
        assert ends(scene.source.bootstrap, {scene.tailed: 1}) == {scene.tailed: [2]}
        assert sum(at_target) == written  # nothing leads there until it is reversed again
        assert len(scene.denied()) == scene.missed, scene.denied()[-5:]
        running.kill_all()


def test_a_rolling_switch_is_finished_by_rules_with_the_rights_that_are_printed(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Given applications at both sites of a merged topic / when the rolling switch is finished /

    then rules keep the one at the source out, never the link back, which rests by then; all is at
    the target, and the links were refused nothing. A super user, whom no rule keeps out, is named
    before, and sends the run back where it writes on.
    """
    scene = a_scene(start_cluster, tmp_path, naming="merge")
    with RunningLink(scene.path) as running:
        here, there = scene.application(scene.source), scene.application(scene.target)
        sides = (scene.source, here), (scene.target, there)

        def is_crossed() -> bool:
            return all(sum(scene.ends(site)) > own.accepted + 100 for site, own in sides)

        wait_for("both have some of the other's", is_crossed, 120.0)
        scene.switch(scene.link, finishes=True)
        wait_for("it is refused", here.is_refused, 10.0)
        for each in (here, there):
            each.stop()
        assert not there.refused
        assert sum(scene.ends(scene.target)) == here.accepted + there.accepted
        assert sum(scene.ends(scene.source)) < here.accepted + there.accepted
        assert not scene.refusals()
        running.kill_all()
