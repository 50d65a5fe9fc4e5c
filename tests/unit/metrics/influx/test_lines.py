"""Lines are read back as they were meant, by a parser written after InfluxDB's own description."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from heliostat.metrics.influx import lines

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
NAME = TEXT.map("n".__add__)
Point = tuple[str, dict[str, str], dict[str, float | str]]


def pieces(text: str, end: str, *, quoted: bool = False) -> list[str]:
    """Cut at each `end` before which no backslash stands, and which no text encloses.

    A text begins with quotes after an equals sign, and only among fields, as in InfluxDB's
    `scanLine`.
    """
    found, piece, at, is_inside = [], "", 0, False
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            piece, at = piece + text[at : at + 2], at + 2
            continue
        if quoted and text[at] == '"':
            is_inside = not is_inside and text[at - 1] == "=" and text[at - 2 : at - 1] != "\\"
        if text[at] == end and not is_inside:
            found, piece = [*found, piece], ""
        else:
            piece += text[at]
        at += 1
    return [*found, piece]


def unescaped(text: str, special: str) -> str:
    plain, at = "", 0
    while at < len(text):
        at += text[at] == "\\" and at + 1 < len(text) and text[at + 1] in special
        plain, at = plain + text[at], at + 1
    return plain


def parsed(line: str) -> Point:
    start = pieces(line, " ")[0]
    field_set, time = pieces(line[len(start) + 1 :], " ", quoted=True)
    assert time.isdecimal()
    measurement, *tags = pieces(start, ",")
    read: dict[str, float | str] = {}
    for item in pieces(field_set, ",", quoted=True):
        key, value = pieces(item, "=", quoted=True)
        is_text = value.startswith('"')
        read[unescaped(key, ",= ")] = unescaped(value[1:-1], '"\\') if is_text else float(value)
    own = [pieces(tag, "=") for tag in tags]
    return (
        unescaped(measurement, ", "),
        {unescaped(key, ",= "): unescaped(value, ",= ") for key, value in own},
        read,
    )


def meant(text: str) -> str:
    """What arrives of a name."""
    return re.sub(r"\\+([,= \n]|\Z)", r"\1", text).replace("\n", " ")


@given(
    NAME,
    st.dictionaries(NAME, TEXT, max_size=3),
    NAME,
    st.one_of(TEXT, st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 2**60)),
)
def test_a_line_is_read_back_as_it_was_meant(
    measurement: str, tags: dict[str, str], name: str, value: float | str
) -> None:
    written = lines.field(name, value)
    line = f"{lines.series(measurement, tags)} {written} 1700000000000"
    read_measurement, read_tags, read_fields = parsed(line)
    assert read_measurement == meant(measurement)
    assert read_tags == {meant(key): meant(text) for key, text in tags.items() if meant(text)}
    shown = value.replace("\n", " ") if isinstance(value, str) else float(value)
    assert read_fields == {meant(name): shown}
    assert "\n" not in line


def test_what_is_no_finite_number_is_absent() -> None:
    assert [lines.field("a", value) for value in (math.nan, math.inf, -math.inf)] == [None] * 3


def test_numbers_are_floats() -> None:
    assert lines.field("a", 3) == "a=3.0"
