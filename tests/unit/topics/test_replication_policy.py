"""Names as MirrorMaker 2's replication policies form and parse them."""

from __future__ import annotations

import pytest

from heliostat.config import FormatNaming, LinkConfig, PrefixNaming, TopicsConfig
from heliostat.names import Alias, LinkName, TopicName
from heliostat.topics.replication_policy import ReplicationPolicy, policy_of

POLICY = ReplicationPolicy()


@pytest.mark.parametrize(  # as `DefaultReplicationPolicy` 4.3.0 answers
    ("topic", "source", "upstream", "original"),
    [
        ("a.b.c", "a", "b.c", "c"),
        ("x..y", "x", ".y", "y"),
        (".x", "", "x", "x"),
        ("x.", None, None, "x."),
        ("heartbeats", None, None, "heartbeats"),
        ("A.heartbeats", "A", "heartbeats", "heartbeats"),
    ],
)
def test_names_are_parsed_as_by_mirror_maker(topic, source, upstream, original):
    name = TopicName(topic)
    assert POLICY.source_of(name) == source
    assert POLICY.upstream_of(name) == upstream
    assert POLICY.original_of(name) == original


@pytest.mark.parametrize(
    ("topic", "is_heartbeats"),
    [
        ("heartbeats", True),
        ("A.heartbeats", True),
        ("B.A.heartbeats", True),
        ("fooheartbeats", False),
        ("heartbeats.A", False),
    ],
)
def test_heartbeats_are_recognized_by_their_original_name(topic, is_heartbeats):
    assert POLICY.is_heartbeats(TopicName(topic)) is is_heartbeats


def test_every_upstream_cluster_is_named():
    assert POLICY.sources_of(TopicName("C.B.A.t")) == ("C", "B", "A")


@pytest.mark.parametrize(
    ("naming", "separator"),
    [
        ("same", "."),
        (PrefixNaming(prefix="summit."), "."),
        (PrefixNaming(prefix="summit-"), "-"),
        (FormatNaming(format="${source}_${topic}"), "_"),
        (FormatNaming(format="${source}__${topic}"), "__"),
        (FormatNaming(format="${topic}__${source}"), "."),
        (PrefixNaming(prefix="other-"), "."),
        (PrefixNaming(prefix="summit"), "."),
        (FormatNaming(format="${source}-${topic}-copy"), "."),
    ],
)
def test_the_separator_is_that_of_the_naming_rule(naming, separator):
    link = LinkConfig(
        name=LinkName("l"),
        source=Alias("summit"),
        target=Alias("usdf"),
        topics=TopicsConfig(naming=naming),
    )
    assert policy_of(link).separator == separator


def test_internal_topics_contain_the_separator():
    policy = ReplicationPolicy("-")
    assert policy.checkpoints_topic(Alias("A")) == "A-checkpoints-internal"
    assert policy.offset_syncs_topic(Alias("B")) == "mm2-offset-syncs-B-internal"
    assert POLICY.checkpoints_topic(Alias("A")) == "A.checkpoints.internal"
    assert policy.mirror_name(Alias("A"), TopicName("heartbeats")) == "A-heartbeats"
