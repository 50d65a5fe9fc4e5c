"""Kafka Connect's API: what each request answers, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.connect.kept import MemoryStore, PlainLinks, partition
from unit.connect.technote import BOTH_ENDS, CHECKPOINT, FILE, HEARTBEAT, SOURCE, UPLOADS
from unit.serve.test_app import HOST, StillClock

from heliostat.config import LinkConfig
from heliostat.connect.file_clusters import FileClusters
from heliostat.errors import ConnectionLost
from heliostat.names import LinkName
from heliostat.operate.connectors import Connectors
from heliostat.operate.shown_connectors import ShownConnectors
from heliostat.serve.connect.app import connect_app
from heliostat.serve.connect.loggers import Loggers
from heliostat.serve.connect.paths import ConnectPaths

LINK = "src-to-destn"
C = "/connectors/mirror-source"
NAME = str(SOURCE["name"])


async def no_page(scope: Any, receive: Any, send: Any) -> None:
    """Stand for page and API."""
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b"page"})


class Service:
    """Connect's API over connectors and links in memory."""

    def __init__(self, *, home: bool = True, file: FileClusters = FILE) -> None:
        self.links = PlainLinks()
        self.store = MemoryStore()
        store = self.store if home else None
        shown = ShownConnectors(store, self.links, lambda: file, "here:8083")
        self.told: list[str] = []
        connectors = Connectors(store, shown, StillClock(), self.told.append)
        self.app = connect_app(connectors, Loggers(StillClock()), lambda: "id")
        paths = ConnectPaths(no_page, self.app)
        self.client = TestClient(paths, base_url=f"http://{HOST}", raise_server_exceptions=False)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status of an answer, and its body."""
        answer = self.client.request(method, path, json=body)
        return answer.status_code, answer.json() if answer.content else None

    def upload(self, *configs: dict[str, Any]) -> None:
        """Do as `kafkaconnect upload` does."""
        for config in configs:
            path = f"/connector-plugins/{config['connector.class']}/config/validate"
            status, checked = self.ask("PUT", path, config)
            assert (status, checked["error_count"]) == (200, 0), checked
            assert self.ask("PUT", f"/connectors/{config['name']}/config", config)[0] == 201


@pytest.fixture
def service() -> Service:
    return Service()


def as_texts(config: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.items()
    }


def test_the_root_is_for_clients_and_the_page_for_browsers(service: Service) -> None:
    status, root = service.ask("GET", "/")
    assert (status, root["version"], root["kafka_cluster_id"]) == (200, "4.3.0", "id")
    assert root["commit"].startswith("heliostat-")
    assert service.client.get("/", headers={"Accept": "text/html,*/*"}).status_code == 299
    assert service.client.get("/api/v1/links").status_code == 299
    assert service.ask("GET", "/health/")[1]["status"] == "healthy"


def test_the_three_uploads_become_a_link(service: Service) -> None:
    service.upload(*UPLOADS)
    assert service.ask("GET", "/connectors/")[1] == ["checkpoint", "heartbeat", NAME]
    status, info = service.ask("GET", C)
    assert (status, info["config"]) == (200, as_texts(SOURCE))
    assert (info["tasks"], info["type"]) == ([], "source")
    assert service.store.read()[NAME].link == LINK
    rows = service.ask("GET", "/connectors?expand=status&expand=info")[1]
    assert [row["status"]["connector"]["state"] for row in rows.values()] == ["UNASSIGNED"] * 3
    service.links.runs(LINK, partition("foo"), partition("foo", 1, lane=7))
    rows = service.ask("GET", "/connectors?expand=status&expand=info&expand=else")[1]
    assert [row["status"]["connector"]["state"] for row in rows.values()] == ["RUNNING"] * 3
    tasks = {name: len(row["info"]["tasks"]) for name, row in rows.items()}
    assert tasks == {"checkpoint": 1, "heartbeat": 1, NAME: 2}
    assert rows[NAME]["status"]["connector"]["worker_id"] == "there:8083"


def test_heartbeat_and_checkpoint_alone_run_without_tasks(service: Service) -> None:
    service.upload(HEARTBEAT, CHECKPOINT)
    for name in ("heartbeat", "checkpoint"):
        state = service.ask("GET", f"/connectors/{name}/status")[1]
        assert (state["connector"]["state"], state["tasks"]) == ("RUNNING", [])


def test_a_configuration_is_changed_whole_or_in_parts(service: Service) -> None:
    assert service.ask("PUT", f"{C}/config", SOURCE)[0] == 201
    service.links.runs(LINK, partition("foo"))
    changed = {name: each for name, each in SOURCE.items() if name != "name"} | {"topics": "bar"}
    status, info = service.ask("PUT", f"{C}/config", changed)
    assert (status, len(info["tasks"])) == (200, 1)
    assert info["config"] == as_texts(SOURCE) | {"topics": "bar"}
    status, info = service.ask("PATCH", f"{C}/config", {"topics": "baz", "tasks.max": None})
    assert (status, info["config"]["topics"]) == (200, "baz")
    assert "tasks.max" not in service.ask("GET", f"{C}/config")[1]
    assert service.ask("PATCH", "/connectors/x/config", {})[0] == 404


def test_deleting_and_making_it_again_goes_on_as_the_same_link(service: Service) -> None:
    service.upload(SOURCE)
    first = service.store.read()[NAME]
    assert service.ask("DELETE", C) == (204, None)
    assert service.ask("GET", f"{C}/status") == (
        404, {"error_code": 404, "message": f"No status found for connector {NAME}"},
    )  # fmt: skip
    assert service.ask("DELETE", C)[0] == 404
    service.upload(SOURCE)
    again = service.store.read()[NAME]
    assert again.link == first.link
    assert again.generation > first.generation


@pytest.mark.parametrize(
    "change",
    [
        {"source.cluster.alias": "other"},
        {"replication.policy.separator": "_"},
        {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
    ],
)
def test_other_names_of_mirrors_are_another_link_beside_the_one_before(
    service: Service, change: dict[str, str]
) -> None:
    """Given a connector that is paused / when its alias, separator or policy changes / then it is

    a paused link of another name, and the first one again once that is put back.
    """
    service.upload(SOURCE)
    service.links.runs(LINK, partition("foo"), state="paused")
    status, told = service.ask("PUT", f"{C}/config?dry_run=true", SOURCE | change)
    assert (status, told["link"], told["did"]) == (200, "mirror-source", "changed")
    assert f"link {LINK} ends (src to destn as src.${{topic}}): its mirrors" in told["notes"][1]
    assert service.store.read()[NAME].link == LINK
    assert service.links.wished == []
    assert service.ask("PUT", f"{C}/config", SOURCE | change)[0] == 200
    assert service.store.read()[NAME].link == "mirror-source"
    assert service.links.wished == [("mirror-source", "destn", "paused", "connect")]
    service.ask("PUT", f"{C}/config", SOURCE | {"topics": "bar"})
    assert service.store.read()[NAME].link == LINK


def test_a_connector_made_anew_with_other_names_takes_no_link_that_has_others(
    service: Service,
) -> None:
    service.upload(SOURCE)
    service.links.of_file[LinkName(LINK)] = LinkConfig.model_validate(
        {"name": LINK, "source": "src", "target": "destn", "topics": {"naming": {"prefix": "src."}}}
    )  # it has gone, which this service does not know yet
    service.ask("DELETE", C)
    service.upload(SOURCE | {"replication.policy.separator": "-"})
    assert service.store.read()[NAME].link == "mirror-source"
    service.ask("DELETE", C)
    status, told = service.ask("PUT", f"{C}/config?dry_run=true", SOURCE)
    assert (status, told["link"], told["did"], told["notes"]) == (200, LINK, "created", [])


def test_a_new_one_is_posted_and_may_begin_stopped(service: Service) -> None:
    body = {"name": " new ", "config": SOURCE | {"name": "new"}, "initial_state": "stopped"}
    answer = service.client.post("/connectors", json=body)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"http://{HOST}/connectors/new"
    assert service.links.wished == [(LINK, "destn", "stopped", "connect")]
    assert service.ask("POST", "/connectors", body) == (
        409, {"error_code": 409, "message": "Connector new already exists"},
    )  # fmt: skip
    wrong: dict[str, Any]
    for wrong in ({"initial_state": "x"}, {"config": []}, {"name": "other"}, {"more": 1}):
        assert service.ask("POST", "/connectors", body | wrong)[0] == 400


def test_wishes_go_to_the_link_and_those_of_partners_are_kept(service: Service) -> None:
    service.upload(*UPLOADS)
    service.links.runs(LINK, partition("foo"))
    assert service.ask("PUT", f"{C}/pause") == (202, None)
    assert service.ask("GET", f"{C}/status")[1]["connector"]["state"] == "PAUSED"
    assert service.ask("PUT", f"{C}/stop") == (204, None)
    state = service.ask("GET", f"{C}/status")[1]
    assert (state["connector"]["state"], state["tasks"]) == ("STOPPED", [])
    assert service.ask("PUT", f"{C}/resume") == (202, None)
    assert [wish[2] for wish in service.links.wished] == ["paused", "stopped", "running"]
    assert service.ask("PUT", "/connectors/heartbeat/pause")[0] == 202
    state = service.ask("GET", "/connectors/heartbeat/status")[1]
    assert [state["connector"]["state"], state["tasks"][0]["state"]] == ["PAUSED", "PAUSED"]
    assert service.ask("PUT", "/connectors/x/pause") == (
        404, {"error_code": 404, "message": "Unknown connector x"},
    )  # fmt: skip


def test_what_has_failed_says_why_and_is_begun_anew(service: Service) -> None:
    service.upload(SOURCE)
    service.links.runs(LINK, partition("foo"), partition("bar", 2, lane=1, state="BLOCKED"))
    state = service.ask("GET", f"{C}/status")[1]
    assert [task["state"] for task in state["tasks"]] == ["RUNNING", "FAILED"]
    assert "bar-2: TOO_LARGE: it is too large" in state["tasks"][1]["trace"]
    assert "trace" not in state["tasks"][0]
    one = service.ask("GET", f"{C}/tasks/1/status")[1]
    assert one == state["tasks"][1]
    config = service.ask("GET", f"{C}/tasks")[1][1]["config"]
    assert config["task.assigned.partitions"] == "bar-2"
    assert config["task.class"] == "org.apache.kafka.connect.mirror.MirrorSourceTask"
    assert service.ask("POST", f"{C}/restart") == (204, None)
    status, view = service.ask("POST", f"{C}/restart?includeTasks=TRUE&onlyFailed=true")
    assert status == 202
    assert [task["state"] for task in view["tasks"]] == ["RUNNING", "RESTARTING"]
    assert service.ask("POST", f"{C}/restart?includeTasks=False&onlyFailed=0")[0] == 204
    assert service.ask("POST", f"{C}/tasks/1/restart") == (204, None)
    orders = [places for _, places, _ in service.links.restarted]
    assert orders == [[], ["bar-2"], [], ["bar-2"]]
    assert service.ask("POST", f"{C}/tasks/9/restart")[1]["message"] == f"Unknown task: {NAME}-9"
    assert service.ask("POST", "/connectors/x/restart")[1]["message"] == "Unknown connector: x"


def entry(topic: Any, number: Any, offset: Any) -> dict[str, Any]:
    where = {"cluster": "src", "topic": topic, "partition": number}
    return {"partition": where, "offset": offset}


def test_offsets_are_read_and_altered_of_a_stopped_connector_only(service: Service) -> None:
    service.upload(SOURCE)
    service.links.runs(LINK, partition("foo"), partition("new", position=0))
    assert service.ask("GET", f"{C}/offsets")[1] == {"offsets": [entry("foo", 0, {"offset": 4})]}
    same = {"offsets": [entry("foo", 0, {"offset": 4}), entry("new", 0, None)]}
    status, told = service.ask("PATCH", f"{C}/offsets", same)
    assert (status, "must be in the STOPPED state" in told["message"]) == (400, True)
    service.ask("PUT", f"{C}/stop")
    status, told = service.ask("PATCH", f"{C}/offsets", same)
    assert (status, told["message"][-24:]) == (200, "been altered successfully"[-24:])
    assert service.ask("DELETE", f"{C}/offsets")[0] == 500
    assert service.ask("PATCH", f"{C}/offsets", {"offsets": []})[0] == 400
    assert service.links.later == {}


def test_offsets_go_forwards_are_told_and_shown_at_once(service: Service) -> None:
    """Given a stopped connector / when offsets are set forwards, one partition's not at all / then

    only what moves is skipped, and shown before the link starts; going back is refused then.
    """
    service.upload(SOURCE)
    service.links.runs(LINK, partition("foo"), partition("foo", 1), state="stopped")
    wanted = [entry("foo", 0, {"offset": 9}), entry("foo", 1, {"offset": 4})]
    assert service.ask("PATCH", f"{C}/offsets", {"offsets": wanted})[0] == 200
    assert {str(place): to for place, to in service.links.later.items()} == {"foo-0": 10}
    assert service.told[-1] == (
        f"connector {NAME} (link {LINK}): foo-0 skips to 10, as connect asks"
    )
    assert service.ask("GET", f"{C}/offsets")[1] == {"offsets": wanted}
    status, told = service.ask(
        "PATCH", f"{C}/offsets", {"offsets": [entry("foo", 0, {"offset": 8})]}
    )
    assert (status, "was copied up to offset 9" in told["message"]) == (500, True)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (entry("foo", 0, {"offset": 3}), "OFFSETS_GO_BACK: foo-0"),
        (entry("foo", 9, {"offset": 9}), "REFUSED: no such mirror; topics.start"),
        (entry("foo", 0, {"offset": 2**63 - 1}), "an integer 'offset'"),
        (entry("foo", 0, None), "can't be forgotten"),
        (entry("foo", "0", {"offset": 4}), "which must be an integer"),
        (entry("foo", -1, {"offset": 4}), "cannot be negative"),
        (entry(None, 0, {"offset": 4}), "is missing the 'topic' key, which is required"),
        (entry("foo", 0, {"offset": "x"}), "an integer 'offset'"),
    ],
)
def test_offsets_that_lose_or_repeat_records_are_refused(
    service: Service, wanted: dict[str, Any], text: str
) -> None:
    service.upload(SOURCE)
    service.links.runs(LINK, partition("foo"), state="stopped")
    status, told = service.ask("PATCH", f"{C}/offsets", {"offsets": [wanted]})
    assert (status, text in told["message"]) == (500, True), told


def test_topics_are_those_since_the_last_reset(service: Service) -> None:
    service.upload(SOURCE)
    service.links.runs(LINK, partition("foo"))
    assert service.ask("GET", f"{C}/topics")[1] == {NAME: {"topics": ["src.foo"]}}
    assert service.ask("PUT", f"{C}/topics/reset") == (202, None)
    service.links.runs(LINK, partition("foo"), partition("bar"))
    assert service.ask("GET", f"{C}/topics")[1] == {NAME: {"topics": ["src.bar"]}}
    assert service.ask("GET", "/connectors/x/topics") == (200, {"x": {"topics": []}})


def test_validation_names_the_field_and_nothing_is_made(service: Service) -> None:
    wrong = SOURCE | {"topics": "foo[", "refresh.topics.interval.seconds": "abc"}
    path = "/connector-plugins/MirrorSource/config/validate"
    status, told = service.ask("PUT", path, wrong)
    assert (status, told["error_count"], told["name"]) == (200, 1, SOURCE["connector.class"])
    errors = {
        row["value"]["name"]: row["value"]["errors"]
        for row in told["configs"]
        if row["value"]["errors"]
    }
    text = "Invalid value abc for configuration refresh.topics.interval.seconds: Not a number of"
    assert errors == {"refresh.topics.interval.seconds": [f"{text} type LONG"]}
    status, told = service.ask("PUT", f"{C}/config", wrong)
    assert status == 400
    assert told["message"].startswith("Connector configuration is invalid and contains the follo")
    told = service.ask("PUT", path, SOURCE | {"topics": "foo["})[1]
    (topics,) = [row for row in told["configs"] if row["value"]["name"] == "topics"]
    assert topics["value"]["errors"]
    assert service.ask("GET", "/connectors")[1] == []


SINKS = ("com.influxdb.InfluxDBSinkConnector", "io.confluent.connect.s3.S3SinkConnector")


@pytest.mark.parametrize("sink", SINKS)
def test_other_classes_are_answered_with_one_error(service: Service, sink: str) -> None:
    config = {"connector.class": sink, "name": "x", "topics": "foo"}
    status, told = service.ask("PUT", f"/connector-plugins/{sink}/config/validate", config)
    assert (status, told["error_count"]) == (200, 1)
    (row,) = told["configs"]
    assert row["value"]["name"] == "connector.class"
    assert "keep this one on your Connect cluster" in row["value"]["errors"][0]
    assert service.ask("PUT", "/connectors/x/config", config)[0] == 400


def test_requests_that_can_not_be_read(service: Service) -> None:
    validate = "/connector-plugins/MirrorSource/config/validate"
    other = "/connector-plugins/MirrorCheckpoint/config/validate"
    assert service.ask("PUT", other, SOURCE)[0] == 400
    assert service.ask("PUT", validate, {"name": "x"})[0] == 400
    for body in ("{", "[]", '{"a": NaN}', '{"a": {}}', "[" * 100_000, ""):
        answer = service.client.put(
            f"{C}/config", content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400), body[:20]
    told = service.ask("PUT", f"{C}/config", {"topics": None})[1]
    assert "topics: Null value can not be supplied" in told["message"]
    assert service.ask("PUT", f"{C}/config", SOURCE | {"name": "y"})[0] == 400
    for method, path, wanted in (
        ("GET", "/connectors/a/b/c", 404),
        ("PUT", "/connectors", 405),
        ("GET", f"{C}/tasks/x/status", 404),
        ("GET", "/connectors/a%2Fb", 400),
    ):
        assert service.client.request(method, path).status_code == wanted, path
    not_allowed = service.client.put("/connectors").json()
    assert not_allowed == {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}


def test_without_a_home_links_of_the_file_are_shown_and_nothing_is_made() -> None:
    service = Service(home=False)
    link = LinkConfig.model_validate(
        {"name": "l", "source": "src", "target": "destn", "topics": {"include": ["foo", "b.*"]}}
    )
    service.links.of_file[LinkName("l")] = link
    service.links.runs("l", partition("foo"))
    info = service.ask("GET", "/connectors/l")[1]
    assert info["config"]["topics"] == "foo,b.*"
    assert {k: info["config"][k] for k in list(BOTH_ENDS)[:3]} == dict(list(BOTH_ENDS.items())[:3])
    assert service.ask("PUT", "/connectors/l/pause")[0] == 202
    assert service.links.wished == [("l", "destn", "paused", "connect")]
    for method, path in (("PUT", "/connectors/l/config"), ("DELETE", "/connectors/l")):
        status, told = service.ask(method, path, SOURCE | {"name": "l"})
        assert (status, "declared in the configuration file" in told["message"]) == (403, True)
    status, told = service.ask("PUT", f"{C}/config", SOURCE)
    assert (status, "set service.home" in told["message"]) == (400, True)


def test_a_link_of_the_file_is_not_changed_with_a_home_either(service: Service) -> None:
    link = {"name": "l", "source": "src", "target": "destn"}
    service.links.of_file[LinkName("l")] = LinkConfig.model_validate(link)
    assert service.ask("PUT", "/connectors/l/config", SOURCE | {"name": "l"})[0] == 403
    assert service.ask("DELETE", "/connectors/l")[0] == 403


def test_a_link_of_another_api_keeps_its_name(service: Service) -> None:
    made = LinkConfig.model_validate({"name": LINK, "source": "src", "target": "destn"})
    service.links.of_file[LinkName(LINK)] = made
    service.upload(SOURCE)
    assert service.store.read()[NAME].link == "mirror-source"
    assert service.ask("GET", "/connectors")[1] == [NAME, LINK]


def test_a_connector_whose_cluster_has_gone_from_the_file_has_failed() -> None:
    service = Service()
    service.upload(SOURCE)
    smaller = Service(file=replace(FILE, addresses={}))
    smaller.store.write(service.store.read()[NAME])
    state = smaller.ask("GET", f"{C}/status")[1]["connector"]
    assert (state["state"], "no cluster of the" in state["trace"]) == ("FAILED", True)


def test_loggers_are_those_of_this_process(service: Service) -> None:
    assert service.ask("GET", "/admin/loggers/root")[1]["last_modified"] is None
    assert service.ask("PUT", "/admin/loggers/heliostat.test", {"level": "trace"}) == (
        200, ["heliostat.test"],
    )  # fmt: skip
    row = service.ask("GET", "/admin/loggers")[1]["heliostat.test"]
    assert row["level"] == "DEBUG"
    assert row["last_modified"] is not None
    path = "/admin/loggers/heliostat.test?scope=cluster"
    assert service.ask("PUT", path, {"level": "OFF"}) == (204, None)
    assert service.ask("PUT", path, {"level": "x"})[0] == 404
    assert service.ask("PUT", path, {})[0] == 400
    assert service.ask("GET", "/admin/loggers/none.such")[0] == 404


def test_plugins_and_their_properties(service: Service) -> None:
    kinds = [row["class"].rpartition(".")[2] for row in service.ask("GET", "/connector-plugins")[1]]
    assert kinds[-1] == "ReplicatorSourceConnector"
    rows = service.ask("GET", "/connector-plugins/MirrorHeartbeatConnector/config")[1]
    assert (len(rows), {row["name"] for row in rows} >= {"name", "emit.heartbeats.enabled"}) == (
        102, True,
    )  # fmt: skip
    assert service.ask("GET", "/connector-plugins/x/config")[0] == 400


def test_a_home_that_does_not_answer_is_told(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> Any:
        raise ConnectionLost("no broker of home answers")

    monkeypatch.setattr(service.store, "read", read)
    status, told = service.ask("GET", "/connectors")
    assert (status, "no broker of home answers" in told["message"]) == (500, True)
