"""How many lanes run at once on a machine, by its cores and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.ops import places
from heliostat.ops.places import memory_bytes, places_of, task_cpus_of

GIB = 1 << 30


@pytest.mark.parametrize(
    ("cores", "memory_gib", "expected"),
    [
        (2, 2, 8),  # cores still offer as many as ever
        (2, 4, 8),
        (2, 16, 32),
        (2, 24, 48),
        (2, 512, 200),  # Spark takes no smaller share of a core
        (8, 16, 32),
        (8, 64, 128),
        (64, 64, 256),
    ],
)
def test_a_machine_has_a_place_for_each_256_mib_of_half_of_its_memory(
    cores: int, memory_gib: int, expected: int
) -> None:
    task_cpus = task_cpus_of("auto", f"local[{cores}]", lambda: memory_gib * GIB)
    assert expected <= places_of(cores, task_cpus) <= 1.1 * expected
    assert float(f"{task_cpus:g}") == task_cpus  # Spark is told the same number


def test_a_number_counts_as_it_is_and_a_cluster_is_sized_by_cores() -> None:
    assert task_cpus_of(0.5, "local[2]", lambda: 64 * GIB) == 0.5
    assert task_cpus_of("auto", "spark://10.0.0.5:7077", lambda: 64 * GIB) == 0.25
    assert places_of(2, 0.25) == 8
    assert places_of(3, 0.1) == 30


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, none, absent = tmp_path / "limit", tmp_path / "none", tmp_path / "absent"
    limit.write_text("1000000\n")
    none.write_text("max\n")
    whole = memory_bytes()
    monkeypatch.setattr(places, "LIMIT_FILES", (none, absent))
    assert memory_bytes() >= whole > 0
    monkeypatch.setattr(places, "LIMIT_FILES", (none, limit, absent))
    assert memory_bytes() == 1_000_000
