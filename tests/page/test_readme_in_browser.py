"""README as it is seen: a screen and a half, and nothing of it beside a narrow one."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt
from support.browser import chromium
from support.tools import ROOT

STYLE = """
body { font: 16px/1.5 Helvetica, sans-serif; max-width: 838px; margin: 0 auto; padding: 32px }
table { border-collapse: collapse; display: block; overflow: auto }
td, th { border: 1px solid; padding: 6px 13px }
pre { padding: 16px; overflow: auto } code { font-size: 85% } img { max-width: 100% }
"""
"""About what code hosts show it with."""
SCREEN_PX = 1_200
SIZE = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


def test_readme_is_a_screen_and_a_half(tmp_path: Path) -> None:
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    body = markdown.render((ROOT / "README.md").read_text(encoding="utf-8"))
    page = tmp_path / "readme.html"
    head = f'<base href="{ROOT.as_uri()}/"><meta charset="utf-8"><style>{STYLE}</style>'
    page.write_text(head + body, encoding="utf-8")
    sizes = {}
    with chromium() as browser:
        for width in (1280, 420):
            tab = browser.new_page(viewport={"width": width, "height": SCREEN_PX})
            tab.goto(page.as_uri())
            sizes[width] = tab.evaluate(SIZE)
    assert sizes[1280][1] <= 1.5 * SCREEN_PX
    assert sizes[420][0] == 420
