"""Makes the pictures of the page in docs/pictures: `python tests/support/page_pictures.py`.

It needs `pngquant` (Debian's), which makes them a third as large.
"""

from __future__ import annotations

import subprocess

from support.browser import chromium, shown_links
from support.tools import ROOT

FOLDER = ROOT / "docs" / "pictures"
LINK = "#/links/summit-to-usdf"
PICTURES = (("link", "dark", LINK, 1440, 900), ("map", "light", "#/", 1440, 900))
SETTLED_MS = 14_000
"""Time until a link can tell when it will be level."""


def main() -> None:
    """Make them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with shown_links(topics=3_348, partitions=5_000) as address, chromium() as browser:
        for name, theme, view, width, height in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{address}?theme={theme}{view}")
            page.wait_for_timeout(SETTLED_MS)
            path = FOLDER / f"page-{name}.png"
            page.screenshot(path=path)
            page.close()
            words = ["pngquant", "--force", "--strip", "--output", str(path), "128", str(path)]
            subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
