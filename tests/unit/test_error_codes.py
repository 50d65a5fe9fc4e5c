"""Every error says what to do, every code has a test on a real broker, and markers are true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.provoked import Provoked, lacking, shows
from support.tools import ROOT, load_tool

from heliostat.errors import BrokerError, HeliostatError, Refused

reference = load_tool("generate_reference")
codes = load_tool("provoked_codes")

KINDS = list(reference.error_classes())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_has_a_code_a_verdict_and_a_hint_or_the_reason_for_none(
    kind: type[HeliostatError],
) -> None:
    assert str(kind("it")).startswith(f"[{kind.code}] it")
    assert kind.verdict
    assert bool(kind.hint) != bool(kind.no_hint)


def test_no_two_errors_share_a_code() -> None:
    found = [kind.code for kind in KINDS]
    assert len(found) == len(set(found))


def test_each_code_of_ours_is_provoked_by_a_test_on_a_real_broker() -> None:
    assert reference.unproved() == []


def test_a_broker_code_without_a_test_has_its_reason() -> None:
    assert "**no reason**" not in reference.pages()["errors-provoked.md"]


def test_unprovoked_and_unknown_codes_are_reported(tmp_path: Path) -> None:
    for folder in codes.FOLDERS:
        (tmp_path / folder).mkdir()
    (tmp_path / "kafka" / "test_a.py").write_text(
        '@pytest.mark.provokes("ONE", "THREE", how="by hand")\ndef test_it(): ...\n'
    )
    found = codes.proofs(tmp_path)
    assert [proof.told() for proof in found] == [
        "[test_it](../../tests/kafka/test_a.py): by hand"
    ] * 2
    said = list(codes.problems({"Ours": ["ONE", "TWO"]}, [], found))
    assert said == [
        "TWO: no test provokes it on a real broker",
        "tests/kafka/test_a.py: test_it: THREE is no code",
    ]


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        (Refused("no"), "REFUSED"),
        ("heliostat: [REFUSED] no", "REFUSED"),
        (BrokerError("no", kafka_code=10), "MESSAGE_TOO_LARGE"),
        ({"code": "TOO_LARGE", "state": "blocked"}, "TOO_LARGE"),
        ({"code": "name", "reason": "", "hint": ""}, "refused:name"),
        ({"cause": "source_overtook"}, "gap:source_overtook"),
    ],
)
def test_evidence_shows_its_code(evidence: object, code: str) -> None:
    Provoked()(code, evidence)


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        ("it was REFUSED", "REFUSED"),
        ({"code": "source_recreated", "hint": ""}, "gap:source_recreated"),
        ({"cause": "source_recreated"}, "refused:source_recreated"),
        ({"code": "TOO_LARGE"}, "CORRUPT"),
        (None, "REFUSED"),
    ],
)
def test_evidence_without_a_code_is_rejected(evidence: object, code: str) -> None:
    assert not shows(evidence, code)
    with pytest.raises(AssertionError):
        Provoked()(code, evidence)


def test_a_marker_and_the_evidence_must_agree() -> None:
    assert lacking({"A"}, {"A"}) == []
    assert lacking({"A", "B"}, {"A"}) == ["B is in its marker and was not seen"]
    assert lacking({"A"}, {"A", "C"}) == ["C was seen and is not in its marker"]


def test_a_test_that_does_not_show_its_codes_fails(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.provokes('A')\n"
        "def test_silent(): pass\n"
        "@pytest.mark.provokes('A')\n"
        "def test_shown(provoked): provoked('A', '[A] it')\n"
        "def test_unmarked(provoked): provoked('A', '[A] it')\n"
        "def test_other(): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.provoked", "-p", "no:cacheprovider", "-rA"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "A is in its marker and was not seen" in done.stdout
    assert "A was seen and is not in its marker" in done.stdout
