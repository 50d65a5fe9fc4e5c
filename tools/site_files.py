"""A hook of MkDocs: the site's pages that lie outside of docs/, and links to what is no page.

Pages link to each other as files of the project, as on a code host. What lies outside of `docs/`
gets a place below `project/`; links lead there. A link to code or a folder becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("ARCHITECTURE.md", "CHANGELOG.md", "bench/README.md")
COPIED = ("deploy/monitoring",)
"""Folders whose files pages link to; they are laid beside the pages as they are."""
LOOK_BACK = ("project/CHANGELOG", "adr/", "reference/errors-provoked")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def place(project_path: str) -> str:
    """Return where a file of the project is in the site."""
    inside = project_path.removeprefix("docs/")
    return inside if inside != project_path else f"project/{project_path}"


def project_path(site_path: str) -> str:
    """Return the file of the project that a page of the site is made of."""
    outside = site_path.removeprefix("project/")
    return outside if outside != site_path else f"docs/{site_path}"


def relinked(text: str, page: str, there: set[str]) -> str:
    """Return a page's text with links as they are in the site.

    Parameters
    ----------
    text
        In Markdown.
    page
        Its file in the project.
    there
        All files of the site.
    """

    def link(match: re.Match[str]) -> str:
        mark, label, address, anchor = match[1], match[2], match[3], match[4] or ""
        if not address or "://" in address or address.startswith("mailto:"):
            return match[0]
        target = place(posixpath.normpath(posixpath.join(posixpath.dirname(page), address)))
        if target not in there:  # code, or a folder: named only; what is nowhere stays, and fails
            return label if (ROOT / page).parent.joinpath(address).exists() else match[0]
        relative = posixpath.relpath(target, posixpath.dirname(place(page)) or ".")
        return f"{mark}[{label}]({relative}{anchor})"

    parts = FENCED.split(text)
    outside = [LINK.sub(link, part) if not part.startswith("```") else part for part in parts]
    return "".join(outside)


def decisions(folder: Path) -> str:
    """Return the page that lists all decisions by their titles."""
    lines = ["# Decisions", "", "What was decided, on which facts, and what would change it.", ""]
    for file in sorted(folder.glob("[0-9]*.md"))[1:]:
        number, _, title = file.read_text(encoding="utf-8").partition("\n")[0][2:].partition(": ")
        lines.append(f"- [{number}]({file.name}) {title}")
    return "\n".join([*lines, ""])


def examples(folder: Path) -> str:
    """Return the page that lists all examples: pages by their titles, then files."""
    lines = ["# Examples", "", "`heliostat examples` prints each of these files.", ""]
    for file in sorted(folder.glob("*/README.md")):
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({file.parent.name}/README.md)")
    lines += [f"- [{file.name}]({file.name})" for file in sorted(folder.glob("*.yaml"))]
    return "\n".join([*lines, ""])


def on_files(files: Any, config: Any) -> Any:
    """Add what lies outside of docs/, and the lists of decisions and examples."""
    from mkdocs.structure.files import File

    copied = [
        str(file.relative_to(ROOT))
        for folder in COPIED
        for file in sorted((ROOT / folder).rglob("*"))
        if file.is_file()
    ]
    for path in (*OUTSIDE, *copied):
        files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    listed = decisions(Path(config.docs_dir) / "adr")
    files.append(File.generated(config, "adr/index.md", content=listed))
    listed = examples(Path(config.docs_dir) / "examples")
    files.append(File.generated(config, "examples/index.md", content=listed))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Give each page the site's links; what is for a look back comes last in searches."""
    del config
    if page.file.src_uri.startswith(LOOK_BACK):
        page.meta.setdefault("search", {"boost": 0.01})
    there = {file.src_uri for file in files}
    return relinked(markdown, project_path(page.file.src_uri), there)
