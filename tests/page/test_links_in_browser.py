"""Links of the home, made, changed and deleted from the page, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from page.test_changes_in_browser import AXE_TAGS, LINK, WHY, button
from support.browser import axe_script, chromium, shown_links, watched_tab

pytestmark = pytest.mark.thorough

HOME = "#/links/usdf-to-summit/configuration"
API = "api/v1/links/usdf-to-summit/definition"
WITHIN_MS = 8_000
CONTENT = '{"source": "summit", "target": "usdf", "topics": {"include": ["ESS.*"]}}'


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with shown_links(topics=40, partitions=60, has_answers=True) as made:
        yield made


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    with chromium() as browser, watched_tab(browser, WITHIN_MS) as tab:
        yield tab


def writes(page: Any) -> list[Any]:
    """Return what is written from now on, dry runs left out."""
    requests: list[Any] = []

    def note(request: Any) -> None:
        if request.method != "GET" and "dry_run" not in request.url:
            requests.append(request)

    page.on("request", note)
    return requests


def main_button(page: Any) -> Any:
    return page.locator("dialog button.main")


def wait_until_tried(page: Any, text: str) -> None:
    page.wait_for_selector(f"dialog .move-lines >> text={text}")


def test_a_link_is_made_once_its_definition_can_be_taken(page: Any, address: str) -> None:
    requests = writes(page)
    page.goto(address)
    button(page, "New link").click()
    page.wait_for_selector("dialog >> text=once the link has a name")
    page.keyboard.type("third")
    page.wait_for_selector("dialog .trouble")
    assert "third" in page.inner_text("dialog .trouble"), "its clusters are not named yet"
    page.fill("[data-content]", "{")
    page.wait_for_selector("dialog >> text=is not JSON")
    page.fill("[data-content]", CONTENT)
    wait_until_tried(page, "It selects 30 topics with 120 partitions now")
    page.fill("[data-why]", WHY)
    assert requests == []
    main_button(page).click()
    page.wait_for_selector(".change-course >> text=Written, as generation")
    (request,) = requests
    assert request.post_data_json["why"] == WHY
    assert request.headers["idempotency-key"]
    page.keyboard.press("Escape")
    made = httpx.get(f"{address}api/v1/links/third/definition").json()
    assert (made["origin"], made["content"]["topics"]) == ("home", {"include": ["ESS.*"]})
    path = f"{address}api/v1/links/third/definition"
    httpx.delete(path, headers={"If-Match": "*"}).raise_for_status()


def test_a_definition_is_changed_as_it_was_seen(page: Any, address: str) -> None:
    page.goto(address + LINK + "/configuration")
    page.wait_for_selector(".definition >> text=It stands in the file")
    assert page.locator(".definition button").count() == 0
    page.goto(address + HOME)
    button(page, "Change the definition").click()
    wait_until_tried(page, "nothing would change")
    assert main_button(page).get_attribute("aria-disabled") == "true"
    before = httpx.get(address + API).json()
    content = {**before["content"], "topics": {"include": ["GIS.*"]}}
    page.fill("[data-content]", json.dumps(content))
    wait_until_tried(page, "topics.include")
    assert "30 topics with 120 partitions would be copied no more" in page.inner_text("dialog")
    other = {"content": {"topics": {"include": ["HVAC.*"]}}}
    headers = {"If-Match": "*", "Content-Type": "application/merge-patch+json"}
    generation = httpx.patch(address + API, json=other, headers=headers).json()["generation"]
    main_button(page).click()
    page.wait_for_selector("dialog .trouble >> text=look at it again")
    page.keyboard.press("Escape")
    page.wait_for_selector(f".definition >> text=generation {generation}")
    button(page, "Change the definition").click()
    page.fill("[data-content]", json.dumps(content))
    wait_until_tried(page, "topics.include")
    main_button(page).click()
    page.wait_for_selector(".change-course >> text=Written, as generation")
    page.keyboard.press("Escape")
    assert httpx.get(address + API).json()["content"] == content


def test_dialogs_of_links_fit_and_can_be_used_by_all(page: Any, address: str) -> None:
    options = {"runOnly": {"type": "tag", "values": AXE_TAGS}}
    page.set_viewport_size({"width": 360, "height": 700})
    for theme, view, name in (
        ("dark", HOME, "Change the"),
        ("light", HOME, "Delete the"),
        ("dark", "#/", "New link"),
    ):
        page.goto(f"{address}?theme={theme}{view}")
        button(page, name).click()
        page.wait_for_selector("dialog .change-much[aria-busy=false], dialog .trouble")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.evaluate(axe_script())
        wrong = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:160]) for each in wrong] == []
        page.keyboard.press("Escape")


def test_a_link_is_deleted_once_its_name_is_typed(page: Any, address: str) -> None:
    requests = writes(page)
    page.goto(address + HOME)
    button(page, "Delete the definition").click()
    wait_until_tried(page, "No topic is deleted")
    page.check("[data-state]")
    wait_until_tried(page, "1 topic of the target would be deleted")
    page.check("[data-mirrors]")
    wait_until_tried(page, "summit.mirror1")
    page.uncheck("[data-state]")
    wait_until_tried(page, "2 topics of the target would be deleted")
    assert main_button(page).get_attribute("aria-disabled") == "true"
    page.fill("[data-typed]", "usdf-to-summit")
    before = httpx.get(address + API).json()
    main_button(page).click()
    page.wait_for_selector(".change-course >> text=Done: the link is deleted, and 2 topics")
    (request,) = requests
    assert request.url.endswith("/definition?mirrors=true")
    assert request.headers["if-match"] == f'"{before["generation"]}"'
    page.keyboard.press("Escape")
    page.wait_for_selector(".link-cards")
    assert httpx.get(address + API).status_code == 404
    again = {"name": "usdf-to-summit", "content": before["content"]}
    httpx.post(f"{address}api/v1/links", json=again).raise_for_status()
