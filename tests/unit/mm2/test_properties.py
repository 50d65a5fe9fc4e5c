"""Java's `.properties` format, read as `java.util.Properties` does."""

from __future__ import annotations

import pytest

from heliostat.errors import ConfigError
from heliostat.mm2.config_properties import Property, read_properties


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a\tb", "a", "b"),
        ("a = = b", "a", "= b"),
        ("a", "a", ""),
        ("  a  =  b  ", "a", "b  "),  # blanks after a value belong to it
        (r"a\ b = c", "a b", "c"),
        (r"a\:b\=c = d", "a:b=c", "d"),
        (r"a = \\d\t\n\q", "a", "\\d\t\nq"),
        (r"a = \u00e9", "a", "é"),
        ("a->b.enabled = true", "a->b.enabled", "true"),
        ("a = b # c", "a", "b # c"),
        ("a = \\\n   b, \\\n  c", "a", "b, c"),
        ("a = b\\\\\nc = d", "a", "b\\"),
        ("a = b\\", "a", "b"),
        ("a\\\n = b", "a", "b"),
        ("a = b\\\n# c", "a", "b# c"),
        ("a = b\r\nc = d", "a", "b"),
    ],
)
def test_names_and_values(text: str, name: str, value: str) -> None:
    assert read_properties(text)[0][:2] == (name, value)


def test_comments_and_empty_lines_are_skipped_and_lines_counted() -> None:
    text = "# one\n\n   ! two \\\na = 1\n b = 2\\\n3\nc=4"
    assert read_properties(text) == [
        Property("a", "1", 4),
        Property("b", "23", 5),
        Property("c", "4", 7),
    ]


def test_repeated_names_are_all_reported() -> None:
    assert [each.value for each in read_properties("a=1\na=2")] == ["1", "2"]


def test_half_an_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        read_properties("a = b\nc = \\u12")
