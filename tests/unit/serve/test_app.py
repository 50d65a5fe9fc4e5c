"""The service's answers: what is observed, problems, cache, pages; in front of it the guard."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.testclient import TestClient
from unit.status.test_truth import DRIVER, LEVEL, NOW_MS

from heliostat.config import Config
from heliostat.errors import ConfigError, ConnectionLost
from heliostat.metrics.voice import Place, Voice, voice_of
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.history import Past
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import LaneProgress
from heliostat.serve.app import health_app, make_app
from heliostat.serve.guard import Guard
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch
from heliostat.status.history import Point
from heliostat.status.history_records import PastEvent
from heliostat.status.past import LinkPast

HOST = "127.0.0.1:8083"
TOPICS = 5
CLUSTERS = {"summit": {"bootstrap": "127.0.0.1:1"}, "usdf": {"bootstrap": "127.0.0.1:2"}}


class StillClock:
    """Time passes when a test says so."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return NOW_MS

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def reports() -> list[PartitionReport]:
    rows: list[PartitionReport] = []
    for number in range(TOPICS):
        name = TopicPartition(TopicName(f"t{number}"), PartitionId(0))
        state = PartitionState.BLOCKED if number == 3 else PartitionState.COPYING
        reason = "it is too large" if number == 3 else ""
        rows.append(
            PartitionReport(
                name, name, state, 9, 9 + number, 0, 0, -1, NOW_MS, NOW_MS, reason, reason
            )
        )
    return rows


@pytest.fixture
def watch() -> Watch:
    """A watch that reads nothing: its link was reported by hand."""
    links = [{"name": "l", "source": "summit", "target": "usdf"}]
    metrics = {"foreign": True}
    config = Config.model_validate({"clusters": CLUSTERS, "links": links, "metrics": metrics})
    made = Watch(config, StillClock())
    board = made.follower(LinkName("l")).reports.board
    report = RoundReport(LaneId(0), 1, 0, 0, 0, "", reports(), lane_partitions=TOPICS, plan=1)
    board.take_lane(LaneProgress(report, NOW_MS, is_whole=True))
    board.consume("driver", DRIVER)
    assert LEVEL.position == 9
    return made


@pytest.fixture
def client(watch: Watch) -> Iterator[TestClient]:
    app = Guard(make_app(watch), hosts=[HOST], tokens=None)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as made:
        yield made


def test_who_writes_the_series_of_a_link() -> None:
    """The service beside its driver does; a standby's tells that it stands by, others nothing."""
    mine, other = Place("here", 7), Place("there", 7)
    owner = {"host": "here", "pid": 7}
    assert voice_of(owner, mine, foreign=False) is Voice.ALL
    assert voice_of(owner, other, foreign=True) is Voice.STANDBY
    assert voice_of(owner, Place("here", 8), foreign=False) is Voice.STANDBY
    assert voice_of({}, mine, foreign=False) is Voice.ALL, "nobody else could tell of it"
    assert voice_of(owner, None, foreign=False) is Voice.NOTHING
    assert voice_of(owner, None, foreign=True) is Voice.ALL


STANDBY = 'heliostat_link_state{link="l",source="summit",target="usdf",state="standby"} 1'


@pytest.mark.parametrize(("driver", "told"), [(None, set[str]()), (Place("there", 1), {STANDBY})])
def test_what_is_told_of_a_link_that_runs_elsewhere(driver: Place | None, told: set[str]) -> None:
    links = [{"name": "l", "source": "summit", "target": "usdf"}]
    config = Config.model_validate({"clusters": CLUSTERS, "links": links})
    made = Watch(config, StillClock(), driver)
    board = made.follower(LinkName("l")).reports.board
    board.consume("driver", {**DRIVER, "owner": {"host": "here", "pid": 7}})
    lines = made.metrics().decode().splitlines()
    assert {line for line in lines if "link=" in line} == told
    assert any(line.startswith("process_cpu_seconds_total") for line in lines)


def test_mirror_makers_names_are_answered_where_they_are_configured() -> None:
    on = {"foreign": True, "mirrormaker2": {"labels": {"x": "y"}}}
    for metrics, status in (({}, 404), (on, 200)):
        links = [{"name": "l", "source": "summit", "target": "usdf"}]
        given = {"clusters": CLUSTERS, "links": links, "metrics": metrics}
        made = Watch(Config.model_validate(given), StillClock())
        for app in (make_app(made), health_app(made)):
            answer = TestClient(app).get("/metrics/mirrormaker2")
            assert answer.status_code == status
    count = 'kafka_connect_worker_task_count{x="y",source="summit",target="usdf"} 0'
    assert count in answer.text.splitlines()


