"""What a cluster answers about groups, call by call; see `admin_contract`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from support.admin_contract import Side, at, code, commit, made
from support.clusters import fresh_name, until

from heliostat.clusters.admin import CommittedOffset
from heliostat.names import GroupId, Offset


def a_group_begins_with_its_first_commit(side: Side) -> None:
    name, missing, group = made(side, 2), fresh_name("missing"), GroupId(fresh_name("group"))
    assert commit(side, group, {at(missing): 1}) == {at(missing): 3}
    assert group not in side.admin.list_groups().groups
    assert side.admin.committed_offsets([group]) == {group: {}}
    assert code(side.admin.describe_members([group])) == {group: 69}
    for kind in ("consumer", "streams"):
        assert code(side.admin.describe_members([group], kind)) == {group: 69}
    assert commit(side, group, {at(name): 5, at(name, 7): 1, at(missing): 1}) == {
        at(name): None,
        at(name, 7): 3,
        at(missing): 3,
    }
    listed = side.admin.list_groups().groups[group]
    assert (listed.coordinator, listed.state, listed.kind, listed.protocol) == (
        *(1, "Empty", "classic"),
        "",
    )
    assert not listed.has_members
    assert side.admin.committed_offsets([group]) == {group: {at(name): CommittedOffset(Offset(5))}}
    assert side.admin.describe_members([group]) == {group: ()}
    for kind in ("consumer", "streams"):
        assert code(side.admin.describe_members([group], kind)) == {group: 69}
    assert group in side.admin.list_groups(states=["empty"]).groups
    assert group in side.admin.list_groups(kinds=["classic"]).groups
    for listing in (
        side.admin.list_groups(states=["Stable"]),
        side.admin.list_groups(kinds=["consumer"]),
        side.admin.list_groups(states=["bogus"]),
    ):
        assert group not in listing.groups
        assert not listing.failed


def any_offset_is_committed_and_short_words_with_it(side: Side) -> None:
    name, group = made(side, 2), GroupId(fresh_name("group"))
    assert commit(side, group, {at(name): 1000, at(name, 1): -5}) == dict.fromkeys(
        [at(name), at(name, 1)]
    ), "beyond the end, and below zero"
    found = side.admin.committed_offsets([group])[group]
    assert found == {
        at(name): CommittedOffset(Offset(1000)),
        at(name, 1): CommittedOffset(Offset(-5)),
    }
    commit(side, group, {at(name): -1})
    left = side.admin.committed_offsets([group])[group]
    assert left == {at(name, 1): CommittedOffset(Offset(-5))}, "-1 is none"
    words = {
        at(name): CommittedOffset(Offset(1), "m" * 4096),
        at(name, 1): CommittedOffset(Offset(1), "m" * 4097),
    }
    answers = side.admin.commit_offsets({group: words})
    assert code(answers) == {group: {at(name): None, at(name, 1): 12}}
    assert side.admin.committed_offsets([group])[group] == {
        at(name): words[at(name)],
        at(name, 1): CommittedOffset(Offset(-5)),
    }
    assert side.admin.commit_offsets({group: {}}) == {}


def groups_without_a_name_are_groups(side: Side) -> None:
    nameless = GroupId("")
    for kind in ("consumer", "streams"):
        assert code(side.admin.describe_members([nameless], kind)) == {"": 24}
    name = made(side)
    assert commit(side, nameless, {at(name): 1}) == {at(name): None}
    assert side.admin.list_groups().groups[nameless].kind == "classic"
    assert side.admin.describe_members([nameless]) == {"": ()}


def a_group_with_members_takes_no_commits_of_others(side: Side) -> None:
    name, missing, group = made(side), fresh_name("missing"), GroupId(fresh_name("group"))
    commit(side, group, {at(name): 6})
    with side.member(group, name):
        listed = side.admin.list_groups().groups[group]
        assert (listed.state, listed.kind, listed.protocol) == ("Stable", "classic", "consumer")
        assert listed.has_members
        assert group in side.admin.list_groups(states=["stable"]).groups
        [member] = side.admin.describe_members([group])[group]  # type: ignore[misc]  # no error
        assert (member.client_id, member.host, member.topics) == ("mine", "/127.0.0.1", {name})
        assert code(side.admin.describe_members([group], "consumer")) == {group: 69}
        answer = commit(side, group, {at(name): 1, at(missing): 1})
        assert answer == {at(name): 25, at(missing): 3}
        assert code(side.admin.delete_groups([group])) == {group: 68}
    until(lambda: side.admin.list_groups().groups[group].state == "Empty", "the member to leave")
    assert side.admin.list_groups().groups[group].protocol == "consumer"
    assert side.admin.describe_members([group]) == {group: ()}
    kept = side.admin.committed_offsets([group])[group]
    assert kept == {at(name): CommittedOffset(Offset(6))}
    assert commit(side, group, {at(name): 1}) == {at(name): None}
    gone = GroupId(missing)
    may = side.admin.group_operations([group, gone])
    assert all(isinstance(each, frozenset) and {3, 6, 8} <= each for each in may.values())
    assert may.keys() == {group, gone}
    assert code(side.admin.delete_groups([group, gone])) == {group: None, gone: 69}
    assert group not in side.admin.list_groups().groups
    assert side.admin.committed_offsets([group]) == {group: {}}


GROUP_SCRIPTS: Sequence[Callable[[Side], None]] = (
    a_group_begins_with_its_first_commit,
    any_offset_is_committed_and_short_words_with_it,
    groups_without_a_name_are_groups,
    a_group_with_members_takes_no_commits_of_others,
)
