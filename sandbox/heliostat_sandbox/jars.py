"""Jars of what the sandbox runs, fetched once into a cache folder and checked against a lock file.

The Ivy in PySpark's package fetches them, so that no Maven is needed. They are used only if every
file has its checksum in `jars.lock.json` (made by `tools/lock_jars.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

from heliostat.errors import SandboxError
from heliostat_sandbox.java import find_java

KAFKA = "kafka-4.3.0"
"""Brokers and their tools."""
MIRROR = "mirror-4.3.0"
"""MirrorMaker 2, with which the benchmark compares."""
STREAMS = "streams-4.3.0"
"""Kafka Streams, for applications whose topics and groups move."""
YARN = "yarn-3.5.0"
"""Hadoop's ResourceManager and NodeManager, of the version whose client PySpark contains."""
KUBERNETES_MOCK = "kubernetes-mock-7.6.1"
"""An API server that keeps what it is given, of the version whose client PySpark contains."""
APICURIO = "apicurio-2.5.11.Final"
"""A schema registry; one archive has all its jars."""
LOCK_FILE = "jars.lock.json"
ATTEMPTS = 4
"""Registries may fail for seconds; files already fetched are kept between attempts."""
ATTEMPT_PAUSE_S = 3.0
"""Pause before attempt n is n times this."""
ATTEMPT_TIMEOUT_S = 600.0
"""Measured 40 s for 44 MB; a slow network takes minutes."""
LOG_TAIL_CHARS = 2_000
"""Enough of Ivy's output to see which file failed."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """One entry of the lock file.

    Parameters
    ----------
    name
        Also the name of its folder in the cache.
    modules
        Requested modules, as `organisation:module:revision`; their dependencies are added. With
        `:classifier` it is the `tar.gz` of that classifier, and the jars in it are taken instead.
    checksums
        SHA-256 in hex by file name.
    """

    name: str
    modules: tuple[str, ...]
    checksums: Mapping[str, str]


def cache_folder() -> Path:
    """Return `$HELIOSTAT_CACHE`, or `heliostat` in the user's cache folder."""
    own = os.environ.get("HELIOSTAT_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "heliostat"


def read_lock(path: Path | None = None) -> dict[str, JarSet]:
    """Return all sets of the lock file, by name."""
    if path is None:
        text = resources.files("heliostat_sandbox").joinpath(LOCK_FILE).read_text(encoding="utf-8")
    else:
        text = path.read_text(encoding="utf-8")
    return {
        name: JarSet(name, tuple(entry["modules"]), entry["sha256"])
        for name, entry in json.loads(text).items()
    }


def ensure_jars(set_name: str = KAFKA, *, lock: Mapping[str, JarSet] | None = None) -> list[Path]:
    """Return the paths of all jars of a set; fetch them if the cache lacks one.

    Raises
    ------
    SandboxError
        They can't be fetched, or a file differs from the lock file: then none is used.
    """
    known = read_lock() if lock is None else lock
    if set_name not in known:
        raise SandboxError("no such set of jars", name=set_name, known=sorted(known))
    wanted = known[set_name]
    folder = cache_folder() / set_name
    if not _is_complete(folder, wanted):
        with _locked(cache_folder()):
            if not _is_complete(folder, wanted):  # another process may have been faster
                _fetch_into(folder, wanted)
    check_jars(folder, wanted)
    return [folder / name for name in sorted(wanted.checksums)]


def check_jars(folder: Path, wanted: JarSet) -> None:
    """Compare every jar in `folder` with the lock.

    Raises
    ------
    SandboxError
        A file is missing, unknown or altered.
    """
    found = checksums(folder)
    different = sorted(
        name
        for name in found.keys() | wanted.checksums.keys()
        if found.get(name) != wanted.checksums.get(name)
    )
    if different:
        raise SandboxError(
            "jars differ from the lock file and are not used",
            hint=f"delete {folder} to fetch them again",
            set=wanted.name,
            different=different[:5],
        )


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 in hex of every jar in `folder`, by file name."""
    found = {}
    for path in sorted(folder.glob("*.jar")):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def retrieve(modules: tuple[str, ...], folder: Path, *, work: Path) -> None:
    """Let Ivy fetch `modules` and their run-time dependencies into `folder`; `work` is its cache.

    Raises
    ------
    SandboxError
        It failed several times.
    """
    work.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    request = work / "request.xml"
    request.write_text(_request_xml(modules), encoding="utf-8")
    command = [
        str(find_java()),
        f"-Duser.home={work}",
        "-jar",
        str(_ivy_jar()),
        *("-cache", str(work / "ivy"), "-ivy", str(request), "-confs", "default"),
        *("-retrieve", f"{folder}/[artifact](-[classifier])-[revision].[ext]"),
    ]
    said = ""
    for attempt in range(ATTEMPTS):
        time.sleep(attempt * ATTEMPT_PAUSE_S)
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=ATTEMPT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"no end after {ATTEMPT_TIMEOUT_S:.0f} s"
            continue
        if done.returncode == 0:
            _unpack(folder)
            return
        said = done.stdout[-LOG_TAIL_CHARS:]
    raise SandboxError(
        "jars can't be fetched",
        hint="check that this machine reaches the Maven Central registry (JAVA_TOOL_OPTIONS takes "
        "-Dhttps.proxyHost=... for a proxy), or copy a filled cache folder here",
        attempts=ATTEMPTS,
        ivy_said=said,
    )


def _unpack(folder: Path) -> None:
    """Take the jars out of all archives in `folder`, without their folders."""
    for path in folder.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member)  # None for what is no file
                if content is not None and member.name.endswith(".jar"):
                    with (folder / Path(member.name).name).open("wb") as file:
                        shutil.copyfileobj(content, file)
        path.unlink()


def _is_complete(folder: Path, wanted: JarSet) -> bool:
    return all((folder / name).is_file() for name in wanted.checksums)


def _fetch_into(folder: Path, wanted: JarSet) -> None:
    """Fetch and check, then create `folder` atomically."""
    root = folder.parent
    fresh = Path(tempfile.mkdtemp(prefix=f".{wanted.name}-", dir=root))
    try:
        retrieve(wanted.modules, fresh, work=root / "fetching")
        for path in fresh.iterdir():  # a registry may send files that are not in the lock
            if path.suffix != ".jar":
                path.unlink()
        check_jars(fresh, wanted)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Let one process at a time fetch into a cache."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        found = sorted(Path(folder, "jars").glob("ivy-*.jar"))
        if found:
            return found[-1]
    raise SandboxError("PySpark's bundled Ivy was not found", hint="install pyspark from a wheel")


def _request_xml(modules: tuple[str, ...]) -> str:
    lines = []
    for module in modules:
        organisation, name, revision, *classifier = module.split(":")
        asked = f"org={quoteattr(organisation)} name={quoteattr(name)} rev={quoteattr(revision)}"
        if classifier:
            lines.append(
                f'<dependency {asked} conf="default->default" transitive="false">'
                f'<artifact name={quoteattr(name)} type="tar.gz" ext="tar.gz" '
                f"m:classifier={quoteattr(classifier[0])}/></dependency>"
            )
        else:
            lines.append(f'<dependency {asked} conf="default->default"/>')
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="heliostat" module="sandbox"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>\n"
    )