def test_links_in_a_few_figures(client: TestClient) -> None:
    answer = client.get("/api/v1/links")
    assert answer.status_code == 200
    (row,) = answer.json()["items"]
    assert (row["name"], row["source"], row["target"]) == ("l", "summit", "usdf")
    assert (row["state"], row["in_sync"], row["topics"]) == ("running", False, TOPICS)
    assert (row["problems"], row["stopped"]) == (1, 1)


def test_a_link_as_its_status(client: TestClient) -> None:
    row = client.get("/api/v1/links/l").json()
    assert row["problems"][0]["source"] == "t3"
    assert "topics" not in row
    assert row["why_not_in_sync"]
    page = client.get("/api/v1/links/l/problems").json()
    assert (page["items"], page["stopped"], row["stopped"]) == (row["problems"], 1, 1)


def test_pages_of_topics_name_each_once(client: TestClient) -> None:
    names: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client.get(
            "/api/v1/links/l/topics", params={"limit": 2, "after": after, "fields": "source"}
        ).json()
        names += [item["source"] for item in page["items"]]
        after = page["next"]
    assert names[0] == "t3", "what is stopped comes first"
    assert sorted(names) == [f"t{n}" for n in range(TOPICS)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("topic=t1", ["t1"]),
        ("topic=t[12]&sort=name", ["t1", "t2"]),
        ("state=blocked", ["t3"]),
        ("topic=nothing", []),
        ("sort=name&limit=1", ["t0"]),
    ],
)
def test_topics_are_filtered_and_ordered(client: TestClient, query: str, names: list[str]) -> None:
    page = client.get(f"/api/v1/links/l/topics?{query}").json()
    assert [item["source"] for item in page["items"]] == names


def test_one_topic(client: TestClient) -> None:
    assert client.get("/api/v1/links/l/topics/t2").json()["source"] == "t2"
    assert client.get("/api/v1/links/l/topics/none").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "code", "field"),
    [
        ("/api/v1/links/other", 404, "not_found", None),
        ("/nowhere", 404, "not_found", None),
        ("/api/v1/links/l/topics?limit=0", 422, "invalid", "limit"),
        ("/api/v1/links/l/topics?sort=size", 422, "invalid", "sort"),
    ],
)
def test_what_is_wrong_is_said_in_one_shape(
    client: TestClient, path: str, status: int, code: str, field: str | None
) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"], problem.get("field")) == (status, code, field)


def test_an_error_of_our_own_shows_no_stack(client: TestClient, watch: Watch) -> None:
    def broken() -> bytes:
        raise RuntimeError("a secret")

    watch.metrics = broken  # type: ignore[method-assign]  # a fault
    answer = client.get("/metrics")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_answer_is_made_once_a_second_and_has_a_tag(client: TestClient, watch: Watch) -> None:
    first = client.get("/api/v1/links/l/topics")
    tag = first.headers["etag"]
    assert first.headers["content-encoding"] == "gzip"
    again = client.get("/api/v1/links/l/topics", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    watch.clock.sleep(1)
    watch.follower(LinkName("l")).reports.board.forget()
    later = client.get("/api/v1/links/l/topics", headers={"If-None-Match": tag})
    assert later.status_code == 200


def test_health_and_metrics_alone_on_the_second_address(watch: Watch) -> None:
    with TestClient(health_app(watch)) as client:
        assert client.get("/livez").json() == {"status": "ok"}
        assert client.get("/readyz").status_code == 200
        assert 'heliostat_link_state{link="l"' in client.get("/metrics").text
        assert client.get("/api/v1/links").status_code == 404
        assert client.get("/openapi.json").status_code == 404


def test_a_link_whose_target_is_away_is_not_ready(client: TestClient, watch: Watch) -> None:
    watch.follower(LinkName("l")).reports.lose(ConnectionLost("nobody answers"))
    watch.clock.sleep(20)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "nobody answers" in answer.json()["waiting"]["l"]
    assert client.get("/livez").status_code == 200
    assert 'state="unreachable"} 1' in client.get("/metrics").text


# -- guard ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:9", "127.0.0.1.nip:8083"])
def test_another_name_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/v1/links", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["code"] == "unknown_host"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}, 405),
        ({}, 405),
        ({"Content-Length": str(2 << 20)}, 413),
    ],
)
def test_nothing_is_changed_from_another_site(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.post("/api/v1/links/l", headers=headers).status_code == status


def test_each_answer_forbids_what_a_page_does_not_need(client: TestClient) -> None:
    for path in ("/livez", "/nowhere", "/api/v1/links"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


TOKEN = "open sesame"  # noqa: S105  # of this test only


def tokens_file(folder: Path, role: str = "view", mode: int = 0o600) -> Path:
    path = folder / "tokens"
    path.write_text(f"# comment\n\nanne:{role}:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    path.chmod(mode)
    return path


def guarded(watch: Watch, tokens: Tokens) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=None, tokens=tokens))


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anne:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer wrong", 401),
        ("Basic !!", 401),
        (basic("wrong"), 401),
        ("Digest x", 401),
        (f"Bearer {TOKEN}", 200),
        (basic(TOKEN), 200),
    ],
)
def test_only_a_token_opens(watch: Watch, tmp_path: Path, authorization: str, status: int) -> None:
    with guarded(watch, Tokens(tokens_file(tmp_path))) as client:
        answer = client.get("/api/v1/links", headers={"Authorization": authorization})
        assert answer.status_code == status
        assert client.get("/livez").status_code == 200, "supervisors have no token"


