"""Cuts a release: the same version everywhere, the changelog's part, archives and their digests.

`scripts/release` calls it. It publishes nothing: `.github/workflows/release.yml` does, for a tag.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
UNRELEASED = "## Unreleased\n"
VERSION = re.compile(r"\d+\.\d+\.\d+(?:rc\d+)?")
IMAGE_PLACES = tuple(
    f"deploy/kubernetes/{name}.yaml"
    for name in ("base/deployment", "spark/master", "spark/workers", "executors/heliostat")
)


class NotReady(Exception):
    """The tree can't be released; the text says why."""


def versions(root: Path) -> dict[str, str]:
    """Return the version that each place names."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sandbox = tomllib.loads((root / "sandbox/pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    chart = yaml.safe_load((root / "deploy/helm/heliostat/Chart.yaml").read_text(encoding="utf-8"))
    code = (root / "src/heliostat/__init__.py").read_text(encoding="utf-8")
    (extra,) = project["optional-dependencies"]["sandbox"]
    needed = next(each for each in sandbox["dependencies"] if each.startswith("heliostat=="))
    return {
        "pyproject.toml": project["version"],
        "pyproject.toml, sandbox": extra.partition("==")[2],
        "sandbox/pyproject.toml": sandbox["version"],
        "sandbox/pyproject.toml, heliostat": needed.partition("==")[2],
        "src/heliostat/__init__.py": _one(r'__version__ = "(.+)"', code),
        "deploy/helm/heliostat/Chart.yaml, version": chart["version"],
        "deploy/helm/heliostat/Chart.yaml, appVersion": chart["appVersion"],
        **{
            name: _one(r"image: heliostat:(\S+)", (root / name).read_text(encoding="utf-8"))
            for name in IMAGE_PLACES
        },
    }


def check_versions(root: Path, version: str) -> None:
    """Refuse a version that is none, or that a place does not have.

    Raises
    ------
    NotReady
        Which place has another one.
    """
    if VERSION.fullmatch(version) is None:
        raise NotReady(f"{version!r} is no version such as 0.2.0 or 0.2.0rc1")
    others = {place: there for place, there in versions(root).items() if there != version}
    if others:
        lines = "\n".join(f"  {place}: {there}" for place, there in others.items())
        raise NotReady(f"these places do not say {version}:\n{lines}")


def cut(changelog: str, version: str, day: dt.date) -> str:
    """Return the changelog with all that is unreleased as a part of its own; it may be cut already.

    Raises
    ------
    NotReady
        Nothing is unreleased, or the version has a part already that lacks what is.
    """
    before, begin, rest = changelog.partition(UNRELEASED)
    part, following, older = rest.partition("\n## ")
    if f"\n## {version} " in changelog:
        if part.strip():
            raise NotReady(f"CHANGELOG.md has {version} already, and changes since")
        return changelog
    if not begin or not part.strip():
        raise NotReady("CHANGELOG.md has nothing below '## Unreleased'")
    head = f"{before}{UNRELEASED}\n## {version} ({day.isoformat()})\n"
    return f"{head}{part}{following}{older}"


def part_of(changelog: str, version: str) -> str:
    """Return the changelog's part of a version, without its heading: the notes of its release.

    Raises
    ------
    NotReady
        It has none.
    """
    found = re.search(rf"\n## {re.escape(version)} .*\n", changelog)
    if found is None:
        raise NotReady(f"CHANGELOG.md has no part for {version}")
    return changelog[found.end() :].partition("\n## ")[0].strip() + "\n"


def build(root: Path, folder: Path) -> list[Path]:
    """Build wheels and source archives of both packages, and a file of their digests."""
    uv = Path(sys.executable).with_name("uv")
    for project in (root, root / "sandbox"):
        constraints = ["--build-constraints", str(root / "requirements.build.lock")]
        subprocess.run([uv, "build", "-q", *constraints, "-o", folder, project], check=True)
    files = sorted(each for each in folder.iterdir() if each.suffix in {".whl", ".gz"})
    digests = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (folder / "SHA256SUMS").write_text("".join(digests), encoding="ascii")
    return files


def _one(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "nothing"


def main() -> int:
    """Do one step; return 0 if the tree is ready."""
    parser = argparse.ArgumentParser(prog="tools/release.py", description=__doc__)
    parser.add_argument("step", choices=("check", "cut", "notes", "build"))
    parser.add_argument("version")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="folder of `build`")
    given = parser.parse_args()
    changelog = ROOT / "CHANGELOG.md"
    try:
        check_versions(ROOT, given.version)
        if given.step == "cut":
            day = dt.datetime.now(dt.UTC).date()
            text = changelog.read_text(encoding="utf-8")
            changelog.write_text(cut(text, given.version, day), encoding="utf-8")
        elif given.step == "notes":
            sys.stdout.write(part_of(changelog.read_text(encoding="utf-8"), given.version))
        elif given.step == "build":
            for each in build(ROOT, given.to):
                print(each.name)
    except NotReady as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
