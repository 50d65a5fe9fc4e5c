"""The page's vendored files are those of npm, and its own modules have sound types."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.browser import npm_packed

from heliostat.serve.static_files import FOLDER

pytestmark = pytest.mark.long

VENDOR = FOLDER / "vendor"
PACKAGES: list[dict[str, Any]] = json.loads((VENDOR / "vendor.lock.json").read_text())["packages"]
TYPESCRIPT = "typescript@5.9.3"
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "strict": True,
    "target": "es2022",
    "module": "esnext",
    "moduleResolution": "bundler",
    "lib": ["es2022", "dom", "dom.iterable"],
    "skipLibCheck": True,
    "types": [],
}


@pytest.mark.parametrize("row", PACKAGES, ids=lambda row: row["package"])
def test_files_are_those_of_the_package(row: dict[str, Any]) -> None:
    archive = npm_packed(f"{row['package']}@{row['version']}")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert row["integrity"] == f"sha512-{digest}"
    with tarfile.open(archive) as content:
        for file in row["files"]:
            packed = content.extractfile(f"package/{file['in_package']}")
            assert packed is not None
            assert packed.read() == (VENDOR / file["file"]).read_bytes()


def test_types(tmp_path: Path) -> None:
    """Given the page's modules with their JSDoc / then the compiler finds nothing wrong."""
    for row in PACKAGES:
        _unpack(f"{row['package']}@{row['version']}", tmp_path / "node_modules" / row["package"])
    _unpack(TYPESCRIPT, tmp_path / "typescript")
    shutil.copytree(FOLDER, tmp_path / "page", ignore=shutil.ignore_patterns("vendor"))
    shutil.copy(Path(__file__).with_name("globals.d.ts"), tmp_path / "page")
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": OPTIONS, "include": ["page"]})
    )
    words = ["node", "typescript/bin/tsc", "-p", "."]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def _unpack(package: str, folder: Path) -> None:
    shutil.unpack_archive(
        npm_packed(package), folder.with_name(folder.name + ".all"), filter="data"
    )
    (folder.with_name(folder.name + ".all") / "package").rename(folder)