def test_who_may_look_may_not_change(watch: Watch, tmp_path: Path) -> None:
    with guarded(watch, Tokens(tokens_file(tmp_path))) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/api/v1/links/l", headers=headers).status_code == 403
    with guarded(watch, Tokens(tokens_file(tmp_path, "operate"))) as client:
        assert client.post("/api/v1/links/l", headers=headers).status_code == 405


def test_what_a_caller_may_is_told(client: TestClient, watch: Watch, tmp_path: Path) -> None:
    path, headers = "/api/v1/caller", {"Authorization": f"Bearer {TOKEN}"}
    anyone = {"name": "", "role": "admin", "may_change": True}
    assert client.get(path).json() == anyone, "without tokens everybody may"
    for role, may in (("view", False), ("operate", True)):
        with guarded(watch, Tokens(tokens_file(tmp_path, role))) as named:
            told = named.get(path, headers=headers).json()
            assert told == {"name": "anne", "role": role, "may_change": may}
            assert named.get(path).status_code == 401


WISH = {"state": "paused", "by": "ops", "at_ms": 7, "why": "so"}


@pytest.mark.parametrize("standing", [None, WISH])
def test_a_wish_is_null_where_there_is_none(watch: Watch, standing: Any) -> None:
    board, path = watch.follower(LinkName("l")).reports.board, "/api/v1/links"
    board.consume("driver", {**DRIVER, "wishes": {"link": standing}})
    with TestClient(make_app(watch)) as client:
        assert client.get(f"{path}/l").json()["wish"] == standing
        assert client.get(path).json()["items"][0]["wish"] == standing


def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    path = tokens_file(tmp_path)
    tokens = Tokens(path)
    assert tokens.caller(f"Bearer {TOKEN}") is not None
    path.write_text("")
    assert tokens.caller(f"Bearer {TOKEN}") is None
    path.unlink()
    assert tokens.caller(f"Bearer {TOKEN}") is None


def test_files_that_are_no_safe_list_of_tokens(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        Tokens(tmp_path / "none")
    with pytest.raises(ConfigError, match="others than its owner"):
        Tokens(tokens_file(tmp_path, mode=0o644))
    path = tokens_file(tmp_path)
    path.write_text("anne:king:00\n")
    with pytest.raises(ConfigError, match="line 1") as refused:
        Tokens(path)
    assert "anne" not in str(refused.value), "nothing of the file is shown"


# -- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "why"),
    [
        ({"listen": "0.0.0.0:8083"}, "can be reached from other machines"),
        ({"listen": "10.0.0.1:8083", "tls": "terminated_elsewhere"}, "can be reached"),
        ({"listen": "8083"}, "HOST:PORT"),
        ({"listen": "localhost:99999"}, "HOST:PORT"),
        ({"listen": "[::1]:0"}, ""),
        ({"listen": "[::]:1", "tokens_file": "t", "tls": "terminated_elsewhere"}, ""),
    ],
)
def test_only_what_is_guarded_listens_to_others(service: dict[str, Any], why: str) -> None:
    links = [{"name": "l", "source": "summit", "target": "usdf"}]
    content = {"clusters": CLUSTERS, "links": links, "service": service}
    if why:
        with pytest.raises(ValueError, match=why):
            Config.model_validate(content)
    else:
        Config.model_validate(content)


