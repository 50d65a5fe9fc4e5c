"""Verify as a job: a real child that tells, ends with its input, fails, is cancelled; who may."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.errors import Refused
from heliostat.handover.desk import Answer
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.serve import compared_by_job, verify_job
from heliostat.serve import jobs as jobs_module
from heliostat.serve.app import make_app
from heliostat.serve.compared_by_job import ComparedByJob
from heliostat.serve.guard import Guard
from heliostat.serve.job_messages import Job, JobPage
from heliostat.serve.jobs import Jobs
from heliostat.serve.watch import Watch

__all__ = ["watch"]
VERIFY = "/api/v1/links/l/verify"
PROGRESS = {
    "phase": "comparing",
    **dict.fromkeys(("topics", "partitions"), 2),
    **dict.fromkeys(("topics_done", "partitions_done"), 1),
    **dict.fromkeys(("offsets", "offsets_done", "records"), 9),
    **dict.fromkeys(("partitions_different", "partitions_unread"), 0),
    "verdict": "equal",
}
RESULT = {"clean": True, "records": 9, "summary": "verified: 9 records"}
WAITS = "sys.stdin.read()\n"
CHILD = """
import json, sys
print(json.dumps({"words": sys.argv[1:]}), file=sys.stderr, flush=True)
def tell(**line): print(json.dumps(line), flush=True)
print("a line of Spark's")
"""
TELLS = f"tell(progress={PROGRESS!r})\n"


@pytest.fixture
def begun(watch: Watch, tmp_path: Path) -> Iterator[Callable[[str], tuple[TestClient, Jobs]]]:
    """Return a service whose jobs are such a script."""
    made: list[Jobs] = []

    def begin(script: str) -> tuple[TestClient, Jobs]:
        file = tmp_path / "child.py"
        file.write_text(CHILD + script)
        jobs = Jobs(watch, tmp_path / "heliostat.yaml", (sys.executable, "-I", str(file)))
        made.append(jobs)
        app = Guard(make_app(watch, jobs), hosts=[HOST], tokens=None)
        return TestClient(app, base_url=f"http://{HOST}"), jobs

    yield begin
    for jobs in made:
        jobs.stop()


def waited(client: TestClient, place: str, is_so: Callable[[dict[str, Any]], object]) -> Any:
    for _ in range(1000):
        row = client.get(place).json()
        if is_so(row):
            Job.model_validate(row)
            return row
        time.sleep(0.01)
    pytest.fail(f"still {row}")


def is_over(row: dict[str, Any]) -> bool:
    return row["ended_ms"] is not None


def test_a_job_tells_how_far_it_is_and_its_result(
    begun: Callable[[str], tuple[TestClient, Jobs]], watch: Watch
) -> None:
    client, jobs = begun(TELLS + WAITS + f"tell(result={RESULT!r})\n")
    answer = client.post(VERIFY, json={"topics": ["-t"], "from": 3, "complete": True})
    assert answer.status_code == 202
    place = answer.headers["Location"]
    assert place == f"/api/v1/jobs/{answer.json()['id']}"
    row = waited(client, place, lambda row: row["progress"])
    assert (row["progress"], row["state"], row["verdict"]) == (PROGRESS, "running", "equal")
    assert row["options"]["from"] == 3
    again = client.post(VERIFY)
    assert (again.status_code, again.json()["code"]) == (409, "verify_running")
    assert again.headers["Location"] == place
    job = jobs.get(row["id"])
    assert job is not None
    command = job.order.command
    assert command[3:5] == ["verify", "-c"]
    assert command[-6:] == ["l", "--json", "--progress", "--topic=-t", "--from=3", "--complete"]
    assert job._process.stdin is not None
    job._process.stdin.close()  # it goes on to its end
    row = waited(client, place, is_over)
    assert (row["state"], row["result"], row["verdict"]) == ("done", RESULT, "equal")
    assert client.delete(place).json()["state"] == "done"
    page = client.get("/api/v1/jobs?link=l").json()
    assert [item["id"] for item in JobPage.model_validate(page).model_dump()["items"]] == [job.id]
    texts = [event.text for event in watch.events(LinkName("l"), 0)]
    assert texts[-2:] == [f"verify: begun by api as job {job.id}", "verify: verified: 9 records"]


STARTS = {TopicPartition(TopicName("t"), PartitionId(1)): Offset(7)}
DIFFERS = {"clean": False, "summary": "verified: 1 lost", "first_difference": {"offset": 8}}
DIFFERS |= {"not_compared": [], "refused": {"u": "it is foreign"}}
READS = """
[file] = [word.partition("=")[2] for word in sys.argv if word.startswith("--rest-of=")]
rest = json.load(open(file))
assert rest == {"topics": ["t", "u"], "starts": [["t", 1, 7]]}, rest
assert sys.argv[-1] == "--complete"
"""


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (READS + f"tell(result={RESULT!r})", Answer("verified: 9 records")),
        (
            READS + f"tell(result={DIFFERS!r})",
            Answer(
                "verified: 1 lost",
                {},
                ('the first difference: {"offset": 8}', "the link refuses u: it is foreign"),
            ),
        ),
        ("sys.exit('no Java')", "contents could not be compared"),
    ],
)
def test_a_switch_of_the_service_compares_by_a_job(
    begun: Callable[[str], tuple[TestClient, Jobs]],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    expected: Answer | str,
) -> None:
    monkeypatch.setattr(compared_by_job, "LOOK_S", 0.01)
    client, jobs = begun(script)
    compare = ComparedByJob(jobs, LinkName("l"), "anne")
    topics = [TopicName("t"), TopicName("u")]
    if isinstance(expected, Answer):
        assert compare(topics, STARTS, True) == expected
    else:
        with pytest.raises(Refused, match=expected):
            compare(topics, STARTS, True)
    [job] = client.get("/api/v1/jobs?link=l").json()["items"]
    Job.model_validate(job)


def test_two_comparisons_of_a_link_at_once_are_refused(
    begun: Callable[[str], tuple[TestClient, Jobs]],
) -> None:
    client, jobs = begun(WAITS)
    assert client.post(VERIFY).status_code == 202
    with pytest.raises(Refused, match="being compared already"):
        ComparedByJob(jobs, LinkName("l"), "anne")([], {}, False)


def test_a_job_is_cancelled_by_the_end_of_its_input(
    begun: Callable[[str], tuple[TestClient, Jobs]],
) -> None:
    client, _ = begun(TELLS + WAITS + "sys.exit(130)\n")
    place = client.post(VERIFY).headers["Location"]
    waited(client, place, lambda row: row["progress"])
    assert client.delete(place).json()["state"] in ("cancelling", "cancelled")
    row = waited(client, place, is_over)
    assert (row["state"], row["problem"], row["verdict"]) == ("cancelled", None, "equal")
    assert client.post(VERIFY).status_code == 202, "the link is free again"


def test_a_job_that_does_not_end_is_killed(
    begun: Callable[[str], tuple[TestClient, Jobs]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_job, "KILLED_AFTER_S", 0.05)
    client, _ = begun(TELLS + "import time; time.sleep(60)\n")
    place = client.post(VERIFY).headers["Location"]
    waited(client, place, lambda row: row["progress"])
    client.delete(place)
    assert waited(client, place, is_over)["state"] == "cancelled"


@pytest.mark.parametrize(
    ("script", "code", "detail"),
    [
        (
            "tell(problem={'code': 'CONNECTION_LOST', 'detail': 'away', 'hint': None})",
            "CONNECTION_LOST",
            "away",
        ),
        ("sys.exit('Error: not mirrored: x')", "job_failed", "Error: not mirrored: x"),
        ("print('Error: no', file=sys.stderr); sys.exit(2)", "invalid", "Error: no"),
    ],
)
def test_why_a_job_failed(
    begun: Callable[[str], tuple[TestClient, Jobs]], script: str, code: str, detail: str
) -> None:
    client, _ = begun(script)
    row = waited(client, client.post(VERIFY).headers["Location"], is_over)
    assert (row["state"], row["verdict"]) == ("failed", "open")
    assert (row["problem"]["code"], row["problem"]["detail"]) == (code, detail)


def test_jobs_are_bounded(
    begun: Callable[[str], tuple[TestClient, Jobs]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "KEPT_MAX", 2)
    client, jobs = begun("")
    for _ in range(4):
        waited(client, client.post(VERIFY).headers["Location"], is_over)
    assert len(jobs.of(None)) == 2
    monkeypatch.setattr(jobs_module, "RUNNING_MAX", 0)
    assert client.post(VERIFY).status_code == 429


def test_what_is_refused(begun: Callable[[str], tuple[TestClient, Jobs]]) -> None:
    """Given a service / when it is asked wrongly / then nothing is begun, and it says why."""
    client, jobs = begun("")
    assert client.post("/api/v1/links/x/verify").status_code == 404
    assert client.get("/api/v1/jobs/x").status_code == 404
    assert client.delete("/api/v1/jobs/x").status_code == 404
    for wrong in ({"master": "spark://evil"}, {"from": 3, "until": 2}, {"topics": ["a\0"]}):
        assert client.post(VERIFY, json=wrong).status_code == 422
    other = client.post(VERIFY, headers={"Origin": "http://elsewhere"})
    assert other.status_code == 403
    form = client.post(VERIFY, content=json.dumps({}), headers={"Content-Type": "text/plain"})
    assert form.status_code == 415
    assert jobs.of(None) == []
