"""A real Chromium for tests of the page, and other tools of theirs: fetched by who needs them."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.tools import ROOT

from heliostat_sandbox.jars import cache_folder

PLAYWRIGHT = "playwright==1.65.2"
AXE = "axe-core@4.14.1"
FETCH_WITHIN_S = 600


@contextmanager
def watched_tab(browser: Any, within_ms: int) -> Iterator[Any]:
    """Open a tab; an error in its console fails the test, but for what is told of a status."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(within_ms)
    tab, errors = context.new_page(), list[str]()
    tab.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    context.close()
    assert [text for text in errors if "Failed to load resource" not in text] == []


def chromium_path() -> str:
    """Return Debian's Chromium; install it if it is not there."""
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "chromium"]):
            subprocess.run(
                ["apt-get", *command], check=False, timeout=FETCH_WITHIN_S
            )  # fixed words
        found = shutil.which("chromium")
    if found is None:
        pytest.fail("no Chromium: apt-get install chromium", pytrace=False)
    return found


def _playwright() -> Any:
    folder = cache_folder() / "playwright"
    if not (folder / "playwright").is_dir():
        words = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), PLAYWRIGHT]
        subprocess.run(words, check=True, timeout=FETCH_WITHIN_S)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module("playwright.sync_api")


def npm_packed(package: str) -> Path:
    """Return the archive of an npm package, `name@version`; fetch it if the cache lacks it."""
    folder = cache_folder() / "npm" / package.replace("/", "+")
    if not list(folder.glob("*.tgz")):
        npm = shutil.which("npm")
        if npm is None:
            pytest.fail("no npm: apt-get install npm", pytrace=False)
        folder.mkdir(parents=True, exist_ok=True)
        words = [npm, "pack", "--silent", package]
        subprocess.run(words, cwd=folder, check=True, timeout=FETCH_WITHIN_S)
    (archive,) = folder.glob("*.tgz")
    return archive


def axe_script() -> str:
    """Return the text of axe-core, which finds what people with a screen reader can't use."""
    with tarfile.open(npm_packed(AXE)) as content:
        script = content.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a browser without a window."""
    with _playwright().sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--js-flags=--expose-gc"]
        )
        yield browser
        browser.close()


@contextmanager
def shown_links(
    *, topics: int, partitions: int, pace: int = 1, has_answers: bool = False
) -> Iterator[str]:
    """Give the address of a service with invented links, whose clock runs at a pace.

    With `has_answers` there are invented answers of clusters, too.
    """
    script = ROOT / "tests" / "support" / "shown_links.py"
    words = [sys.executable, str(script), "--port", "0"]
    words += ["--topics", str(topics), "--partitions", str(partitions), "--pace", str(pace)]
    words += ["--answers"] if has_answers else []
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "sandbox", "tests"))
    process = subprocess.Popen(  # our own script
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "it did not start"
        yield address
    finally:
        process.terminate()
        process.wait(30)
