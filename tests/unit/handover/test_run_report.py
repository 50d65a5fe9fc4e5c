"""A run's report as Markdown."""

from __future__ import annotations

from unit.handover.test_steps import World, conductor

from heliostat.handover.desk import Problem, Weight
from heliostat.handover.run_report import ended_words, markdown, step_line


def test_a_report_has_each_step_with_its_time_and_what_preflight_saw() -> None:
    world = World(problems=[Problem("groups_reading", "a | b reads", "stop it", Weight.TOLD)])
    run = conductor(world).go()
    text = markdown(run, "summit-to-usdf")
    assert "# Switch of summit-to-usdf" in text
    assert "| still | done | 1970-01-01T00:00:02Z | 10.0 | 1 logs stood still for 10 s |" in text
    assert "a \\| b reads" in text
    assert "- a | b reads (groups_reading): stop it" in text
    assert ended_words(run) == "the switch of 1 topics is done after 24.0 s"


def test_one_that_went_back_says_so() -> None:
    run = conductor(World(writes_past_fence=True)).go()
    assert "went back: producers and groups stay at the source" in ended_words(run)
    assert step_line(run.step("still")).startswith("still      failed")
    assert step_line(run.step("fence")).startswith("fence      taken back")
