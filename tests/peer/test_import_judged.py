"""The import's result does what MirrorMaker 2's own classes do with the same files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judged_links import client_view, differences
from support.mirror_jvm import MirrorJvm, as_java_raises
from support.mirror_maker_files import CASES
from support.mirror_maker_judge import Judge

from heliostat.config import load_config
from heliostat.mm2.config import import_mm2

pytestmark = [pytest.mark.peer, pytest.mark.thorough]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with as_java_raises(), MirrorJvm() as jvm:
        yield Judge(jvm)


@pytest.mark.parametrize("case", CASES)
def test_a_file_means_what_mirror_maker_makes_of_it(
    case: str, judge: Judge, tmp_path: Path
) -> None:
    """Given files / when imported / then names, selection and clients are theirs, or told."""
    files, line = CASES[case]
    imported = import_mm2(files)
    told = " ".join(imported.differences)
    assert line in told
    assert bool(line) == bool(told), imported.differences
    (tmp_path / "heliostat.yaml").write_text(imported.to_yaml())
    config = load_config(tmp_path / "heliostat.yaml", env={})
    verdicts = judge.verdicts(files)
    assert len(verdicts) == len(config.links)
    for verdict, link in zip(verdicts, config.links, strict=True):
        wrong = [*differences(verdict, link, told)]
        clusters = {side: config.clusters[getattr(link, side)] for side in ("source", "target")}
        for role, theirs in verdict.clients.items():
            ours = client_view(clusters[role.partition(" ")[0]])
            if ours != theirs and role not in told:
                wrong.append(f"{role}: theirs {theirs}, ours {ours}")
        assert not wrong, "\n".join(wrong)
