"""Older versions, their own code, meet rows of today: they read, leave alone, or refuse."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import earlier_values as given

from heliostat.gaps.choices import Cause
from heliostat.gaps.ledger import GapLedger
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break
from heliostat.state.link_state import LinkState
from heliostat.state.row_format import FORMAT_KEY, MERGED
from heliostat.wishes.job import Job
from heliostat.wishes.order import Order, OrderVerb
from heliostat.wishes.wish import Place
from heliostat.wishes.wish_book import WishBook

ROOT = Path(__file__).parents[3]
COMMITS = {"0.1.0": "77cc9ef7", "0.2.0": "23cf7d9c"}
"""The last commit of each version."""
STATE = f"heliostat.{given.LINK.name}.state"
GIVES_WAY = Order("f" * 32, Place(), "ops", given.AT_MS, "", OrderVerb.GIVE_WAY)
SKIPPED = replace(
    given.GAP, first=Offset(120), cause=Cause.SKIPPED, at_ms=given.AT_MS + 1, jump=Break(100, 150)
)
JOB = Job("a" * 32, {"complete": True}, "ops", given.AT_MS, "host", "service")


@pytest.fixture(scope="module", params=COMMITS)
def older(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Return a version and the folder with its code."""
    version = str(request.param)
    folder = tmp_path_factory.mktemp(version)
    packed = subprocess.run(
        ["git", "archive", COMMITS[version], "src"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return version, folder / "src"


def todays_rows(*, is_merged: bool = False) -> dict[str, dict[str, Any]]:
    """Return rows that today's link writes; those that only today's has are among them."""
    topics = given.Topics()
    with given.books_over(topics):
        given.write_all()
        state = LinkState(given.LINK, given.TARGET)
        returned = replace(given.mirror(given.MAPPED), is_returned=True)
        state.put_mirrors({given.MAPPED: returned})
        book = WishBook(given.LINK.name, given.TARGET.access())
        book.order([GIVES_WAY])
        book.put({JOB.key: JOB.to_json()})
        GapLedger(given.LINK.name, given.TARGET.access()).record([SKIPPED])
    topics.rows[STATE] |= {"a-key/of-tomorrow": {"field": [1]}}
    if is_merged:
        topics.rows[STATE][FORMAT_KEY] = dict(MERGED)
    return topics.rows


def read_by(source: Path, rows: dict[str, dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return what the code in that folder says of rows."""
    path = folder / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-m", "support.rows_read", path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    said: dict[str, Any] = json.loads(answer.stdout)
    return said


def test_rows_of_today_are_read_and_what_is_new_is_left_alone(
    older: tuple[str, Path], tmp_path: Path
) -> None:
    version, source = older
    said = read_by(source, todays_rows(), tmp_path)

    knows = {"0.1.0": [given.ORDER_ID], "0.2.0": [given.ORDER_ID, GIVES_WAY.order_id]}
    assert said == {
        "version": version,
        "orders": knows[version],
        "gaps": [["source_overtook", [100, 120]], ["tail_dropped", [100, 150]]],
        "jumps": [[100, 150]],  # it goes on behind what was skipped, as today's link does
    }


def test_today_reads_the_cause_that_older_versions_do_not_know() -> None:
    topics = given.Topics(todays_rows())
    with given.books_over(topics):
        ledger = GapLedger(given.LINK.name, given.TARGET.access())
        ledger.read()
    assert [row.cause for row in ledger.rows.values()] == [given.GAP.cause, Cause.SKIPPED]
    assert ledger.jumps()[SKIPPED.source].to_json()["cause"] == "skipped"


def test_rows_of_merged_topics_are_refused_from_0_2_0_on(
    older: tuple[str, Path], tmp_path: Path
) -> None:
    version, source = older
    said = read_by(source, todays_rows(is_merged=True), tmp_path)

    if version == "0.1.0":  # docs/upgrade.md tells it, and to go back through 0.2.0
        assert "refused" not in said
    else:
        assert said["refused"] == (
            "the link's rows are of Heliostat 0.3.0, in format 2: 0.2.0 reads formats up to 1"
        )
