"""Jobs at the target: services are killed at each step, and none is begun twice or forgotten.

The topic and the process that compares are simulated; a kill is an exception at a step.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from unit.link.test_killed_steering import Died, Topic, World
from unit.serve.test_app import watch

from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.names import LinkName
from heliostat.serve import jobs as jobs_module
from heliostat.serve.job_messages import Job, standing_json
from heliostat.serve.job_notes import QUIET_S, JobNotes
from heliostat.serve.jobs import Jobs
from heliostat.serve.verify_job import JobOrder
from heliostat.serve.watch import Watch
from heliostat.wishes import wish_book
from heliostat.wishes.job import KEPT_MAX, JobEnd, JobStanding, JobState, told_between
from heliostat.wishes.wish_book import WishBook

__all__ = ["watch"]
L = LinkName("l")
STEPS = 8
"""More than a begin has."""


class Comparison:
    """Stands for the process that compares."""

    world: World
    begun: Counter[str]

    def __init__(self, order: JobOrder, wall_ms: Callable[[], int], _: object) -> None:
        self.world.step()
        self.begun[order.job.job_id] += 1
        self.world.step()
        self.id, self.order = order.job.job_id, order
        self.is_over, self._over, self._wall_ms = False, threading.Event(), wall_ms

    def wait(self, within_s: float) -> bool:
        return self._over.wait(within_s)

    def cancel(self, _: str) -> None:
        self.finish()

    def finish(self) -> None:
        self.is_over = True
        self._over.set()

    def end(self) -> JobEnd:
        return JobEnd(JobState.DONE, "verified: 9 records", self._wall_ms(), is_clean=True)


Services = Callable[[], tuple[Jobs, JobNotes]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(wish_book, "KeyedTopic", Topic)
    monkeypatch.setattr(jobs_module, "VerifyJob", Comparison)
    Comparison.world, Comparison.begun = made, Counter()
    return made


@pytest.fixture
def service(world: World, watch: Watch) -> Iterator[Services]:
    """Begins another service."""
    begun: list[Jobs] = []

    @contextmanager
    def book(_: Config, link: LinkConfig) -> Iterator[WishBook]:
        yield WishBook(LinkName(link.name), world)  # type: ignore[arg-type]  # stands for it

    def begin() -> tuple[Jobs, JobNotes]:
        notes = JobNotes(lambda: watch.config, world, book)  # type: ignore[arg-type]  # a clock
        begun.append(Jobs(watch, notes=notes))
        return begun[-1], notes

    yield begin
    for jobs in begun:
        for job in jobs.of(None):
            finish(job)


def finish(job: Any) -> None:
    """End a comparison, and wait until that is noted."""
    job.finish()
    for thread in threading.enumerate():
        if thread.name == f"job {job.id} notes":
            thread.join()


def verify(jobs: Jobs, key: str = "once", **options: Any) -> Any:
    return jobs.verify(L, options, [], by="ann", key=key)


def noted(jobs: Jobs) -> list[JobStanding]:
    return jobs.noted(L)


@pytest.mark.parametrize("step", range(STEPS))
def test_a_killed_service_begins_nothing_twice(
    world: World, service: Services, watch: Watch, step: int
) -> None:
    """Given a service that is killed at a step / when it is asked again under the same key, of

    another one / then that begins it only if nobody had, or says that it was cut short.
    """
    world.dies_at = {step}
    try:
        verify(service()[0])
        is_killed = False
    except Died:
        is_killed = True
    world.dies_at = set()
    jobs, notes = service()
    again = verify(jobs)
    assert set(Comparison.begun.values()) <= {1}
    if not isinstance(again, JobStanding):
        assert is_killed, "only where nothing was noted it is begun now"
        assert sum(Comparison.begun.values()) == 1
        return
    assert again.state is JobState.RUNNING, "its service may be another machine's"
    assert [each.state for each in noted(jobs)] == [JobState.RUNNING]
    world.sleep(QUIET_S / 2)
    notes.beat(watch.config.links[0], again.job.job_id, 1)
    world.sleep(QUIET_S / 2)
    assert [each.state for each in noted(jobs)] == [JobState.RUNNING], "it has said so since"
    world.sleep(QUIET_S)
    (lost,) = noted(jobs)
    assert (lost.state, lost.is_lost) == (JobState.CUT_SHORT, True)
    assert Job.model_validate(standing_json("l", lost)).state == "cut_short"
    assert jobs._is_open(L) is False
    assert "was cut short" in watch.events(L, 0)[-1].text
    other, _ = service()
    (told,) = noted(other)
    assert told.end is not None, "all see so at once now"
    assert told.state is JobState.CUT_SHORT
    assert set(Comparison.begun.values()) <= {1}


def test_a_job_is_told_by_every_service_until_its_end(
    world: World, service: Services, watch: Watch
) -> None:
    """Given a job / when it runs and ends / then another service and the link's driver tell who

    began it and what it came to, in the same words.
    """
    first, _ = service()
    job = verify(first, topics=["t"])
    (seen,) = noted(service()[0])
    assert (seen.state, seen.job.by, seen.job.options) == (
        JobState.RUNNING,
        "ann",
        {"topics": ["t"]},
    )
    with pytest.raises(Refused, match="idempotency key"):
        verify(service()[0], topics=["u"])
    with pytest.raises(Refused, match="idempotency key"):
        verify(first, topics=["u"])
    assert verify(first, topics=["t"]) is job
    finish(job)
    (ended,) = noted(service()[0])
    row = standing_json("l", ended)
    assert (row["state"], row["verdict"], row["text"]) == ("done", "equal", "verified: 9 records")
    assert service()[0].find_noted(job.id) == (L, ended)
    told = [*told_between([], [seen]), *told_between([seen], [ended])]
    assert told == [(f"verify: begun by ann as job {job.id}", True), (ended_text(ended), True)]
    assert told[0][0] in [event.text for event in watch.events(L, 0)]


def ended_text(standing: JobStanding) -> str:
    assert standing.end is not None
    return standing.end.told(standing.job.job_id)


def test_a_service_that_ends_says_what_it_cuts_short(world: World, service: Services) -> None:
    jobs, _ = service()
    verify(jobs)
    jobs.stop()
    (told,) = noted(service()[0])
    assert (told.state, told.is_lost) == (JobState.CUT_SHORT, False)


def test_what_can_t_be_noted_is_not_begun(
    world: World, service: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise ConnectionLost("away")

    jobs, _ = service()
    with monkeypatch.context() as patched:
        patched.setattr(Topic, "write_many", away)
        with pytest.raises(ConnectionLost):
            verify(jobs)
    assert not Comparison.begun


def test_the_last_jobs_of_a_link_are_kept(world: World, service: Services) -> None:
    jobs, _ = service()
    for number in range(KEPT_MAX + 3):
        finish(verify(jobs, key=f"{number}"))
    assert len(noted(service()[0])) == KEPT_MAX
