"""Longest files first: two workers share the files, and one begun last would run on alone.

`tests/conftest.py` imports the hook.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LONGEST_FIRST = (
    "kafka/test_ownership.py",
    "peer/test_bench_live.py",
    "peer/test_adopt.py",
    "kafka/test_faults.py",
    "kafka/test_faults_replicas.py",
    "kafka/test_faults_access.py",
    "kafka/test_faults_state.py",
    "kafka/test_random_faults.py",
    "kafka/test_copying.py",
    "kafka/test_faults_forgetful.py",
    "spark/test_standalone.py",
    "kafka/test_security.py",
    "kafka/test_mapped.py",
    "kafka/test_gaps.py",
    "kafka/test_adopt.py",
    "peer/test_bench_small.py",
)
"""Those that take minutes, as `--durations=0` shows; the others follow in their usual order."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by file only: within one the order stays."""
    ranks = {TESTS / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONGEST_FIRST)))
