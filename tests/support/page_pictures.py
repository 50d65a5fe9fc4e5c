"""Makes the pictures of the page in docs/pictures: `python tests/support/page_pictures.py`.

They show the link of `heliostat demo`: two real clusters under load. It needs `pngquant`
(Debian's), which makes them a third as large.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from support.browser import chromium
from support.links import wait_for
from support.tools import ROOT

FOLDER = ROOT / "docs" / "pictures"
LINK = "#/links/summit-to-usdf"
PICTURES = (
    ("link", "dark", LINK, 1440, 900),
    ("map", "light", "#/", 1440, 640),
    ("topics", "light", f"{LINK}/topics", 1440, 640),
    ("narrow", "dark", LINK, 390, 844),
)
TOPICS, RATE = 300, 1_200
STARTED_WITHIN_S, SHOWN_AFTER_S = 300, 150
"""Time until the link copies, and until its charts have something to show."""
SETTLED_MS = 3_000
BYTES_MAX = 150_000


def main() -> None:
    """Make them; those of a link that runs already, if its page's address is given."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 1:
        _take(sys.argv[1])
        return
    with _demo() as address:
        _take(address)


def _take(address: str) -> None:
    with chromium() as browser:
        _wait_until_level(browser, address)
        for name, theme, view, width, height in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{address}?theme={theme}{view}")
            page.wait_for_timeout(SETTLED_MS)
            path = FOLDER / f"page-{name}.png"
            page.screenshot(path=path)
            page.close()
            words = ["pngquant", "--force", "--strip", "--output", str(path), "128", str(path)]
            subprocess.run(words, check=True)
            assert path.stat().st_size <= BYTES_MAX, path


def _wait_until_level(browser: Any, address: str) -> None:
    page = browser.new_page()
    wait_for("the page", lambda: _is_served(address), STARTED_WITHIN_S)  # told before it is there
    page.goto(address)
    page.wait_for_selector(".link-card .pill.tone-ok", timeout=STARTED_WITHIN_S * 1000)
    page.wait_for_timeout(SHOWN_AFTER_S * 1000)
    page.close()


def _is_served(address: str) -> bool:
    try:
        httpx.get(address)
    except httpx.TransportError:
        return False
    return True


@contextmanager
def _demo() -> Iterator[str]:
    """Give the address of the page of a demo."""
    words = [sys.executable, "-m", "heliostat.cli.entry", "demo", "--plain"]
    words += ["--topics", str(TOPICS), "--rate", str(RATE)]
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "sandbox"))
    process = subprocess.Popen(  # our own command
        words,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert process.stdout is not None
        found = re.search(r"https?://\S+", process.stdout.readline())
        assert found, "it told no address"
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


if __name__ == "__main__":
    main()
