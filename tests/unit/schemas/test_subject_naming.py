"""Subjects are renamed as their topics are, and only those that are named after one."""

from __future__ import annotations

import pytest

from heliostat.names import TopicName
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.registry.values import Context, Subject

TOPICS = {
    TopicName(name): TopicName(f"summit.{name}")
    for name in ("foo", "foo-bar", "lsst.sal.ESS.temperature", "a-key")
}
NAMING = SubjectNaming(TOPICS)


@pytest.mark.parametrize(
    ("subject", "named"),
    [
        ("foo-value", "summit.foo-value"),
        ("foo-key", "summit.foo-key"),
        ("foo-bar-value", "summit.foo-bar-value"),
        ("lsst.sal.ESS.temperature-value", "summit.lsst.sal.ESS.temperature-value"),
        ("foo-lsst.sal.Record", "summit.foo-lsst.sal.Record"),
        ("foo-bar-Record", "summit.foo-bar-Record"),
        ("a-key-value", "summit.a-key-value"),
        ("lsst.sal.ESS.temperature", "lsst.sal.ESS.temperature"),
        ("lsst.sal.Record", "lsst.sal.Record"),
        ("other-value", "other-value"),
        ("foo-", "foo-"),
        ("foo-9", "foo-9"),
        ("foo-a..b", "foo-a..b"),
        ("-value", "-value"),
        ("foo", "foo"),
    ],
)
def test_names_under_a_prefix(subject: str, named: str) -> None:
    assert NAMING.names(Subject(subject)) == (named,)


def test_an_own_name_may_stay_beside_it() -> None:
    naming = SubjectNaming(TOPICS, keeps_original=True)
    assert naming.names(Subject("foo-value")) == ("summit.foo-value", "foo-value")
    assert naming.names(Subject("lsst.sal.Record")) == ("lsst.sal.Record",)


def test_names_in_a_context_of_the_target_whatever_that_at_the_source() -> None:
    naming = SubjectNaming(TOPICS, Context(".chile"))
    for subject in ("foo-value", ":.old:foo-value"):
        assert naming.names(Subject(subject)) == (":.chile:summit.foo-value",)
