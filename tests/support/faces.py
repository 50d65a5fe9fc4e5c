"""The four faces by which a link is steered, each with what it does and what it shows.

`kafkaconnect` as published, plain HTTP, the page in Chromium, and the command line; a face does and
shows what it does by design: Kafka Connect's API has no limits, and tells of no restart.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from support.command import heliostat
from support.connect_clients import Client
from typing_extensions import override

LINKS, STATE, LIMIT, TOPICS, RESTARTS, OWNER = (
    "links",
    "state",
    "limit",
    "topics",
    "restarts",
    "owner",
)
ALL = frozenset({LINKS, STATE, LIMIT, TOPICS, RESTARTS, OWNER})
AGAIN = "began anew"
"""What is told of a restart that is done."""
Content = Mapping[str, Any]


def content_of(topics: Sequence[str]) -> dict[str, Any]:
    """Return a link of the home as `links:` has it."""
    words = {"include": [*topics], "refresh_interval_s": 1}
    return {"source": "src", "target": "destn", "topics": words}


class Face(ABC):
    """One way to steer links and to see them."""

    name: str
    shows = ALL
    began_s = 0.0
    """When its last act was asked for (monotonic)."""

    @abstractmethod
    def shown(self, what: str, link: str) -> object:
        """Return what it shows: names of links or topics, a state, a limit in bytes, …"""

    def _begin(self) -> None:
        self.began_s = time.monotonic()


class Curl(Face):
    """Plain HTTP at `api/v1`."""

    name = "curl"

    def __init__(self, url: str) -> None:
        self.url = url

    @override
    def shown(self, what: str, link: str) -> object:
        """Return what the service answers."""
        if what == LINKS:
            return {row["name"] for row in self._get("links")["items"]}
        if what == TOPICS:
            return {row["source"] for row in self._get(f"links/{link}/topics")["items"]}
        if what == RESTARTS:
            return sum(AGAIN in row["text"] for row in self._get(f"events?link={link}")["items"])
        row = self._get(f"links/{link}")
        if what == LIMIT:
            return next((each["bytes_per_second"] for each in row["limits"]), None)
        return row["owner"].get("host") if what == OWNER else row["state"]

    def wish(self, verb: str, link: str, **body: str) -> None:
        """Pause, resume, limit or restart."""
        self._begin()
        self._sent("POST", f"links/{link}/{verb}", json=body)

    def create(self, link: str, topics: Sequence[str]) -> None:
        """Make a link of the home."""
        self._begin()
        self._sent("POST", "links", json={"name": link, "content": content_of(topics)})

    def select(self, link: str, topics: Sequence[str]) -> httpx.Response:
        """Change which topics are copied."""
        self._begin()
        return httpx.patch(
            f"{self.url}/api/v1/links/{link}/definition",
            json={"content": {"topics": {"include": [*topics]}}},
            headers={"If-Match": "*", "Content-Type": "application/merge-patch+json"},
            timeout=30,
        )

    def delete(self, link: str) -> None:
        """Delete a link of the home."""
        self._begin()
        self._sent("DELETE", f"links/{link}/definition", headers={"If-Match": "*"})

    def _get(self, path: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", timeout=10)
        return answer.raise_for_status().json()

    def _sent(self, method: str, path: str, **more: Any) -> None:
        answer = httpx.request(method, f"{self.url}/api/v1/{path}", timeout=30, **more)
        assert answer.is_success, answer.text


class KafkaConnect(Face):
    """`kafkaconnect`, of links that are connectors under other names.

    Parameters
    ----------
    client
        Runs the command.
    connectors
        Connectors by their links, where these have another name.
    """

    name = "kafkaconnect"
    shows = ALL - {LIMIT, RESTARTS}

    def __init__(self, client: Client, connectors: Mapping[str, str]) -> None:
        self._client = client
        self._connectors = connectors
        self._links = {connector: link for link, connector in connectors.items()}

    @override
    def shown(self, what: str, link: str) -> object:
        """Return what the command prints, as links have it."""
        name = self._connectors.get(link, link)
        if what == LINKS:
            return {self._links.get(each, each) for each in json.loads(self._said("list"))}
        if what == TOPICS:
            names = json.loads(self._said("topics", name))[name]["topics"]
            return {each.removeprefix("src.") for each in names}
        row = json.loads(self._said("status", name))["connector"]
        if what == OWNER:
            return row["worker_id"].partition(":")[0] if row["state"] != "UNASSIGNED" else ""
        return row["state"].lower()

    def wish(self, verb: str, link: str) -> None:
        """Pause, resume or restart."""
        self._begin()
        self._said(verb, self._connectors.get(link, link))

    def put(self, upload: Callable[[], None]) -> None:
        """Make or change a connector."""
        self._begin()
        upload()

    def delete(self, link: str) -> None:
        """Delete a connector."""
        self._begin()
        self._said("delete", self._connectors.get(link, link))

    def _said(self, *words: str) -> str:
        code, text = self._client.run(*words)
        assert code == 0, text
        return text


class CommandLine(Face):
    """`heliostat`."""

    name = "heliostat"

    def __init__(self, config: Path) -> None:
        self._config = config

    @override
    def shown(self, what: str, link: str) -> object:
        """Return what the command prints."""
        if what == LINKS:
            rows = heliostat(self._config, "links", "list", "--json").json["items"]
            return {row["name"] for row in rows}
        [row] = heliostat(self._config, "status", "--link", link, "--json").json
        if what == TOPICS:
            return {each["source"] for each in row["topics"]}
        if what == RESTARTS:
            orders = row["driver"].get("wishes", {}).get("orders", [])
            return sum(each["stage"] == "done" for each in orders)
        if what == LIMIT:
            return next((each["bytes_per_second"] for each in row["limits"]), None)
        return row["owner"].get("host") if what == OWNER else row["state"]

    def run(self, *words: str, stdin: str = "", code: int = 0) -> None:
        """Do what a verb does."""
        self._begin()
        answer = heliostat(self._config, *words, questions=stdin)
        assert answer.returncode == code, answer.said

    def create(self, link: str, topics: Sequence[str]) -> None:
        """Make a link of the home."""
        self.run("links", "create", link, "-", stdin=json.dumps(content_of(topics)))

    def select(self, link: str, topics: Sequence[str]) -> None:
        """Change which topics are copied."""
        changed = json.dumps({"topics": {"include": [*topics]}})
        self.run("links", "change", link, "-", stdin=changed)


SEEN = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)].map((each) => each.innerText);
  return {
    links: all("header nav a"), state: all(".link-head .pill").join(),
    owner: all(".link-head .flow").join(), limit: all("section:has(#levels-title) .rests"),
    topics: all("section:has(#worst-title) td.name"),
    events: all("section:has(#lately-title)").join(),
  };
}"""
STATES = {"in sync": "running", "not level": "running", "paused": "paused"}


