"""Whether this machine could run links: Java, room on its disk, files of keys and certificates."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from heliostat.config import Config
from heliostat.config.service import ServiceTls
from heliostat.errors import SparkUnavailable
from heliostat.operate.finding import Finding, fine, note, problem, problem_of
from heliostat.ops.certificates import validities
from heliostat.ops.driver_death import HADOOP_HINT, find_java
from heliostat.ops.shown import size_text
from heliostat.ops.spark_session import STANDALONE, is_local, lacks_hadoop

MACHINE = "this machine"
JAVA_MIN = 17
"""Spark 4 needs it."""
JAVA_WITHIN_S = 10.0
DISK_BYTES_MIN = 256 << 20
"""Spark unpacks its code and keeps a log there; records never go to disk."""
EXPIRES_SOON_S = 30 * 86_400
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


def machine_findings(config: Config) -> Iterator[Finding]:
    """Yield how Java, the disk and the files of certificates stand."""
    yield _java()
    yield _disk()
    yield from certificate_findings(config)


def _java() -> Finding:
    try:
        java = find_java()
    except SparkUnavailable as error:
        return problem_of(MACHINE, error)
    try:
        answer = subprocess.run(  # the Java that Spark would start
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return problem(
            MACHINE, "JAVA_UNUSABLE", f"{java} does not run: {error}", "install Java 17 or newer"
        )
    said = answer.stderr + answer.stdout
    match = _VERSION.search(said)
    if match is None:
        return problem(
            *(MACHINE, "JAVA_UNUSABLE"),
            f"{java} -version says no version: {said[:200].strip()!r}",
            "set JAVA_HOME to a Java 17 or newer",
        )
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if major < JAVA_MIN:
        return problem(
            *(MACHINE, "JAVA_TOO_OLD", f"{java} is Java {major}, Spark needs {JAVA_MIN} or newer"),
            "set JAVA_HOME to a newer one",
        )
    return fine(MACHINE, f"Java {major} ({java})")


def _disk() -> Finding:
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folders).free
        writable = os.access(folders, os.W_OK)
    except OSError as error:
        return problem(
            *(MACHINE, "DISK", f"{folders} can't be used: {error.strerror}"),
            "set SPARK_LOCAL_DIRS or TMPDIR to a folder that this user may write",
        )
    if not writable or free < DISK_BYTES_MIN:
        why = f"has {size_text(free)} free" if writable else "can't be written by this user"
        return problem(
            *(MACHINE, "DISK", f"{folders} {why}"),
            f"Spark needs some {size_text(DISK_BYTES_MIN)}: make room, or set SPARK_LOCAL_DIRS",
        )
    return fine(MACHINE, f"{size_text(free)} free in {folders}")


def certificate_findings(config: Config, now_s: float | None = None) -> Iterator[Finding]:
    """Yield certificates of the file that have expired, soon will, or can't be read."""
    for subject, path in _certificates(config):
        yield from _certificate(subject, Path(path), time.time() if now_s is None else now_s)


def _certificates(config: Config) -> Iterator[tuple[str, str]]:
    for alias, cluster in config.clusters.items():
        registry = cluster.schema_registry
        paths = [cluster.security.certificate_file, cluster.security.ca_file]
        paths += [registry.certificate_file, registry.ca_file] if registry else []
        yield from ((f"cluster {alias}", path) for path in dict.fromkeys(paths) if path)
    if isinstance(config.service.tls, ServiceTls):
        yield "service", str(config.service.tls.certificate_file)


def _certificate(subject: str, path: Path, now_s: float) -> Iterator[Finding]:
    try:
        certificates = validities(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        yield problem(
            *(subject, "CREDENTIALS_UNREADABLE", f"{path} can't be used: {why}"),
            "put it there, readable by this user on every machine that copies",
        )
        return
    now = datetime.fromtimestamp(now_s, UTC)
    valid = [
        certificate for certificate in certificates if certificate.begin <= now <= certificate.end
    ]
    end = min(certificate.end for certificate in valid or certificates)
    until, left_s = f"{end:%Y-%m-%d}", (end - now).total_seconds()
    hint = "renew it; connections read the file again, nothing needs a restart"
    if not valid:
        text = f"{path} has expired on {until}" if left_s < 0 else f"{path} is not valid yet"
        yield problem(subject, "CERTIFICATE_EXPIRED", text, hint)
    elif left_s < EXPIRES_SOON_S:
        yield note(subject, "CERTIFICATE_EXPIRES", f"{path} is valid until {until}", hint)
    else:
        yield fine(subject, f"{path.name} is valid until {until}")


def spark_findings(config: Config, *, starts: bool) -> Iterator[Finding]:
    """Yield whether Spark can be used: its address, or a real start.

    Parameters
    ----------
    starts
        Whether to start a session as `run` does; that takes some seconds.
    """
    master = config.spark.master
    if starts:
        yield _started(config)
    elif is_local(master):
        yield fine(MACHINE, f"Spark {master} (not started)")
    else:
        yield _reached(master)


def _reached(master: str) -> Finding:
    import socket

    if lacks_hadoop(master):
        text = f"{master}: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"
        return problem("Spark", "SPARK_UNAVAILABLE", text, HADOOP_HINT)
    match = STANDALONE.match(master)
    if match is None:
        return note(
            *("Spark", "SPARK_NOT_TRIED", f"{master} was not tried"), "heliostat check starts it"
        )
    host, port = match["host"].strip("[]"), int(match["port"])
    try:
        socket.create_connection((host, port), timeout=4).close()
    except OSError as error:
        return problem(
            *("Spark", "SPARK_UNAVAILABLE", f"{master} does not answer: {error}"),
            "start its master, or correct spark.master",
        )
    return fine("Spark", f"{master} answers (not started)")


def _started(config: Config) -> Finding:
    from heliostat.link.spark_start import SparkStart

    began_s = time.monotonic()
    start = SparkStart(config, config.links, lambda _: None)
    try:
        rounds = start.rounds()
    except SparkUnavailable as error:
        return problem_of("Spark", error)
    except Exception as error:  # noqa: BLE001  # PySpark's errors have no common base class
        return problem("Spark", "SPARK_UNAVAILABLE", str(error)[:500], "correct spark.conf")
    cores = rounds.cores
    rounds.stop()
    took_s = time.monotonic() - began_s
    return fine("Spark", f"{config.spark.master} started in {took_s:.1f} s with {cores} cores")
