"""Writes docs/licences.md: the licence of every locked package, checked against those allowed.

`python tools/licences.py` writes; with `--check` it changes nothing. Either way it ends with 1 when
a package's licence is unknown or not on the list, and with `--check` also when the page is stale.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "licences.md"
LOCKS = ("requirements.lock", "requirements.uv.lock")
SITE_LOCK = ROOT / "requirements.site.lock"
SITE: Mapping[str, str] = {
    # Packages that build the site of docs/ and are not in the project's environment; a test
    # compares this with their own metadata when it builds the site.
    "babel": "BSD-3-Clause",
    "backrefs": "MIT",
    "colorama": "BSD",
    "ghp-import": "Apache-2.0",
    "jinja2": "BSD",
    "markdown": "BSD-3-Clause",
    "markupsafe": "BSD-3-Clause",
    "mergedeep": "MIT",
    "mkdocs": "BSD-2-Clause",
    "mkdocs-get-deps": "MIT",
    "mkdocs-material": "MIT",
    "mkdocs-material-extensions": "MIT",
    "paginate": "MIT",
    "platformdirs": "MIT",
    "pymdown-extensions": "MIT",
    "pyyaml-env-tag": "MIT",
    "watchdog": "Apache-2.0",
}
PAGE_LOCK = ROOT / "src" / "heliostat" / "page" / "static" / "vendor" / "vendor.lock.json"
"""Files of npm packages that the web page consists of."""
PROJECT = "heliostat"

ALLOWED: Mapping[str, str] = {
    "0BSD": "permissive",
    "Apache-2.0": "permissive, our own",
    "Apache-2.0 WITH LLVM-exception": "permissive, with a patent clause eased for object code",
    "BSD": "permissive; the package does not say which of the BSD licences",
    "BSD-2-Clause": "permissive",
    "BSD-3-Clause": "permissive",
    "CC0-1.0": "public domain",
    "ISC": "permissive",
    "MIT": "permissive",
    "MIT-0": "permissive: MIT without the duty to name the authors",
    "MPL-2.0": "copyleft by file: fine for what is used unchanged",
    "PSF-2.0": "permissive",
    "Unlicense": "public domain",
    "Zlib": "permissive",
}
SPELLINGS: Mapping[str, str] = {
    # How packages without an SPDX expression say it, in lower case.
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD",
    "bsd license": "BSD",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "isc": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Package:
    """One locked package and its own metadata."""

    name: str
    version: str
    licence: str
    at_run_time: bool
    """Whether users install it too, or only developers of Heliostat."""

    @property
    def is_allowed(self) -> bool:
        """Whether the list above permits it."""
        return permits(self.licence)


def permits(expression: str) -> bool:
    """Whether an SPDX expression is satisfied by the allow-list: all of AND, any of OR."""
    flat = expression.replace("(", " ").replace(")", " ")
    alternatives = re.split(r"\s+OR\s+", flat)
    if "AND" in flat and "OR" in flat:  # mixed: as strict as possible, a person may decide
        alternatives = [" AND ".join(alternatives)]
    return any(
        all(part.strip() in ALLOWED for part in re.split(r"\s+AND\s+", alternative))
        for alternative in alternatives
    )


def licence_of(facts: Mapping[str, Sequence[str]]) -> str:
    """Return a package's licence: its SPDX expression, else its licence text, else classifiers.

    Parameters
    ----------
    facts
        Values of each metadata field.
    """
    for expression in facts.get("License-Expression", ()):
        return expression
    classifiers = [each for each in facts.get("Classifier", ()) if each.startswith("License :: ")]
    words = [*facts.get("License", ()), *(each.rpartition(" :: ")[2] for each in classifiers)]
    spelled = (word.strip().lower() for word in words)
    known = [SPELLINGS[word] for word in spelled if word in SPELLINGS]
    exact = [licence for licence in known if licence != "BSD"]
    return (exact or known or [UNKNOWN])[0]


def normal(name: str) -> str:
    """Give a package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, str]:
    """Return versions by package of a lock file's text."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)
    return {normal(name): version for name, version in found}


def _run_time_names() -> set[str]:
    """Return packages that are installed with the project without its extras."""
    names: set[str] = set()
    waiting = [PROJECT]
    while waiting:
        name = waiting.pop()
        if name in names:
            continue
        names.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform
        plain = [line for line in requirements if "extra ==" not in line]
        waiting += [normal(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in plain]
    return names


def packages() -> Iterator[Package]:
    """Return every locked package, by name."""
    run_time = _run_time_names()
    versions: dict[str, str] = {}
    for lock in LOCKS:
        versions |= locked((ROOT / lock).read_text(encoding="utf-8"))
    for name, version in sorted(versions.items()):
        try:
            fields = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            yield Package(name, version, UNKNOWN, name in run_time)
            continue
        facts = {
            key: fields.get_all(key) or []
            for key in ("License-Expression", "License", "Classifier")
        }
        yield Package(name, version, licence_of(facts), name in run_time)


def site_packages() -> Iterator[Package]:
    """Return the packages that only the site of docs/ needs."""
    known: dict[str, str] = {}
    for lock in LOCKS:
        known |= locked((ROOT / lock).read_text(encoding="utf-8"))
    for name, version in sorted(locked(SITE_LOCK.read_text(encoding="utf-8")).items()):
        if name not in known:
            yield Package(name, version, SITE.get(name, UNKNOWN), at_run_time=False)


def page_packages() -> Iterator[Package]:
    """Return the packages whose files are in the web page."""
    for row in json.loads(PAGE_LOCK.read_text(encoding="utf-8"))["packages"]:
        yield Package(row["package"], row["version"], row["licence"], at_run_time=True)


def page(found: Sequence[Package], in_page: Sequence[Package], of_site: Sequence[Package]) -> str:
    """Return the page's text."""
    site_rows = [f"| {each.name} | {each.version} | {each.licence} |" for each in of_site]
    rows = [
        f"| {each.name} | {each.version} | {each.licence} |"
        f" {'users' if each.at_run_time else 'developers'} |"
        + ("" if each.is_allowed else " **not on the list**")
        for each in found
    ]
    page_rows = [f"| {each.name} | {each.version} | {each.licence} |" for each in in_page]
    allowed = [f"| {name} | {note} |" for name, note in ALLOWED.items()]
    lines = [
        "<!-- Written by tools/licences.py; change the lock file or the list there. -->",
        "# Licences",
        "",
        "Heliostat is under Apache-2.0. These are the packages of the lock files, each with the",
        "licence that its own metadata name, and who needs it. Brokers of the sandbox and",
        "MirrorMaker 2 for the benchmark are Apache Kafka (Apache-2.0) with its libraries; they",
        "are fetched where they are run, and are no part of Heliostat.",
        "",
        "| package | version | licence | needed by |",
        "|---|---|---|---|",
        *rows,
        "",
        "## In the web page",
        "",
        "Files of these npm packages, unchanged, are part of Heliostat's page; their licences lie",
        "beside them in `src/heliostat/page/static/vendor`.",
        "",
        "| package | version | licence |",
        "|---|---|---|",
        *page_rows,
        "",
        "## For the documentation's site",
        "",
        "`scripts/site` installs these besides, outside of the project's environment.",
        "",
        "| package | version | licence |",
        "|---|---|---|",
        *site_rows,
        "",
        "## What is accepted",
        "",
        "| licence | why |",
        "|---|---|",
        *allowed,
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Write the page or check it; 1 if something is wrong."""
    found, in_page, of_site = list(packages()), list(page_packages()), list(site_packages())
    refused = [each for each in (*found, *in_page, *of_site) if not each.is_allowed]
    for each in refused:
        print(f"{each.name} {each.version}: licence {each.licence!r} is not on the list")
    text = page(found, in_page, of_site)
    if "--check" in arguments:
        is_stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
        if is_stale:
            print("docs/licences.md is stale: run python tools/licences.py")
        return 1 if refused or is_stale else 0
    PAGE.write_text(text, encoding="utf-8")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