def test_the_document_of_the_api_describes_each_answer(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    text = json.dumps(document)
    assert {"Problem", "LinkPage", "TopicPage"} <= document["components"]["schemas"].keys()
    for reference in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert reference in document["components"]["schemas"]
    ids = [op["operationId"] for path in document["paths"].values() for op in path.values()]
    assert len(set(ids)) == len(ids)


# -- partitions, and what was ---------------------------------------------------------------------


def test_all_partitions_in_short(client: TestClient) -> None:
    field = client.get("/api/v1/links/l/partitions").json()
    names = [field["topics"][row[0]] for row in field["rows"]]
    states = [field["states"][row[2]] for row in field["rows"]]
    assert names == [f"t{n}" for n in range(TOPICS)]
    assert states == ["copying", "copying", "copying", "blocked", "copying"]
    assert [row[4] for row in field["rows"]] == list(range(TOPICS))


def test_partitions_of_a_topic_with_all_that_is_known(client: TestClient) -> None:
    (row,) = client.get("/api/v1/links/l/topics/t3/partitions").json()["items"]
    assert (row["state"], row["position"], row["source_end"]) == ("blocked", 9, 12)
    assert row["reason"] == "it is too large"
    assert client.get("/api/v1/links/l/topics/none/partitions").status_code == 404


def test_history_and_events_of_what_was_seen(client: TestClient, watch: Watch) -> None:
    watch.note()
    watch.clock.sleep(5)
    watch.follower(LinkName("l")).reports.board.consume("driver", {**DRIVER, "state": "stopped"})
    watch.note()
    past = client.get("/api/v1/links/l/history?step=5").json()
    assert past["state"] == ["running", "no_owner"]
    assert {len(column) for name, column in past.items() if name != "step_s"} == {2}
    assert client.get("/api/v1/links/l/history?step=7").status_code == 422
    events = client.get("/api/v1/events").json()["items"]
    assert events[0]["text"].startswith("the link is running")
    blocked = next(row for row in events if "t3-0" in row["text"])
    assert (blocked["link"], blocked["topic"], blocked["partition"]) == ("l", "t3", 0)
    assert blocked["code"] == "it is too large", "the code that was reported"
    assert events[-1]["text"] == "the link has no owner: no driver runs it"
    newer = client.get(f"/api/v1/events?link=l&after={events[-2]['id']}").json()["items"]
    assert newer == events[-1:]
    assert client.get("/api/v1/events?link=x").status_code == 404


def test_what_the_target_remembers_comes_before_what_is_seen(
    client: TestClient, watch: Watch
) -> None:
    watch.note()
    point = Point(NOW_MS - 60_000, 7.0, 70.0, 0, None, None, None, "running")
    past = [PastEvent(NOW_MS - 60_000, "WARN", "t3-0 is blocked")]
    watch.remember(LinkName("l"), LinkPast([point], [point], past))
    for step in (5, 60):
        columns = client.get(f"/api/v1/links/l/history?step={step}").json()
        assert columns["records_per_s"][0] == 7.0
        assert len(columns["at_ms"]) == 2
    events = client.get("/api/v1/events").json()["items"]
    assert events[0]["text"] == "t3-0 is blocked"
    assert events == sorted(events, key=lambda row: row["id"])


def test_a_topics_history_is_read_from_the_target(client: TestClient, watch: Watch) -> None:
    point = Point(NOW_MS, 7.0, 70.0, None, None, None, None, "copying")
    read = Mock(return_value=Past("l", "t3", 60, [point], [], []))
    watch.topic_past = read  # type: ignore[method-assign]  # no target is asked
    answer = client.get("/api/v1/links/l/topics/t3/history?since_s=3600").json()
    assert (answer["topic"], answer["step_s"], answer["records_per_s"]) == ("t3", 60, [7.0])
    read.assert_called_once_with("l", "t3", 3_600)
    assert client.get("/api/v1/links/none/topics/t3/history").status_code == 404
    assert client.get("/api/v1/links/l/topics/t3/history?since_s=1").status_code == 422


def test_flows_that_heartbeats_tell_of(client: TestClient, watch: Watch) -> None:
    assert client.get("/api/v1/links").json()["items"][0]["flows"] == []
    flows = [["base", "summit", NOW_MS - 1_500]]
    board = watch.follower(LinkName("l")).reports.board
    board.consume("driver", {**DRIVER, "interchange": {"flows": flows}})
    watch.clock.sleep(2)
    (row,) = client.get("/api/v1/links").json()["items"]
    assert row["flows"] == [{"source": "base", "target": "summit", "age_s": 1.5}]
