"""Tests are taken longest file first, and no file of that list is missing."""

import pytest
from support.order import LONGEST_FIRST, TESTS


def test_files_that_are_taken_first_are_there() -> None:
    assert [name for name in LONGEST_FIRST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)


def test_the_longest_is_taken_first_and_this_one_later(request: pytest.FixtureRequest) -> None:
    files = [item.path.relative_to(TESTS).as_posix() for item in request.session.items]
    listed = [name for name in dict.fromkeys(files) if name in LONGEST_FIRST]
    assert listed == [name for name in LONGEST_FIRST if name in listed]
    assert files.index("unit/test_order.py") >= len([name for name in files if name in listed])
