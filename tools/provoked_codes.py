"""Which test provokes which code on a real broker, by the tests' markers, read from their source.

A marker is `@pytest.mark.provokes("CODE", ..., how="...")`; `tests/support/provoked.py` fails the
test that does not show each of its codes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
FOLDERS = ("kafka", "spark", "peer")
"""Folders whose tests have real brokers."""
MARKER = "pytest.mark.provokes"


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """One code in one test's marker."""

    code: str
    file: str
    """Path below the folder of tests."""
    test: str
    how: str = ""
    """If the broker alone does not give the code: what is between, or was done to it."""

    def told(self) -> str:
        """Return the proof as a cell of the table."""
        text = f"[{self.test}](../../tests/{self.file})"
        return f"{text}: {self.how}" if self.how else text


def proofs(tests: Path = TESTS) -> list[Proof]:
    """Return all codes in markers of tests on real brokers."""
    found: list[Proof] = []
    for folder in FOLDERS:
        for file in sorted((tests / folder).glob("test_*.py")):
            found += _of_file(file, file.relative_to(tests).as_posix())
    return sorted(found)


def _of_file(file: Path, name: str) -> Iterator[Proof]:
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARKER:
                    yield from _of_marker(decorator, name, node.name)


def _of_marker(marker: ast.Call, file: str, test: str) -> Iterator[Proof]:
    how = next((str(ast.literal_eval(k.value)) for k in marker.keywords if k.arg == "how"), "")
    for argument in marker.args:
        yield Proof(str(ast.literal_eval(argument)), file, test, how)


def problems(ours: Mapping[str, list[str]], kafka: list[str], found: list[Proof]) -> Iterator[str]:
    """Return our codes that no test provokes, and markers with unknown codes."""
    known = {code for codes in ours.values() for code in codes}
    proved = {proof.code for proof in found}
    for code in sorted(known - proved):
        yield f"{code}: no test provokes it on a real broker"
    for proof in found:
        if proof.code not in known and proof.code not in kafka:
            yield f"tests/{proof.file}: {proof.test}: {proof.code} is no code"


def page(ours: Mapping[str, list[str]], kafka: list[str], found: list[Proof]) -> Iterator[str]:
    """Return the table, with a section for each kind of code."""
    yield "# Which test provokes which code"
    yield ""
    yield "Each code of [Errors and states](errors.md) that is Heliostat's own, and the tests that"
    yield "provoke it on a real broker. A test that does not see each code it names here fails"
    yield "(`tests/support/provoked.py`); behind a colon stands what was done to the broker, or"
    yield "stands before it, where it gives the code not by itself."
    by_code: dict[str, list[Proof]] = {}
    for proof in found:
        by_code.setdefault(proof.code, []).append(proof)
    for heading, codes in ours.items():
        yield from ("", f"## {heading}", "", "| code | test |", "|---|---|")
        for code in codes:
            told = "<br>".join(proof.told() for proof in by_code.get(code, ()))
            yield f"| `{code}` | {told or '**none**'} |"
    yield from ("", "## Error codes of brokers", "")
    yield "Those that a test has a broker answer, beside those that it answers as part of any other"
    yield "fault."
    yield from ("", "| code | test |", "|---|---|")
    for code in kafka:
        if code in by_code:
            yield f"| `{code}` | {'<br>'.join(proof.told() for proof in by_code[code])} |"
    left = {code for code in kafka if code not in by_code}
    yield from ("", "And those that none provokes for certain, with the reason:", "")
    yield from ("| code | why |", "|---|---|")
    for why, such in WHY_NONE.items():
        for code in such:
            if code in left:
                yield f"| `{code}` | {why} |"
    for code in sorted(left - {code for such in WHY_NONE.values() for code in such}):
        yield f"| `{code}` | **no reason** |"


WHY_NONE = {
    "for a moment only, while a leader or coordinator moves: tests meet it by chance": (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "BROKER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_CONTROLLER",
        "LISTENER_NOT_FOUND",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
    ),
    "a broker's bug or a broken disk, which has no switch": (
        "UNKNOWN_SERVER_ERROR",
        "KAFKA_STORAGE_ERROR",
    ),
    "only within a stall of replicas that is exactly as long as a request's time": (
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    ),
    "made by clients, not sent by brokers": ("NETWORK_EXCEPTION",),
    "Heliostat acts on it before anybody sees it": (
        "OFFSET_OUT_OF_RANGE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "DUPLICATE_SEQUENCE_NUMBER",
        "TRANSACTION_COORDINATOR_FENCED",
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_EPOCH",
        "GROUP_ID_NOT_FOUND",
        "UNKNOWN_MEMBER_ID",
        "CORRUPT_MESSAGE",
    ),
    "refused beforehand, or avoided: such a request is not sent": (
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_GROUP_ID",
        "INVALID_PARTITIONS",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_CONFIG",
        "INVALID_TIMESTAMP",
        "INVALID_RECORD",
        "UNSUPPORTED_VERSION",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "TOPIC_ALREADY_EXISTS",
        "INVALID_COMMIT_OFFSET_SIZE",
    ),
    "seen in `tests/kafka/test_admin_contract.py`, by number": ("OFFSET_METADATA_TOO_LARGE",),
    "no broker of today answers it to these requests": ("UNKNOWN_PRODUCER_ID",),
    "needs a plug-in of the broker": ("POLICY_VIOLATION",),
    "seen in the texts of `tests/kafka/test_faults_access.py` and `test_acls.py`, by right": (
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
}
"""Why no test makes a broker answer a code; codes that have a test are left out."""
