"""Find a Java runtime for Kafka and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from heliostat.errors import SandboxError

JAVA_MAJOR_MIN = 17
"""Kafka 4 brokers and Spark 4 both need Java 17 (KIP-1013)."""
VERSION_TIMEOUT_S = 30.0
"""`java -version` takes a tenth of a second; on a machine that swaps it may take many."""
JVM_FOLDER = Path("/usr/lib/jvm")

INSTALL_HINT = (
    f"install a Java {JAVA_MAJOR_MIN} or newer runtime: "
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora, RHEL: dnf install java-17-openjdk-headless; "
    "macOS: brew install openjdk@17; or point JAVA_HOME at one"
)


def find_java() -> Path:
    """Return the path of a `java` program of version 17 or newer.

    Searches `JAVA_HOME`, `PATH` and the folder in which distributions install Java, in this order.

    Raises
    ------
    SandboxError
        There is none; the hint says what to install.
    """
    seen: list[str] = []
    for java in _candidates():
        major = java_major(java)
        if major is not None and major >= JAVA_MAJOR_MIN:
            return java
        seen.append(f"{java} ({'no version' if major is None else f'version {major}'})")
    raise SandboxError(
        f"no Java {JAVA_MAJOR_MIN} or newer was found", hint=INSTALL_HINT, looked_at=seen
    )


def java_major(java: Path) -> int | None:
    """Return the major version of a `java` program; None if it can't be found out."""
    release = java.resolve().parent.parent / "release"
    text = ""
    if release.is_file():  # a tenth of a second faster than starting Java
        text = release.read_text(encoding="utf-8", errors="replace")
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if found is None:
        try:
            done = subprocess.run(
                [str(java), "-version"],
                capture_output=True,
                text=True,
                timeout=VERSION_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return None if found is None else _major(found.group(1))


def _major(version: str) -> int | None:
    """Return 17 for `17.0.15`, 8 for `1.8.0_392`, 25 for `25-ea`."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home and (java := Path(home) / "bin" / "java").is_file():
        yield java
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    if JVM_FOLDER.is_dir():
        for folder in sorted(JVM_FOLDER.iterdir()):
            if (java := folder / "bin" / "java").is_file():
                yield java
