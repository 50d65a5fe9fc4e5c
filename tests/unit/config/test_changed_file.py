"""A changed file is noticed once it has rested."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path

from sim.sim_clock import SimClock

from heliostat.config.changed_file import ChangedFile, stamp_of


class File:
    """A file whose versions are given, and a clock."""

    def __init__(self) -> None:
        self.version: Hashable | None = 1
        self.clock = SimClock(0)
        self.changed = ChangedFile(Path("x"), self.clock, lambda: self.version)

    def after(self, seconds: float) -> bool:
        self.clock.sleep(seconds)
        return self.changed.is_due()


def test_a_file_that_rests_is_never_due() -> None:
    file = File()
    assert not any(file.after(1.0) for _ in range(10))


def test_a_changed_file_is_due_once_when_it_has_rested() -> None:
    """Given a change / when 2 s have passed / then it is due once, not before and not again."""
    file = File()
    file.version = 2
    assert [file.after(each) for each in (0.0, 1.0, 0.9, 0.2, 5.0)] == [
        False, False, False, True, False,
    ]  # fmt: skip


def test_each_further_step_of_an_editor_begins_the_pause_anew() -> None:
    """Given a file that is written, is gone and is there again / then it is due after the last."""
    file = File()
    for version in (2, None, 3):
        file.version = version
        assert not file.after(1.5)
    assert not file.after(1.9)
    assert file.after(0.2)


def test_a_file_that_goes_back_to_what_was_read_is_not_due() -> None:
    file = File()
    file.version = 2
    assert not file.after(1.0)
    file.version = 1
    assert not any(file.after(1.0) for _ in range(5))


def test_a_file_that_is_gone_is_due_as_any_change() -> None:
    file = File()
    file.version = None
    assert not file.after(0.0)
    assert file.after(2.0)


def test_what_was_read_for_another_reason_is_not_due() -> None:
    file = File()
    file.version = 2
    file.changed.is_read()
    assert not any(file.after(1.0) for _ in range(5))


def test_versions_differ_by_time_size_or_file_and_links_are_followed(tmp_path: Path) -> None:
    """Given a file behind a link / when that leads to another file of equal content / then told."""
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.write_text("x")
    two.write_text("x")
    os.utime(two, ns=(one.stat().st_atime_ns, one.stat().st_mtime_ns))
    link.symlink_to(one)
    first = stamp_of(link)
    link.unlink()
    link.symlink_to(two)
    assert stamp_of(link) not in {first, None}
    link.unlink()
    assert stamp_of(link) is None
