"""Each code of the reference has an explanation: an answer, a hint, a next step, no placeholder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unit.explaining.test_explain import (
    NOW_MS,
    T,
    check_readable,
    evidence,
    partition,
    status,
    text_of,
)

from heliostat.explaining.explain import explain
from heliostat.explaining.values import Explanation, Kind, Question
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause, GapChoice
from heliostat.gaps.ledger import GapRow
from heliostat.names import Offset, PartitionId
from heliostat.topics.topic_plan import RefusalCode, RefusedTopic

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
NAMES = {"retry", "halt", "set aside", "starting", "aligning", "copying", "retrying", "blocked"}


def codes_of_the_page() -> list[str]:
    """Codes in the tables of the reference, by its first or second column."""
    found: list[str] = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        named = [cell.strip("`") for cell in cells[:2] if re.fullmatch(r"`\w+`", cell)]
        found += [name for name in named[:1] if name not in NAMES]
    return list(dict.fromkeys(found))


CODES = codes_of_the_page()
REFUSED = {each.value for each in RefusalCode}
IN_LEDGER = {each.value for each in Cause}


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_an_answer_a_hint_and_a_next_step(code: str) -> None:
    """Wherever the code can stand: at a partition, a topic, a gap of the ledger, or the link."""
    found: list[Explanation] = []
    if code in REFUSED:
        refusal = RefusedTopic(code, "", "")
        found.append(explain(Question(T), evidence(partitions=(), refusal=refusal)))
    if code in IN_LEDGER:
        row = GapRow(
            *(T, PartitionId(0), Offset(5), Offset(9), 5, Cause(code), NOW_MS),
            *(GapChoice.CONTINUE, "policy", T),
        )
        found.append(explain(Question(T, PartitionId(0), Offset(7)), evidence(gaps=(row,))))
        assert found[-1].kind is Kind.LOST
    if code.isupper():
        state = "gap" if code in CAUSE_OF_CODE else "retrying"
        row_of_it = partition(state=state, code=code)
        found.append(explain(Question(T, PartitionId(0)), evidence(partitions=(row_of_it,))))
        found.append(explain(Question(T), evidence(partitions=(row_of_it,))))
        trouble = status(troubles=[f"[{code}] it happened"])
        found.append(explain(Question(), evidence(status=trouble)))
    assert found
    for each in found:
        check_readable(each)
        assert each.code == code
        assert each.hint
        assert each.next_steps
        assert "not known to this version" not in text_of(each)


def test_all_tables_of_the_reference_were_read() -> None:
    assert {"CONFIG_REFUSED", "MESSAGE_TOO_LARGE", "SOURCE_OVERTOOK", "CONFLICT"} <= set(CODES)
    assert set(CODES) >= REFUSED | IN_LEDGER
    assert len(CODES) > 130
