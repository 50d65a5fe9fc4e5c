"""What a change of a definition concerns: topics that begin, that stay, and that are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.config import LinkConfig, read_config_file
from heliostat.names import Alias, LinkName, TopicName
from heliostat.operate.definition_reach import TopicCount, compared, reach_of
from heliostat.other_links import same_file

TOPICS = {TopicName(name): count for name, count in (("a.1", 3), ("a.2", 5), ("b.1", 7))}


def link(*include: str, source: str = "east") -> LinkConfig:
    return LinkConfig.model_validate(
        {"name": "l", "source": source, "target": "west", "topics": {"include": include}}
    )


def test_topics_that_begin_and_that_are_left_are_counted_with_their_partitions() -> None:
    reach = compared(link("a[.].*"), link("a[.]2", "b[.].*"), TOPICS)

    assert (reach.selected, reach.begun, reach.left) == (
        TopicCount(2, 12),
        TopicCount(1, 7),
        TopicCount(1, 3),
    )
    assert list(reach.describe()) == [
        "selects 2 topics with 12 partitions now",
        "1 topics with 7 partitions begin to be copied",
        "1 topics with 3 partitions are copied no more; their mirrors stay",
    ]


def test_a_new_link_and_one_with_another_source_begin_with_all() -> None:
    for before in (None, link("a[.].*", source="north")):
        reach = compared(before, link("a[.].*"), TOPICS)
        assert (reach.selected, reach.begun, reach.left) == (
            TopicCount(2, 8),
            TopicCount(2, 8),
            TopicCount(),
        )


def test_a_source_that_does_not_answer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_file, "CONNECT_WITHIN_S", 0.1)
    path = tmp_path / "heliostat.yaml"
    path.write_text(
        "clusters:\n  east: {bootstrap: ['127.0.0.1:1']}\n  west: {bootstrap: [x:1]}\n"
        "service: {home: west}\nlinks: []\n"
    )
    content = {"source": Alias("east"), "target": Alias("west"), "topics": {"include": ["a"]}}
    reach = reach_of(read_config_file(path), LinkName("l"), None, content)

    assert "east does not answer" in reach.error
    assert reach.to_json()["selected"] == {"topics": 0, "partitions": 0}
