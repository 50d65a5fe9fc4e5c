"""Which links a merged topic lacks, and which carry round."""

from __future__ import annotations

from heliostat.merge.mesh import Copy, MissingWay, TopicAt, missing_ways, wrong_ways
from heliostat.merge.places import Site
from heliostat.names import LinkName, TopicName

A, B, C = Site("a"), Site("b"), Site("c")
T = TopicName("t")


def copy(way: str, *, merges: bool = True) -> Copy:
    """A link by its way: `a.t-b.t`."""
    source, target = (each.split(".") for each in way.split("-"))
    ends = [TopicAt(Site(site), TopicName(topic)) for site, topic in (source, target)]
    return Copy(LinkName(way), *ends, merges)


def test_two_links_between_two_sites_lack_nothing() -> None:
    assert missing_ways([copy("a.t-b.t"), copy("b.t-a.t")]) == []


def test_a_mesh_of_three_names_each_way_that_it_lacks() -> None:
    """Given a ring of three / then nothing is passed on: three ways lack, and are named."""
    ring = [copy("a.t-b.t"), copy("b.t-c.t"), copy("c.t-a.t")]
    lacking = missing_ways(ring)
    assert lacking == [MissingWay(T, A, C), MissingWay(T, B, A), MissingWay(T, C, B)]
    assert "records written at a never get to c" in str(lacking[0])


def test_topics_are_looked_at_one_by_one() -> None:
    copies = [copy("a.t-b.t"), copy("b.t-a.t"), copy("b.u-c.u"), copy("c.u-b.u")]
    assert missing_ways(copies) == []
    assert wrong_ways(copies) == []


def test_a_way_back_that_does_not_merge_goes_round() -> None:
    [wrong] = wrong_ways([copy("a.t-b.t"), copy("b.t-a.t", merges=False)])
    assert str(wrong) == "records of t at a would go round for ever: by b.t-a.t"


def test_a_way_round_by_other_topics_is_told_link_by_link() -> None:
    """Given a merged topic whose copy under another name leads back / then by which links."""
    merged = [copy("a.t-b.t"), copy("b.t-a.t")]
    away = [copy("b.t-c.u", merges=False), copy("c.u-a.t", merges=False)]
    [wrong] = wrong_ways([*merged, *away])
    text = "records of t at a would go round for ever: by b.t-c.u, then c.u-a.t"
    assert str(wrong) == text


def test_another_source_of_a_merged_topic_must_merge() -> None:
    copies = [copy("a.t-b.t"), copy("b.t-a.t"), copy("c.t-a.t", merges=False)]
    [wrong] = wrong_ways(copies)
    assert str(wrong) == "t at a is merged, and c.t-a.t copies into it without merging"


def test_a_mirror_of_a_merged_topic_elsewhere_is_no_fault() -> None:
    copies = [copy("a.t-b.t"), copy("b.t-a.t"), copy("a.t-c.t", merges=False)]
    assert wrong_ways(copies) == []
    assert missing_ways(copies) == []
