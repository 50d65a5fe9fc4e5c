from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.topic_plans import link

from heliostat.config import LinkConfig, TopicsConfig
from heliostat.names import TopicName
from heliostat.topics.select import compile_selection, selection_of, why_nothing_selected

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


def selection(include=(), exclude=()):
    return compile_selection(TopicsConfig(include=tuple(include), exclude=tuple(exclude)))


@pytest.mark.parametrize(
    ("include", "exclude", "name", "selected", "why"),
    [
        (["a.b"], [], "a.b", True, "included by a.b"),
        (["a.b"], [], "axb", False, "no include matches"),
        ([r"a\..*"], [], "a.b", True, r"included by a\..*"),
        ([r"a\..*"], [], "xa.b", False, "no include matches"),
        ([".*"], ["a.b"], "a.b", False, "excluded by a.b"),
        (["a.b"], [".*"], "a.b", False, "excluded by .*"),
        ([r"lsst\.(?!MTM2).*"], [], "lsst.MTM2", False, "no include matches"),
        ([r"lsst\.(?!MTM2).*"], [], "lsst.ESS", True, r"included by lsst\.(?!MTM2).*"),
        ([r"a{1,2},b"], [], "aa,b", True, "included by a{1,2},b"),
        (["x|y"], [], "y", True, "included by x|y"),
        (["x|y"], [], "xy", False, "no include matches"),
        ([".*"], [], "__consumer_offsets", False, "always excluded: __.*"),
        ([".*"], [], "heliostat.l.state", False, r"always excluded: heliostat\..*"),
        ([".*"], [], "mm2-offsets.usdf.internal", False, r"always excluded: mm2.*\.internal"),
        ([".*"], [], "summit.checkpoints.internal", False, None),
        ([".*"], [], "my.app.internal", True, "included by .*"),
        (["drill-.*"], [], "drill-a-0a1b2c3d-1", False, "made up by `heliostat drill`"),
        (["drill-a-0a1b2c3d-1"], [], "drill-a-0a1b2c3d-1", True, None),
        (["drill-.*"], [], "drill-a-1", True, "included by drill-.*"),
        (["__consumer_offsets"], [], "__consumer_offsets", False, "always excluded: __.*"),
    ],
)
def test_decisions_name_the_entry_that_decided(include, exclude, name, selected, why):
    decision = selection(include, exclude).explain(name)
    assert decision.selected is selected
    assert why is None or decision.why == why


@given(st.lists(NAMES, max_size=8), st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=8))
def test_names_select_exactly_themselves_and_exclude_wins(include, exclude, names):
    chosen = selection(include, exclude).choose(map(TopicName, names))
    wanted = {n for n in names if n in include and n not in exclude}
    built_in = {n for n in wanted if not selection([".*"]).selects(n)}
    assert chosen == tuple(sorted(wanted - built_in))


@given(NAMES, NAMES)
def test_a_plain_name_is_never_a_pattern(entry, name):
    assert selection([entry]).explain(name).selected <= (entry == name)


@pytest.mark.parametrize(
    ("heartbeats", "name", "selected", "why"),
    [
        ({"emit": True}, "heartbeats", True, "heartbeats are mirrored"),
        ({"mirror": True}, "north.heartbeats", True, "heartbeats are mirrored"),
        ({"emit": True}, "usdf.heartbeats", False, "heartbeats that came from usdf itself"),
        ({"emit": True}, "north.usdf.heartbeats", False, "heartbeats that came from usdf itself"),
        ({"emit": True}, "fooheartbeats", False, "no include matches"),
        ({}, "heartbeats", False, "excluded by heartbeats"),
        ({}, "a", True, "included by a"),
    ],
)
def test_heartbeats_are_selected_where_they_are_wanted(heartbeats, name, selected, why):
    link = {"name": "l", "source": "summit", "target": "usdf", "heartbeats": heartbeats}
    lists = {"include": ["a"], "exclude": ["heartbeats"]}
    decision = selection_of(LinkConfig.model_validate({**link, "topics": lists})).explain(name)
    assert (decision.selected, decision.why) == (selected, why)


def test_mirror_makers_own_topics_are_known_by_any_separator():
    naming = {"include": [".*"], "naming": {"prefix": "summit-"}}
    link = {"name": "l", "source": "summit", "target": "usdf", "topics": naming}
    chosen = selection_of(LinkConfig.model_validate(link))
    assert not chosen.selects("usdf-checkpoints-internal")
    assert not chosen.selects("mm2-offset-syncs-usdf-internal")
    assert not chosen.selects("usdf.checkpoints.internal")
    assert chosen.selects("my-internal")


def test_entries_that_match_nothing_are_found():
    """Given a typing error beside a valid entry / then it alone."""
    chosen = selection(["lsst.sal.*", "lsst.sla.*", "gone"])
    assert chosen.unmatched(["lsst.sal.a", "other"]) == ("lsst.sla.*", "gone")


@pytest.mark.parametrize(
    ("names", "is_told"),
    [
        (["a.b"], False),
        (["b"], True),
        ([], True),
        (["heartbeats"], True),  # mirrored regardless of the lists
        (["a.b", "heartbeats"], False),
        (["a.secret"], True),
    ],
)
def test_a_link_without_a_topic_is_noted(names: list[str], is_told: bool):
    wanted = link(include=("a.*",), exclude=("a.secret",))
    found = why_nothing_selected(wanted, [TopicName(name) for name in names])
    assert bool(found) is is_told
    assert f"of the {len(names)} that can be seen" in found or not is_told
