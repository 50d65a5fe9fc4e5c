"""What follows the source: what to make, what to remove, and what needs a person first. Pure.

Items are ACLs or limits of quotas; each has a value (True for an ACL). An item at the target is
ours only if the ledger says so: somebody else's equal one never is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from heliostat.names import ClusterId

SHARE = 10
"""A tenth gone at once needs a person; a single item does not, however few there are."""
Item = TypeVar("Item", bound=Hashable)
Value = TypeVar("Value", bound=Hashable)


@dataclass(slots=True)
class Steps(Generic[Item, Value]):
    """What brings the target in step."""

    make: dict[Item, Value] = field(default_factory=dict)
    remove: list[Item] = field(default_factory=list)
    forget: list[Item] = field(default_factory=list)
    """Ours no more: somebody has set another value since."""
    foreign: list[Item] = field(default_factory=list)
    """Wanted, but somebody else's: left as they are."""
    settled: list[Item] = field(default_factory=list)
    """Made as wanted."""


def steps(
    wanted: Mapping[Item, Value],
    there: Mapping[Item, Value],
    ours: Mapping[Item, tuple[Value, ...]],
    is_over: Callable[[Item], bool] = lambda _: False,
) -> Steps[Item, Value]:
    """Return what to do.

    Parameters
    ----------
    wanted
        What the target should have.
    there
        What it has.
    ours
        What the link has made, with the values that it may have given it: two while it changes one.
    is_over
        Whether an item is followed no more, as its topics are promoted: nothing is done about it.
    """
    todo = Steps[Item, Value]()
    for item, value in wanted.items():
        if is_over(item):
            continue
        present, made = there.get(item), ours.get(item)
        if present is None:
            todo.make[item] = value
        elif made is None or present not in made:
            todo.foreign.append(item)
            if made is not None:
                todo.forget.append(item)
        elif present == value:
            todo.settled.append(item)
        else:
            todo.make[item] = value
    for item, made in ours.items():
        if item in wanted or is_over(item):
            continue
        present = there.get(item)
        (todo.remove if present is None or present in made else todo.forget).append(item)
    return todo


@dataclass(frozen=True, slots=True)
class Seen:
    """How the source was seen.

    Parameters
    ----------
    cluster_id
        The source's.
    count
        How many items it has, of the kind with the fewest among those that the link has made.
    has_authorizer
        Whether it checks rights at all.
    silent
        Why not all of its brokers have answered; empty: all have.
    """

    cluster_id: ClusterId
    count: int
    has_authorizer: bool = True
    silent: str = ""


class Share(NamedTuple):
    """How many items of a kind the link has made or keeps ready, and how many would go."""

    kind: str
    owned: int
    gone: int

    @property
    def is_large(self) -> bool:
        """Whether so many going at once need a person."""
        return self.gone > 1 and self.gone * SHARE >= self.owned


def why_ask(source: Seen, before: ClusterId | None, shares: Sequence[Share]) -> str:
    """Say why a person must confirm that these are removed; empty: nobody needs to.

    Parameters
    ----------
    before
        The source's id when the link made something first; None: it has not.
    shares
        Of each kind: a few limits are not lost among many ACLs; all together count as one, too.
    """
    if before is not None and before != source.cluster_id:
        return f"the source is another cluster, {source.cluster_id} instead of {before}"
    every = Share("", sum(share.owned for share in shares), sum(share.gone for share in shares))
    if not every.gone:
        return ""
    if not source.has_authorizer:
        return "the source has no authorizer any more"
    if not source.count:
        return "the source lists nothing any more"
    if every.is_large:
        return f"{every.gone} of {every.owned} would go at once"
    large = [f"{share.gone} of {share.owned} {share.kind}" for share in shares if share.is_large]
    return f"{', '.join(large)} would go at once" if large else ""


def confirmation_of(source: Seen, gone: Iterable[str]) -> str:
    """A short text that stands for just these removals: confirmed is only what was shown."""
    text = "\n".join([source.cluster_id, *sorted(gone)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
