"""Switch, failover, tail, way back, apply in a real Chromium: dry run, name typed, course."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import axe_script, chromium, shown_links, watched_tab
from support.shown_answers import TOPICS

from heliostat.names import LinkName
from heliostat.operate.rolling import Rolling, RollingStage, RollingTopic

NAME = "summit-to-usdf"
LINK = f"#/links/{NAME}"
VIEW = f"{LINK}/failover"
WITHIN_MS = 15_000
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OPERATOR = {"name": "anne", "role": "operate", "may_change": True}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with shown_links(topics=40, partitions=60, has_answers=True) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with watched_tab(browser, WITHIN_MS) as tab:
        yield tab


def sent(page: Any) -> list[tuple[str, Any]]:
    """Return what is sent from now on: path with query, and body."""
    posts: list[tuple[str, Any]] = []
    page.on(
        "request",
        lambda request: (
            posts.append((request.url.partition(f"{NAME}/")[2], request.post_data_json))
            if request.method == "POST"
            else None
        ),
    )
    return posts


def rolling(stage: RollingStage) -> dict[str, Any]:
    """Return how far a rolling switch is, all of whose topics are so far."""
    topics = tuple(RollingTopic(topic, stage, 4) for topic in TOPICS)
    standing = Rolling(LinkName(NAME), True, topics, (LinkName("usdf-to-summit"),))
    return {**standing.to_json(), "as_of_ms": 1}


def press(page: Any, name: str) -> None:
    """Open a dialog by keys, and wait for what its dry run says."""
    button = page.get_by_role("button", name=re.compile(f"^{name}"), disabled=False).first
    button.press("Enter")  # it is disabled until it is known what the caller may do
    page.wait_for_selector("dialog .move-lines, dialog [aria-busy=false]")


def judge(page: Any, what: str) -> list[str]:
    """Return what does not fit, and what some could not use."""
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    page.evaluate(axe_script())
    options = {"runOnly": {"type": "tag", "values": AXE_TAGS}}
    found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
    wrong = [f"{what}: {each['id']}: {each['nodes'][0]['html'][:160]}" for each in found]
    return [*wrong, *([f"{what}: {over} px too wide"] if over > 0 else [])]


@pytest.mark.thorough
def test_a_failover_is_tried_typed_and_followed(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + LINK)
    page.wait_for_selector(".field canvas")
    page.keyboard.type("gf")
    page.wait_for_selector("text=It was never failed over")
    press(page, "Fail over")
    page.wait_for_selector(".move-lines >> text=At least 800 records are missing")
    wrong = judge(page, "dialog")
    page.fill("[data-typed]", "summit")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert [path for path, _ in posts] == ["failover?dry_run=true&wait_s=0"], "only tried"
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=leases are waited out")
    page.wait_for_selector(".change-course >> text=Done: 3 mirrors may be written")
    assert posts[1:] == [("failover?wait_s=0", {"confirm": NAME})]
    page.keyboard.press("Escape")
    page.wait_for_selector("text=The source is not fenced")
    page.locator("details", has_text="The report").last.locator("summary").click()
    assert "# Failover of link" in page.inner_text(".report >> nth=-1")
    assert (wrong + judge(page, "view")) == []


@pytest.mark.thorough
def test_a_switch_shows_its_steps_as_they_go(page: Any, address: str) -> None:
    page.goto(address + VIEW)
    press(page, "Switch")
    page.wait_for_selector(".move-lines >> text=To accept: a pipeline has rewritten")
    assert page.locator("dialog button.main").get_attribute("aria-disabled") == "true"
    page.get_by_label(re.compile("^Accept")).check()
    page.wait_for_selector(".move-lines >> text=Nothing is in the way")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=It is begun")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=This service carries it out")
    page.wait_for_selector("[aria-labelledby=run-title] .detail-state >> text=done")
    assert page.locator("[aria-labelledby=run-title] tbody .state.tone-ok").count() == 12


@pytest.mark.long
def test_a_drill_tells_what_it_would_make_and_shows_its_steps(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + VIEW)
    page.wait_for_selector("text=This service has carried out no drill")
    press(page, "Rehearse")
    page.wait_for_selector(
        ".move-lines >> text=5 topics (50 partitions) and 2 groups would be made"
    )
    page.get_by_label(re.compile("^Partitions")).fill("many")
    page.wait_for_selector("dialog >> text=is a whole number")
    page.get_by_label(re.compile("^Partitions")).fill("12")
    page.wait_for_selector(".move-lines >> text=2 topics (12 partitions)")
    page.wait_for_selector(".move-lines >> text=heliostat.drill-* (the way back is left out)")
    wrong = judge(page, "dialog")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=It is begun")
    assert posts[-1] == ("drill", {"confirm": NAME, "partitions": 12})
    page.keyboard.press("Escape")
    drill = page.locator("[aria-labelledby=last-drill-title]")
    drill.locator(".detail-state >> text=under way").wait_for()
    drill.locator(".detail-state >> text=not all could be rehearsed").wait_for()
    assert drill.locator("tbody .state.tone-lag").count() == 2
    assert "2 figures as they must be" in drill.inner_text()
    drill.locator("summary").click()
    assert "grows with topics" in drill.inner_text()
    assert (wrong + judge(page, "view")) == []


@pytest.mark.long
def test_one_that_was_left_behind_is_gone_on_with_or_taken_back(page: Any, address: str) -> None:
    step = {"name": "lag", "state": "running", "began_ms": 1, "ended_ms": None, "text": "waits"}
    run = {"id": "r", "kind": "switch", "topics": ["t"], "options": {}, "by": "bob"}
    run |= {"began_ms": 1, "ended_ms": None, "state": "under_way", "steps": [step], "holder": ""}
    run |= {"text": "", "is_carried_out": False, "may_go_back": True}
    page.route("**/run", lambda it: it.fulfill(json=run))
    page.route("**/switch", lambda it: it.fulfill(status=202, json=run))
    posts = sent(page)
    page.goto(address + VIEW)
    page.wait_for_selector("text=If no other process does")
    press(page, "Go back")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=It goes back")
    assert posts == [("switch", {"confirm": NAME, "back": True})]


@pytest.mark.long
def test_a_rolling_switch_is_merged_waited_for_and_finished(page: Any, address: str) -> None:
    """Its mirrors are merged once all that is in the way is left out; who may change may wait."""
    standing = [RollingStage.MIRROR]
    page.route("**/rolling", lambda it: it.fulfill(json=rolling(standing[-1])))
    posts = sent(page)
    page.goto(address + VIEW)
    page.wait_for_selector("text=3 topics (12 partitions) still are mirrors")
    press(page, "Merge in place")
    page.wait_for_selector(".move-lines >> text=X.y is compacted at summit")
    page.fill("[data-typed]", NAME)
    assert page.locator("dialog button.main").get_attribute("aria-disabled") == "true"
    page.get_by_label(re.compile("^Topics")).fill(" ".join(TOPICS[:2]))
    page.wait_for_selector(".move-lines >> text=2 mirrors (8 partitions) would become merged")
    wrong = judge(page, "dialog")
    standing.append(RollingStage.MERGED)
    page.locator("[data-typed]").press("Enter")
    page.wait_for_selector(".change-course >> text=Done: 2 mirrors (8 partitions)")
    assert posts[-1] == ("rolling/turn?wait_s=0", {"confirm": NAME, "topics": TOPICS[:2]})
    page.keyboard.press("Escape")
    page.wait_for_selector("text=3 topics (12 partitions) are merged: both sites may be written")
    page.locator("details", has_text="The cuts").locator("summary").click()
    assert f"{TOPICS[0]}:3:9003" in page.inner_text("[aria-labelledby=last-turn-title] .report")
    page.get_by_role("button", name="Look for them").click()
    page.wait_for_selector("text=2 producers with an id wrote at the source lately")
    assert f"A transaction is open in {TOPICS[0]}-0" in page.inner_text("tr:has-text('camera-')")
    press(page, "Wait")
    assert page.locator("[data-typed]").count() == 0
    page.get_by_label(re.compile("^Topics")).fill(TOPICS[0])
    page.locator("dialog button.main:not([aria-disabled])").click()
    page.wait_for_selector(".change-course >> text=has crossed: who stopped before may go on")
    assert posts[-1] == ("rolling/wait?wait_s=0", {"topics": TOPICS[:1]})
    page.keyboard.press("Escape")
    page.wait_for_selector(
        f"[aria-labelledby=last-wait-title] >> text={TOPICS[0]}: all that summit"
    )
    press(page, "Finish")
    page.wait_for_selector(
        ".move-lines >> text=3 topics (12 partitions) would be left to the target"
    )
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=It is begun")
    assert posts[-1] == ("rolling/finish", {"confirm": NAME})
    page.keyboard.press("Escape")
    page.wait_for_selector(
        "[aria-labelledby=run-title] >> text=The last finish of a rolling switch"
    )
    page.wait_for_selector("[aria-labelledby=run-title] .detail-state >> text=done")
    assert (wrong + judge(page, "view")) == []


@pytest.mark.long
def test_a_tail_is_shown_and_appended_until_it_is_whole(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + VIEW)
    page.get_by_role("button", name="Look for it").click()
    page.wait_for_selector("text=41 records of 3 partitions never crossed")
    press(page, "Append")
    page.wait_for_selector(".move-lines >> text=41 records would be appended")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Done")
    assert [path for path, _ in posts] == ["tail/append?dry_run=true", *["tail/append"] * 3]


@pytest.mark.long
def test_the_way_back_tells_what_can_not(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + VIEW)
    press(page, "Reverse")
    page.wait_for_selector("dialog >> text=It is told once “Link back” is filled")
    page.get_by_label("Link back").select_option("usdf-to-summit")
    page.wait_for_selector(".move-lines >> text=up to 41 records at the old source never crossed")
    page.get_by_label("Topics with a tail").select_option("keep")
    page.wait_for_selector(".move-lines >> text=2 topics can be copied back")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Start link usdf-to-summit now")
    body = {"confirm": NAME, "back": "usdf-to-summit", "tail": "keep"}
    assert posts[-1] == ("reverse?wait_s=0", body)


@pytest.mark.long
def test_a_plan_is_applied_and_what_deletes_only_if_allowed(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(f"{address}{LINK}/plan")
    page.wait_for_selector("tbody tr")
    press(page, "Apply")
    page.wait_for_selector(".move-lines >> text=left out unless you allow it")
    page.get_by_label(re.compile("Also what deletes")).check()
    page.wait_for_selector(".move-lines >> text=2 changes would be made")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Done: 2 changes")
    assert posts[-1] == ("apply?allow_delete=true", {"confirm": NAME})


@pytest.mark.long
def test_who_is_no_admin_is_told_so_and_what_fails_says_what_helps(page: Any, address: str) -> None:
    page.goto(f"{address}#/links/usdf-to-summit/failover")
    page.wait_for_selector(".trouble >> text=What helps", timeout=45_000)
    press(page, "Fail over")
    page.wait_for_selector("dialog .trouble >> text=CONNECTION_LOST", timeout=45_000)
    assert page.locator("dialog button.main").get_attribute("aria-disabled") == "true"
    page.route("**/api/v1/caller", lambda route: route.fulfill(json=OPERATOR))
    page.goto("about:blank")
    page.goto(address + VIEW)
    page.wait_for_selector(".why-not >> text=It needs a token of role admin")
    for each in page.locator(".ways .actions button").all():
        assert each.get_attribute("aria-disabled") == "true"
        each.click(force=True)
    assert page.locator("dialog").count() == 0


@pytest.mark.thorough
def test_groups_tell_what_they_would_read_again(page: Any, address: str) -> None:
    page.goto(f"{address}{LINK}/groups")
    page.wait_for_selector("text=If the source were gone now: 2 consumer groups would read again")
    row = page.locator("tbody tr", has_text="archiver")
    assert "120" in row.inner_text()


@pytest.mark.long
def test_rights_that_would_go_are_confirmed_as_they_were_shown(page: Any, address: str) -> None:
    posts = sent(page)
    page.goto(address + LINK)
    page.wait_for_selector(".field canvas")
    page.keyboard.type("gr")
    page.wait_for_selector("text=Nothing is removed: 5 of 45 would go at once")
    press(page, "Confirm")
    page.wait_for_selector(".move-lines >> text=5 rights would be removed")
    page.fill("[data-typed]", NAME)
    page.keyboard.press("Enter")
    page.wait_for_selector(".change-course >> text=Confirmed")
    assert posts[-1] == ("access/confirm", {"confirm": NAME, "removals": "c0ffee"})
    page.keyboard.press("Escape")
    page.wait_for_selector("p >> text=Confirmed: the running link removes 5")
    assert page.locator("dialog").count() == 0
    assert judge(page, "rights") == []
