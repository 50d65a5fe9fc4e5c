"""Java is found or reported as missing; jars other than the locked ones are never used."""

import hashlib
import os
import stat
import tarfile
from pathlib import Path

import pytest
from support.tools import load_tool

from heliostat.errors import SandboxError
from heliostat_sandbox import jars, java
from heliostat_sandbox.jars import JarSet, check_jars, ensure_jars, read_lock

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}
SET = JarSet(
    "small-1",
    ("org.example:a:1",),
    {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()},
)


def planted_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """No Java anywhere but below `tmp_path`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin{os.pathsep}/usr/bin-not-there")
    monkeypatch.setattr(java, "JVM_FOLDER", tmp_path / "jvm")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("25", 25), ("26-ea", 26), ("none", None)],
)
def test_version_of_a_java(tmp_path, version, major):
    assert java.java_major(planted_java(tmp_path, version)) == major


def test_an_old_java_on_the_path_is_skipped(bare_machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "home"))
    planted_java(bare_machine / "home", "11.0.2")
    planted_java(bare_machine / "path", "1.8.0_1")
    good = planted_java(bare_machine / "jvm" / "java-21", "21.0.1")
    assert java.find_java() == good


def test_without_java_the_error_says_what_to_install(bare_machine):
    planted_java(bare_machine / "path", "11.0.2")
    with pytest.raises(SandboxError, match="apt-get install openjdk-17") as caught:
        java.find_java()
    assert "version 11" in str(caught.value)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache, and a registry whose files can be altered: `registry[name] = bytes`."""
    monkeypatch.setenv("HELIOSTAT_CACHE", str(tmp_path / "cache"))
    registry = dict(CONTENT)
    calls = []

    def retrieve(modules, folder, *, work):
        calls.append(modules)
        for name, content in registry.items():
            (folder / name).write_bytes(content)

    monkeypatch.setattr(jars, "retrieve", retrieve)
    return tmp_path / "cache", registry, calls


def get():
    return ensure_jars(SET.name, lock={SET.name: SET})


def test_jars_are_fetched_once(cache):
    folder, _, calls = cache
    first = get()
    assert [path.name for path in first] == ["a-1.jar", "b-2.jar"]
    assert [path.read_bytes() for path in first] == [b"first", b"second"]
    assert get() == first
    assert calls == [SET.modules]
    assert sorted(path.name for path in folder.iterdir()) == ["lock", SET.name]


def test_files_that_are_no_jars_are_left_out(cache):
    _, registry, _ = cache
    registry["a-1.pom"] = b"<xml/>"
    assert [path.name for path in get()[0].parent.iterdir() if path.suffix != ".jar"] == []


@pytest.mark.parametrize("damage", ["altered", "missing", "unknown"])
def test_fetched_jars_must_match_the_lock(cache, damage):
    folder, registry, _ = cache
    if damage == "altered":
        registry["b-2.jar"] = b"something else"
    elif damage == "missing":
        del registry["b-2.jar"]
    else:
        registry["c-3.jar"] = b"new"
    with pytest.raises(SandboxError, match="not used"):
        get()
    assert [path.name for path in folder.iterdir()] == ["lock"], "nothing half-done stays"


def test_a_jar_altered_in_the_cache_is_refused(cache):
    path = get()[1]
    path.write_bytes(b"second, with a backdoor")
    with pytest.raises(SandboxError, match=r"b-2\.jar") as caught:
        get()
    assert "delete" in caught.value.hint


def test_a_jar_deleted_from_the_cache_is_fetched_again(cache):
    get()[0].unlink()
    assert get()[0].read_bytes() == b"first"
    check_jars(cache[0] / SET.name, SET)


def test_the_lock_holds_the_sets_of_the_tool_that_makes_it():
    tool = load_tool("lock_jars")
    lock = read_lock()
    assert {name: each.modules for name, each in lock.items()} == tool.SETS
    assert "kafka_2.13-4.3.0.jar" in lock[jars.KAFKA].checksums
    assert "connect-mirror-4.3.0.jar" in lock[jars.MIRROR].checksums
    assert all(len(each) == 64 for entry in lock.values() for each in entry.checksums.values())


def test_an_unknown_set_is_refused():
    with pytest.raises(SandboxError, match="no such set"):
        ensure_jars("kafka-0.8")


def test_a_failed_request_to_the_registry_is_retried(monkeypatch, tmp_path):
    counter = tmp_path / "asked"
    program = tmp_path / "java"
    program.write_text(
        f"#!/bin/sh\necho x >> {counter}\n"
        f"[ $(wc -l < {counter}) -ge 3 ] || {{ echo down; exit 1; }}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(jars, "find_java", lambda: program)
    monkeypatch.setattr(jars, "ATTEMPT_PAUSE_S", 0.0)
    jars.retrieve(("a:b:1",), tmp_path / "out", work=tmp_path / "fetching")
    assert counter.read_text().count("x") == 3
    counter.unlink()
    monkeypatch.setattr(jars, "ATTEMPTS", 2)
    with pytest.raises(SandboxError, match="down"):
        jars.retrieve(("a:b:1",), tmp_path / "out", work=tmp_path / "fetching")


def test_of_an_archive_the_jars_are_taken_without_their_folders(monkeypatch, tmp_path):
    for name, content in {"a/lib/x-1.jar": b"x", "a/run.jar": b"r", "a/README": b"no"}.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "tree", ".")
    out = tmp_path / "out"
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\ncp {tmp_path}/all.tar.gz {out}/\n")
    program.chmod(0o755)
    monkeypatch.setattr(jars, "find_java", lambda: program)
    jars.retrieve(("a:b:1:all",), out, work=tmp_path / "fetching")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        "x-1.jar": b"x",
        "run.jar": b"r",
    }
    request = (tmp_path / "fetching" / "request.xml").read_text()
    assert 'm:classifier="all"' in request
    assert 'transitive="false"' in request
