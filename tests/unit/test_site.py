"""The site of docs/: built by MkDocs, whole, and without anything from elsewhere."""

import re
import shutil
from importlib import metadata
from pathlib import Path

import pytest
from support.tools import load_tool

site_build = load_tool("site_build")
licences = load_tool("licences")

FETCHED = re.compile(r"""<(?:link|script|img|iframe)\b[^>]*?(?:href|src)=["'](?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    done = site_build.build(folder)  # strict: a broken link or anchor is an error
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.thorough
def test_the_site_is_whole_and_fetches_nothing(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 90
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
    outside = {str(page.relative_to(site)): FETCHED.findall(page.read_text()) for page in pages}
    assert {name: found for name, found in outside.items() if found} == {}


@pytest.mark.thorough
def test_a_broken_link_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mkdocs.yml", "tools/site_files.py", "docs/index.md", "docs/site.css"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(site_build.ROOT / name, file)
    config = (tmp_path / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(config.partition("nav:\n")[0])
    (tmp_path / "tools" / "site_files.py").write_text("")
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[b](b.md#gone)\n")
    (tmp_path / "docs" / "b.md").write_text("# B\n")
    monkeypatch.setattr(site_build, "ROOT", tmp_path)
    done = site_build.build(tmp_path / "site")
    assert done.returncode != 0
    assert "b.md#gone" in done.stderr


@pytest.mark.thorough
def test_packages_of_the_site_have_the_licences_that_are_listed() -> None:
    differ = []
    for package in licences.site_packages():
        (found,) = metadata.distributions(name=package.name, path=[str(site_build.packages())])
        fields = ("License-Expression", "License", "Classifier")
        facts = {key: found.metadata.get_all(key) or [] for key in fields}
        if (found.version, licences.licence_of(facts)) != (package.version, package.licence):
            differ.append((package.name, found.version, licences.licence_of(facts)))
    assert differ == []
