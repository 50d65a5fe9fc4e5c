"""Verify from the page, over a link that copies: begun there, followed, ended with its report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.browser import chromium
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import LinkProcess, wait_for, write_config
from support.records import Sample, encode, write_batches
from support.served import Served

from heliostat.metrics import families as f

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]
BATCHES, RECORDS = 40, 500
JOB_WITHIN_MS = 90_000
SEEN = """() => {
  window.seen = [];
  setInterval(() => {
    const card = document.querySelector("article.card .num");
    const bar = document.querySelector("article.card progress");
    if (card && bar) window.seen.push([Number(bar.value), card.textContent]);
  }, 100);
}"""


def test_a_link_is_compared_from_the_page(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a link that has copied / when Compare is pressed in its page / then the page shows how

    far it is and, without being touched again, the verdict with the report.
    """
    topic, name = create_topic(cluster_pair.source), fresh_name("link")
    ends = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    topics = {"include": [topic], "naming": {"prefix": f"{name}."}, "refresh_interval_s": 1}
    config = write_config(tmp_path, *ends, name=name, topics=topics, lanes={"count": 1})
    with config.open("a") as more:
        more.write("metrics: {foreign: true}\n")
    served = Served(config)
    try:
        with LinkProcess(config), chromium() as browser:
            wait_for("a link in sync", lambda: served.values(f.LINK_IN_SYNC).get("") == 1)
            now_ms = int(time.time() * 1000)
            batch = encode([Sample(b"k", b"v" * 100, now_ms) for _ in range(RECORDS)])
            write_batches(ends[0], topic, [batch] * BATCHES)
            count = BATCHES * RECORDS
            wait_for("copied", lambda: served.values(f.RECORDS_COPIED).get(topic) == count)
            _compare(browser.new_page(), f"{served.url}#/links/{name}/verify", topic, count)
    finally:
        served.process.kill()
        served.process.wait(10)


def _compare(page: Any, address: str, topic: str, count: int) -> None:
    page.goto(address)
    page.locator("#verify-topic").fill(topic)
    page.evaluate(SEEN)
    page.get_by_role("button", name="Compare").click()
    card = page.locator("article.card")
    card.locator("progress").wait_for()
    card.locator("progress").wait_for(state="detached", timeout=JOB_WITHIN_MS)
    assert "equal" in card.locator(".detail-state").inner_text()
    assert f"1 of 1 partition, {count:,} records compared" in card.inner_text()
    card.get_by_text("The report").click()
    report = json.loads(card.locator("pre").inner_text())
    assert (report["clean"], report["records"]) == (True, count)
    seen = page.evaluate("window.seen")
    print(f"{len(seen)} times seen: {seen[:1]} to {seen[-1:]}")
    assert seen, "how far it was"
