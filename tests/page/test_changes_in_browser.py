"""What the page changes, in a real Chromium: what would change, then the wish, then its state."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.browser import axe_script, chromium, shown_links, watched_tab

pytestmark = pytest.mark.thorough

LINK = "#/links/summit-to-usdf"
AWAY = "#/links/usdf-to-summit"
"""Its clusters do not answer."""
TOPIC = f"{LINK}/topics/lsst.sal.ATCamera.elevation"
TOPICS, PARTITIONS = 400, 600
WHY = "the disk is full"
WITHIN_MS = 5_000
SIZES, THEMES = (360, 800, 1600), ("dark", "light")
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LOOKS_ONLY = {"name": "anne", "role": "view", "may_change": False}
FOCUS = "(text) => document.activeElement.textContent.includes(text)"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with shown_links(topics=TOPICS, partitions=PARTITIONS, has_answers=True) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    _let_all_go_on(f"{address}api/v1/links/summit-to-usdf")
    with watched_tab(browser, WITHIN_MS) as tab:
        yield tab


def _let_all_go_on(link: str) -> None:
    """Take back what a test before left, if it failed."""
    while (row := httpx.get(link).json())["wish"] or row["paused"]:
        for body in ({}, {"topics": [each["place"] for each in row["paused"]]}):
            httpx.post(f"{link}/resume", json=body).raise_for_status()
        time.sleep(1)


def sent(page: Any) -> list[tuple[str, Any]]:
    """Return what is sent from now on: path with query, and body."""
    posts: list[tuple[str, Any]] = []
    page.on(
        "request",
        lambda request: (
            posts.append((request.url.partition("/api/v1/")[2], request.post_data_json))
            if request.method == "POST"
            else None
        ),
    )
    return posts


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=re.compile(f"^{name}"))


def carry_out(page: Any, name: str, why: str = "") -> None:
    """Press a button, wait for the dry run, confirm, and close."""
    button(page, name).click()
    page.wait_for_selector(".change-facts b")
    page.keyboard.type(why)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Done")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_a_link_is_paused_and_goes_on_by_keys_alone(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + LINK)
    page.wait_for_selector(".link-head .actions button:not([aria-disabled])")
    button(page, "Pause the link").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-facts b")
    facts = page.inner_text(".change-facts")
    assert f"{PARTITIONS} partitions." in facts
    assert "Yes, at any time" in facts
    assert posts == [("links/summit-to-usdf/pause?dry_run=true", {"why": ""})], "only asked"
    page.keyboard.type(f" {WHY} ")
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Done: it is paused")
    assert posts[1:] == [("links/summit-to-usdf/pause", {"why": WHY})]
    page.keyboard.press("Enter")
    page.wait_for_function(FOCUS, arg="Resume")
    page.wait_for_selector(".pill >> text=paused")
    rests = page.inner_text(".link-head .rests")
    assert all(part in rests for part in ("‖", "paused", "api", "since", WHY))
    page.goto(f"{address}{LINK}/topics")
    page.wait_for_selector(".rows .topic-row >> text=paused")
    assert button(page, "Stop the link").is_visible()
    page.keyboard.press("Tab")
    carry_out(page, "Resume the link")
    page.wait_for_selector(".link-head .rests", state="detached")
    page.wait_for_selector(".rows .topic-row >> text=copying")


def test_a_link_that_is_stopped_is_started(page: Any, address: str) -> None:
    page.goto(address + LINK)
    carry_out(page, "Stop the link")
    page.wait_for_function(FOCUS, arg="Start")
    assert button(page, "Pause the link").count() == button(page, "Resume the link").count() == 0
    carry_out(page, "Start the link")
    page.wait_for_function(FOCUS, arg="Stop")


def test_who_cancels_has_changed_nothing(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + LINK)
    for way in ("Escape", "Cancel"):
        button(page, "Pause the link").click()
        page.wait_for_selector(".change-facts b")
        page.keyboard.type("p")
        if way == "Cancel":
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
        else:
            page.keyboard.press(way)
        page.wait_for_selector("dialog", state="detached")
        page.wait_for_function(FOCUS, arg="Pause")
    assert {path for path, _ in posts} == {"links/summit-to-usdf/pause?dry_run=true"}


def test_a_topic_and_a_partition(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + TOPIC)
    carry_out(page, "Pause this topic", WHY)
    page.wait_for_function(FOCUS, arg="Resume")
    assert WHY in page.inner_text(".steering .rests")
    assert "paused" in page.inner_text(".topic-figures")
    page.goto(f"{address}{TOPIC}/0")
    carry_out(page, "Resume this partition")
    page.wait_for_selector(".detail-state >> text=copying")
    paths = [path for path, _ in posts if "dry_run" not in path]
    name = "links/summit-to-usdf/topics/lsst.sal.ATCamera.elevation"
    assert paths == [f"{name}/pause", f"{name}/partitions/0/resume"]
    page.goto(f"{address}{TOPIC}")
    carry_out(page, "Pause this topic")
    carry_out(page, "Resume this topic")


def test_topics_that_the_filter_leaves_are_paused_together(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(f"{address}{LINK}/topics")
    page.wait_for_selector(".rows .topic-row")
    assert page.locator(".bar .actions button").count() == 0, "all topics are the link"
    page.fill("[data-filter]", "Elevation state:copying")
    button(page, "Pause these").click()
    page.wait_for_selector(".change-facts b")
    count = int(re.findall(r"Pause (\d+) topics", page.inner_text("#change-title"))[0])
    page.click(".change summary")
    names = page.locator(".change-names li").all_inner_texts()
    page.keyboard.press("Escape")
    carry_out(page, "Pause these", WHY)
    path, body = posts[-1]
    assert path == "links/summit-to-usdf/pause"
    assert (sorted(body["topics"]), body["why"]) == (sorted(names), WHY)
    assert len(names) == count > 1
    page.fill("[data-filter]", "Elevation")
    page.wait_for_selector(".rows .topic-row >> text=paused")
    page.goto(address + LINK)
    page.wait_for_selector("#paused-title")
    assert str(count) in page.inner_text("#paused-title")
    page.click("text=these topics")
    page.wait_for_selector(f"#filter-says >> text={count} of")
    carry_out(page, f"Resume these {count} topics")
    page.wait_for_selector("text=No topic matches")


def test_who_may_only_look_is_told_so(page: Any, address: str) -> None:
    page.route("**/api/v1/caller", lambda route: route.fulfill(json=LOOKS_ONLY))
    page.goto(address + TOPIC)
    page.wait_for_selector(".why-not >> text=anne may only look")
    for each in page.locator(".actions button").all():
        assert each.get_attribute("aria-disabled") == "true"
        each.click(force=True)
    assert page.locator("dialog").count() == 0


def test_what_is_not_known_offers_nothing(page: Any, address: str) -> None:
    page.route("**/api/v1/caller", lambda route: route.abort())
    page.goto(address + LINK)
    page.wait_for_selector(".why-not >> text=not known yet")
    assert button(page, "Pause the link").get_attribute("aria-disabled") == "true"


def test_a_wish_that_waits_says_why_and_is_followed(page: Any, address: str) -> None:
    told = {"link": "l", "wished": "paused", "places": ["the link"], "changed": ["the link"]}
    told |= {"partitions": 3, "is_done": False, "waits": "the link has no owner now"}
    told |= {"still_paused": [], "took_s": 5.0, "is_tried": False}
    page.route("**/links/summit-to-usdf/pause", lambda route: route.fulfill(status=202, json=told))
    page.goto(address + LINK)
    button(page, "Pause the link").click()
    page.wait_for_selector(".change-facts b")
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=waits: the link has no owner now")
    page.unroute("**/links/summit-to-usdf/pause")
    own = {"Origin": address.rstrip("/"), "Content-Type": "application/json"}
    path = f"{address}api/v1/links/summit-to-usdf"
    assert page.request.post(f"{path}/pause", headers=own, data="{}").ok, "by another one"
    page.wait_for_selector(".change-course >> text=Done: it is paused")
    assert page.request.post(f"{path}/resume", headers=own, data="{}").ok


def test_a_restart_is_ordered_once(page: Any, address: str) -> None:
    told = {"link": "l", "places": ["the link"], "orders": [], "lanes": 2, "stopped": 1}
    told |= {"is_done": False, "waits": "", "took_s": 0.4, "is_tried": True}
    page.route("**/links/summit-to-usdf/restart?dry_run=true", lambda it: it.fulfill(json=told))
    keys: list[str] = []

    def order(route: Any) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.abort()
        else:
            route.fulfill(json={**told, "is_done": True})

    page.route("**/links/summit-to-usdf/restart", order)
    posts = sent(page)
    page.goto(address + LINK)
    button(page, "Restart the link").click()
    page.wait_for_selector(".change-facts b >> text=2 lanes. 1 stopped partition is tried again")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog >> text=can't be reached")
    page.click("dialog button.main")
    page.wait_for_selector(".change-course >> text=Done (0.4 s)")
    assert keys[0] == keys[1], "a lost answer: it is the same order"
    page.keyboard.press("Escape")
    page.wait_for_function(FOCUS, arg="Restart")
    assert [path.rpartition("/")[2] for path, _ in posts] == [
        "restart?dry_run=true", "restart", "restart",
    ]  # fmt: skip


def test_a_limit_is_asked_for_once_it_is_whole(page: Any, address: str) -> None:
    told = {"link": "l", "wished": "20MB/s", "bytes_per_second": 20_000_000}
    told |= {
        "places": ["the link"],
        "changed": ["the link"],
        "topics": 400,
        "partitions": 1_200,
        "is_done": True,
    }
    told |= {"waits": "", "took_s": 0.4, "is_tried": True}
    page.route(re.compile("/limit"), lambda it: it.fulfill(json=told))
    posts = sent(page)
    page.goto(address + LINK)
    button(page, "Limit the link").click()
    page.wait_for_selector("dialog >> text=It is told once the fields are filled")
    assert posts == []
    page.keyboard.type("20MB/s")
    page.wait_for_selector(".change-facts b >> text=400 topics with 1,200 partitions.")
    page.fill("[data-why]", WHY)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Done (0.4 s)")
    limit = {"why": "", "limit": "20MB/s"}
    path = "links/summit-to-usdf/limit"
    assert posts == [(f"{path}?dry_run=true", limit), (path, {**limit, "why": WHY})]


def test_limits_and_priorities_stand_and_are_taken_back(page: Any, address: str) -> None:
    api, name = f"{address}api/v1/links/summit-to-usdf", "lsst.sal.ATCamera.elevation"
    wishes: list[tuple[str, dict[str, Any]]] = [
        ("limit", {"limit": "20MB/s", "why": WHY}),
        (f"topics/{name}/limit", {"limit": "1MB/s"}),
        ("prefer", {"topics": ["lsst.sal.ATCamera.*"], "priority": "high"}),
    ]
    for path, body in wishes:
        httpx.post(f"{api}/{path}", json=body).raise_for_status()
    page.goto(address + LINK)
    card = page.locator("section", has=page.locator("#levels-title"))
    card.locator(".rests").nth(2).wait_for()
    texts = [" ".join(text.split()) for text in card.locator(".rests").all_inner_texts()]
    for text, parts in zip(
        texts,
        (
            ("20.0 MB/s at most", "the link", "uses 15.0 MB/s", "by api since", WHY),
            ("1.0 MB/s at most", name, "uses 750 kB/s"),
            ("high priority", "lsst.sal.ATCamera.*"),
        ),
        strict=True,
    ):
        assert [part for part in parts if part not in text] == [], text
    posts = sent(page)
    page.set_viewport_size({"width": 360, "height": 700})
    carry_out(page, "Lift 20.0", WHY)
    page.wait_for_selector(".rests >> text=20.0", state="detached")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.goto(address + TOPIC)
    carry_out(page, "Make normal")
    page.wait_for_selector(".steering .rests >> text=normal priority")
    assert button(page, "Make normal").count() == 0
    carry_out(page, "Lift")
    page.wait_for_selector(".steering .rests >> text=at most", state="detached")
    paths = [(path, body) for path, body in posts if "dry_run" not in path]
    assert [path.removeprefix("links/summit-to-usdf/") for path, _ in paths] == [
        "limit",
        "prefer",
        f"topics/{name}/limit",
    ]
    assert paths[0][1] == {"why": WHY, "limit": "none"}
    assert paths[1][1] == {"why": "", "priority": "normal", "topics": ["lsst.sal.ATCamera.*"]}


def test_what_is_wished_already_can_not_be_sent(page: Any, address: str) -> None:
    page.goto(address + LINK)
    page.wait_for_selector(".actions button")
    page.route("**/api/v1/links/summit-to-usdf", lambda route: route.abort())
    own = {"Origin": address.rstrip("/"), "Content-Type": "application/json"}
    path = f"{address}api/v1/links/summit-to-usdf"
    assert page.request.post(f"{path}/pause", headers=own, data="{}").ok
    button(page, "Pause the link").click()
    page.wait_for_selector(".change-facts b >> text=already")
    posts = sent(page)
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert posts == []
    assert page.request.post(f"{path}/resume", headers=own, data="{}").ok


def test_an_error_is_told_with_what_helps_and_can_be_tried_again(page: Any, address: str) -> None:
    page.goto(address + AWAY)
    button(page, "Stop the link").click()
    page.wait_for_selector("dialog .trouble", timeout=40_000)
    said = page.inner_text("dialog .trouble")
    assert all(part in said for part in ("CONNECTION_LOST", "HTTP 503", "What helps"))
    assert page.locator("dialog button.main").get_attribute("aria-disabled") == "true"
    page.keyboard.press("Escape")
    page.goto(address + LINK)
    button(page, "Pause the link").click()
    page.wait_for_selector(".change-facts b")
    problem = {"title": "Not as things are", "status": 409, "detail": "no", "hint": "wait"}
    page.route(
        "**/links/summit-to-usdf/pause", lambda route: route.fulfill(status=409, json=problem)
    )
    page.keyboard.type(WHY)
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .trouble >> text=What helps: wait")
    page.unroute("**/links/summit-to-usdf/pause")
    assert page.input_value("[data-why]") == WHY, "nobody types it twice"
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Done")
    page.keyboard.press("Escape")
    carry_out(page, "Resume the link")


@pytest.mark.parametrize("theme", THEMES)
def test_dialogs_fit_and_can_be_used_by_all(page: Any, address: str, theme: str) -> None:
    axe, wrong = axe_script(), list[str]()
    options = {"runOnly": {"type": "tag", "values": AXE_TAGS}}

    def judge(what: str) -> None:
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        wrong.extend([f"{what}: {over} px too wide"] if over > 0 else [])
        page.evaluate(axe)
        found = page.evaluate("(options) => axe.run(document, options)", options)
        for each in found["violations"]:
            wrong.extend(f"{what}: {each['id']}: {node['html'][:160]}" for node in each["nodes"])

    page.emulate_media(color_scheme=theme)
    for width in SIZES:
        page.set_viewport_size({"width": width, "height": 700})
        for view, name in (
            (LINK, "Stop the link"),
            (f"{LINK}/topics?filter=elevation", "Pause these"),
        ):
            page.goto(f"{address}?theme={theme}{view}")
            button(page, name).click()
            page.wait_for_selector(".change-facts b")
            judge(f"{name} at {width}")
            box = page.locator("dialog").bounding_box()
            assert 0 <= box["x"] <= width - box["width"]
            page.keyboard.press("Escape")
        carry_out(page, "Pause these", WHY)
        page.goto(f"{address}?theme={theme}{LINK}")
        page.wait_for_selector("#paused-title")
        judge(f"paused at {width}")
        page.goto(f"{address}?theme={theme}{LINK}/topics?filter=elevation")
        carry_out(page, "Resume these")
    assert wrong == []
