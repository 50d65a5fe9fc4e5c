"""Policies of brokers (`create.topic.policy.class.name`), compiled by the JDK that is there."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from heliostat_sandbox.jars import ensure_jars
from heliostat_sandbox.versions import KAFKA_4_3, kafka_version

SOURCE = Path(__file__).with_name("Refusing.java")
SETTINGS = {
    "create.topic.policy.class.name": "Refusing$Create",
    "alter.config.policy.class.name": "Refusing$Alter",
}
LOCKED, FROZEN = "locked.", "frozen."
"""Beginnings of topics that may not be made, or not be changed."""
HIDDEN = "hidden"
"""A link whose own topics may not be made."""


def policy_jar(folder: Path) -> Path:
    """Compile the policies; return a jar with them."""
    jars = ensure_jars(kafka_version(KAFKA_4_3).jars)
    classes = folder / "classes"
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", ":".join(map(str, jars)), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    jar = folder / "policies.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.glob("*.class")):
            archive.write(file, file.name)
    return jar