class Page(Face):
    """The page; on the thread that has opened it alone."""

    name = "page"

    def __init__(self, tab: Any, url: str) -> None:
        self._tab, self._url = tab, url

    def look(self, link: str) -> None:
        """Go to a link's overview."""
        self._tab.goto(f"{self._url}/#/links/{link}")
        self._tab.wait_for_selector("#lately-title")

    def look_at_all(self) -> None:
        """Go to the map."""
        self._tab.goto(f"{self._url}/#/")

    @override
    def shown(self, what: str, link: str) -> object:
        """Return what stands there."""
        seen = self._tab.evaluate(SEEN)
        if what == LINKS:
            return {text.split("\\n")[0] for text in seen["links"]} - {"Map", "Events"}
        if what == TOPICS:
            return set(seen["topics"])
        if what == RESTARTS:
            return seen["events"].count(AGAIN)
        if what == LIMIT:
            amounts = [text.split() for text in seen["limit"] if "at most" in text]
            return next((round(float(words[1]) * 1e6) for words in amounts), None)
        if what == OWNER:
            return seen["owner"].partition("owner ")[2]
        return next((STATES[word] for word in STATES if word in seen["state"]), seen["state"])

    def wish(self, verb: str, *, field: str = "") -> None:
        """Press a button of the link in sight, fill what is asked for, and confirm."""
        self._press(verb)
        if field:
            self._tab.wait_for_selector("dialog >> text=once the fields are filled")
            self._tab.keyboard.type(field)
        self._tab.wait_for_selector(".change-facts b")
        self._begin()
        self._tab.keyboard.press("Enter")
        self._tab.wait_for_selector(".change-course >> text=Done")
        self._leave()

    def create(self, link: str, topics: Sequence[str]) -> None:
        """Make a link of the home."""
        self._tab.goto(f"{self._url}/#/")
        self._press("New link")
        self._tab.wait_for_selector("dialog >> text=once the link has a name")
        self._tab.keyboard.type(link)
        self._content(content_of(topics))

    def select(self, link: str, topics: Sequence[str]) -> None:
        """Change which topics are copied."""
        self._tab.goto(f"{self._url}/#/links/{link}/configuration")
        self._press("Change the definition")
        self._content(content_of(topics))

    def _press(self, name: str) -> None:
        self._tab.get_by_role("button", name=re.compile(f"^{name}")).click()

    def _content(self, content: Content) -> None:
        self._tab.fill("[data-content]", json.dumps(content))
        self._confirm("Written, as generation")

    def delete(self, link: str) -> None:
        """Delete a link of the home."""
        self._tab.goto(f"{self._url}/#/links/{link}/configuration")
        self._press("Delete the definition")
        self._tab.fill("[data-typed]", link)
        self._confirm("Done: the link is deleted")

    def _confirm(self, told: str) -> None:
        self._tab.wait_for_selector("dialog button.main:not([aria-disabled=true])")
        self._begin()
        self._tab.click("dialog button.main")
        self._tab.wait_for_selector(f".change-course >> text={told}")
        self._leave()

    def _leave(self) -> None:
        self._tab.keyboard.press("Escape")
        self._tab.wait_for_selector("dialog", state="detached")
