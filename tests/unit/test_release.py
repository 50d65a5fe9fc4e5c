"""What `scripts/release` does: one version everywhere, the changelog's part, archives."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from pathlib import Path

import pytest
from support.fetched import go_installed
from support.tools import ROOT, load_tool

from heliostat import __version__

DAY = dt.date(2026, 11, 28)
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Safety\n\n- a\n\n## 0.1.0 (2026-11-20)\n\n- b\n"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PLACES = (
    "pyproject.toml",
    "sandbox/pyproject.toml",
    "src/heliostat/__init__.py",
    "deploy/helm/heliostat/Chart.yaml",
    "deploy/kubernetes/base/deployment.yaml",
    "deploy/kubernetes/spark/master.yaml",
    "deploy/kubernetes/spark/workers.yaml",
    "deploy/kubernetes/executors/heliostat.yaml",
)

release = load_tool("release")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_place_has_the_programs_version() -> None:
    assert set(release.versions(ROOT).values()) == {__version__}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_with_another_version_is_named(tree: Path, place: str) -> None:
    path = tree / place
    path.write_text(path.read_text(encoding="utf-8").replace(__version__, "9.9.9"))

    with pytest.raises(release.NotReady, match=f"{place}.*9.9.9"):
        release.check_versions(tree, __version__)


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3-x"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(release.NotReady, match="is no version"):
        release.check_versions(ROOT, version)


def test_the_changelogs_part_is_cut_and_read_again() -> None:
    text = release.cut(CHANGELOG, "0.2.0", DAY)

    assert text == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-11-28)\n\n### Safety\n\n- a\n\n"
        "## 0.1.0 (2026-11-20)\n\n- b\n"
    )
    assert release.cut(text, "0.2.0", DAY) == text
    assert release.part_of(text, "0.2.0") == "### Safety\n\n- a\n"
    assert release.part_of(text, "0.1.0") == "- b\n"
    with pytest.raises(release.NotReady, match=r"no part for 0\.3\.0"):
        release.part_of(text, "0.3.0")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CHANGELOG.replace("0.1.0", "0.2.0"), "has 0.2.0 already, and changes since"),
        ("## Unreleased\n\n## 0.1.0 (2026-11-20)\n", "nothing below"),
        ("# Changelog\n", "nothing below"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused(text: str, why: str) -> None:
    with pytest.raises(release.NotReady, match=why):
        release.cut(text, "0.2.0", DAY)


@pytest.mark.thorough
def test_archives_of_both_packages_are_built_with_their_digests(tmp_path: Path) -> None:
    names = {each.name for each in release.build(ROOT, tmp_path)}

    assert names == {
        f"{name}-{__version__}{end}"
        for name in ("heliostat", "heliostat_sandbox")
        for end in ("-py3-none-any.whl", ".tar.gz")
    }
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


@pytest.mark.long
def test_workflows_have_no_fault() -> None:
    actionlint = go_installed("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12", "")

    done = subprocess.run([actionlint, *WORKFLOWS], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
