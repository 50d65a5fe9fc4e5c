"""Files that come with the program: configurations, unit files, boards and alert rules."""

from __future__ import annotations

from pathlib import Path

import heliostat
from heliostat.errors import Refused

PACKAGE = Path(heliostat.__file__).parent
FOLDERS = ("examples", "deploy")


def example_files() -> dict[str, Path]:
    """Return all of them by the name under which users ask for them."""
    return {
        path.relative_to(folder).as_posix(): path
        for folder in _folders()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def example_text(name: str) -> str:
    """Return the text of one of them.

    Raises
    ------
    Refused
        There is none of that name.
    """
    path = example_files().get(name)
    if path is None:
        raise Refused(f"there is no example {name!r}", hint="'heliostat examples' lists them")
    return path.read_text(encoding="utf-8")


def copy_examples(folder: Path) -> list[Path]:
    """Copy all of them below a folder; return the files that are new.

    Raises
    ------
    Refused
        The folder can't be written to, or has other files of these names.
    """
    files = {folder / name: path.read_bytes() for name, path in example_files().items()}
    fresh = [path for path in files if not path.exists()]
    changed = [path for path in files if path.exists() and path.read_bytes() != files[path]]
    if changed:
        raise Refused(
            f"{changed[0]} is there, and is another file than the example",
            hint="nothing was written; name a folder that has no such files",
        )
    try:
        for path in fresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[path])
    except OSError as error:
        raise Refused(f"{folder} can't be written to: {error.strerror}") from error
    return fresh


def _folders() -> list[Path]:
    """Return where they are: in the installed package, or in the source tree beside it."""
    if (PACKAGE / FOLDERS[0]).is_dir():
        return [PACKAGE / name for name in FOLDERS]
    root = PACKAGE.parents[1]
    return [root / "docs" / FOLDERS[0], root / FOLDERS[1]]
