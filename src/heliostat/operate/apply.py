"""`heliostat apply`: bring a link's target up to date once, without copying a record.

    the link has an owner     it is ordered to look at once, and what is left after that is told
    it has none               the link is claimed, brought up to date, and resigned

Nothing is concluded from what was tried: each part is asked again what it would change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from heliostat.changes import Change, Fate, Outcome
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, LinkTakenOver, Refused
from heliostat.names import LinkName
from heliostat.operate.apply_parts import Part, PartLook, parts_of
from heliostat.operate.link_states import OWNED
from heliostat.operate.orders import await_orders, new_orders
from heliostat.operate.wish_desk import WishDesk, wish_desk
from heliostat.operate.wishes import CARRIED_OUT_WITHIN_S
from heliostat.other_links.same_file import NamesOf
from heliostat.state.claimed import claimed
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership
from heliostat.wishes.order import Order, OrderVerb
from heliostat.wishes.wish import Place

OWN_LASTS_S = 30.0
"""For how long a claim holds that is renewed each `RENEW_EVERY_S`."""
RENEW_EVERY_S = 5.0
LOOK_AGAIN_S = 1.0
"""Between two looks at what a running link has still to do."""


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """What became of each change of one link."""

    link: LinkName
    by_owner: bool
    """Whether a running link did it."""
    outcomes: tuple[Outcome, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Topics that are not mirrored, and why."""
    drift: tuple[str, ...] = ()
    """What differs and can't be changed by a link, a line each."""
    waits: str = ""
    """Why a running link has not done it yet."""
    took_s: float = 0.0
    is_tried: bool = False
    """Whether nothing was changed, as it was only asked what would be, or not agreed to."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do or to decide."""
        return not self.refused and all(outcome.fate is Fate.DONE for outcome in self.outcomes)

    def of(self, fate: Fate) -> list[Outcome]:
        """Return what had this fate."""
        return [outcome for outcome in self.outcomes if outcome.fate is fate]

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "by_owner": self.by_owner,
            "changes": [outcome.to_json() for outcome in self.outcomes],
            "refused": dict(self.refused),
            "drift": list(self.drift),
            "waits": self.waits,
            "is_done": self.is_done,
            "is_tried": self.is_tried,
            "took_s": round(self.took_s, 3),
        }


@dataclass(frozen=True, slots=True)
class HowToApply:
    """What is asked of `apply_link`."""

    by: str
    """Who asks for it."""
    why: str = ""
    within_s: float = CARRIED_OUT_WITHIN_S
    """How long to wait for a running link."""
    dry_run: bool = False
    """Whether only to tell what would be done."""
    allow_delete: bool = False
    """Whether settings may be unset, and mirrors left to others."""
    key: str = ""
    """Under which a running link is ordered so once, however often it is asked; empty: none."""


def apply_link(
    config: Config,
    link: LinkConfig,
    how: HowToApply,
    agree: Callable[[Sequence[Change]], bool] = lambda _: True,
    *,
    names_of: NamesOf | None = None,
) -> ApplyAnswer:
    """Change at the target what `plan` says; done again it changes nothing.

    Parameters
    ----------
    agree
        Called with what would be changed before anything is; if it returns False, nothing is.
    names_of
        Returns the topics of other links' sources; by default each is asked.

    Raises
    ------
    Refused
        Another instance has just claimed the link, or operators wish that it does nothing.
    ConfigError
        Both aliases lead to the same cluster.
    LinkTakenOver
        Another instance took the link over meanwhile; it does the rest.
    ConnectionLost, BrokerError
        A cluster does not answer or refuses; call it again: what was done is not done twice.
    """
    began_s = time.monotonic()
    parts = parts_of(config, link, names_of)
    with wish_desk(config, link) as desk:
        is_owned = desk.reader.board.status(desk.clock.wall_ms()).state in OWNED
        before = _look(parts)
        allowed = [
            change for change in before.changes if how.allow_delete or not change.is_deletion
        ]
        if how.dry_run or not allowed or not agree(before.changes):
            outcomes = [Outcome(change, _untouched(change, how)) for change in before.changes]
            is_tried = bool(how.dry_run or allowed)
            return _answer(link, before, outcomes, began_s, by_owner=is_owned, is_tried=is_tried)
        failed: Mapping[str, str] = {}
        waits = ""
        if is_owned:
            waits, failed = _order(desk, link, how, parts)
            after = _await_parts(parts, before, how.within_s if not waits else 0.0)
        else:
            failed = _carry_out(desk, link, how, parts)
            after = _look(parts)
    outcomes = _outcomes(before, after, failed, how, waits=waits, is_owned=is_owned)
    return _answer(link, after, outcomes, began_s, by_owner=is_owned, waits=waits)


def _answer(
    link: LinkConfig, look: PartLook, outcomes: Sequence[Outcome], began_s: float, **more: Any
) -> ApplyAnswer:
    return ApplyAnswer(
        LinkName(link.name),
        outcomes=tuple(outcomes),
        refused=look.refused,
        drift=look.drift,
        took_s=time.monotonic() - began_s,
        **more,
    )


def _untouched(change: Change, how: HowToApply) -> Fate:
    return Fate.HELD_BACK if change.is_deletion and not how.allow_delete else Fate.PLANNED


def _look(parts: Sequence[Part]) -> PartLook:
    """Return what all parts would change."""
    looks = [part.look() for part in parts]
    return PartLook(
        tuple(change for look in looks for change in look.changes),
        {item: why for look in looks for item, why in look.refused.items()},
        tuple(line for look in looks for line in look.drift),
    )


# -- by the link's owner ---------------------------------------------------------------------------


def _order(
    desk: WishDesk, link: LinkConfig, how: HowToApply, parts: Sequence[Part]
) -> tuple[str, Mapping[str, str]]:
    """Have the running link do it; return why it has not, and items that it could not change."""
    if how.allow_delete:
        for part in parts:
            part.allow(how.by)
    key, now_ms = f"{how.key}\napply" if how.key else "", desk.clock.wall_ms()
    order = Order.new(Place(), how.by, now_ms, how.why, verb=OrderVerb.APPLY, key=key)
    desk.book.read()
    if new := new_orders(desk.book.orders, [order]):
        desk.book.order(new, link.state.replication_factor)
    standings, waits = await_orders(desk.reader, desk.book, [order], desk.clock, how.within_s)
    refused = desk.reader.board.status(desk.clock.wall_ms()).refused
    failed = {item: why for part in parts for item, why in part.reasons(refused).items()}
    ended = [standing.ended for standing in standings if standing.ended is not None]
    text = next((ending.text for ending in ended), "")
    return waits, {"": text, **failed}


def _await_parts(parts: Sequence[Part], before: PartLook, within_s: float) -> PartLook:
    """Look until nothing is left of what was planned, or the time is over."""
    until_s = time.monotonic() + within_s
    while True:
        after = _look(parts)
        if not _left(before, after) or time.monotonic() >= until_s:
            return after
        time.sleep(LOOK_AGAIN_S)


# -- by this command -------------------------------------------------------------------------------


def _carry_out(
    desk: WishDesk, link: LinkConfig, how: HowToApply, parts: Sequence[Part]
) -> Mapping[str, str]:
    """Claim the link and do it; return items that failed, and why."""
    desk.book.read()
    wishes = desk.book.wishes
    if wishes.is_stopped():
        raise Refused(
            f"link {link.name} is to do nothing, as an operator wishes",
            hint=f"heliostat start {link.name}",
        )
    failed: dict[str, str] = {}
    with closing(LinkState(link, desk.target)) as state, claimed(link, state) as ownership:
        state.owner.end_watch()
        state.claim = ownership.claim_number
        if wishes.promotions.keys() - state.read().promoted.keys():
            raise Refused(
                f"mirrors of link {link.name} are being given away",
                hint="finish that first: begin it again as it was begun",
            )
        with _kept(ownership):
            for part in parts:
                failed |= _done(part, state, ownership, allow_delete=how.allow_delete)
    return failed


def _done(
    part: Part, state: LinkState, ownership: Ownership, *, allow_delete: bool
) -> Mapping[str, str]:
    """Carry out one part; what a broker refuses of it as a whole stops no other part."""
    try:
        return part.carry_out(state, lambda: ownership.hold(OWN_LASTS_S), allow_delete=allow_delete)
    except BrokerError as error:
        return {"": str(error)}


@contextmanager
def _kept(ownership: Ownership) -> Iterator[None]:
    """Keep the link ours meanwhile: thousands of topics take longer than a claim lasts."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEW_EVERY_S):
            with suppress(ConnectionLost, BrokerError, LinkTakenOver):  # the next guard raises it
                ownership.keep(OWN_LASTS_S)

    ownership.keep(OWN_LASTS_S)
    keeper = threading.Thread(target=renew, name="claim", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


# -- what became of it -----------------------------------------------------------------------------


def _left(before: PartLook, after: PartLook) -> dict[tuple[str, str], Change]:
    """Return which changes are still planned; of some that go on by themselves none is."""
    versions = {change.key: change.version for change in before.changes}
    return {
        change.key: change
        for change in after.changes
        if change.key in versions and versions[change.key] == change.version
    }


def _outcomes(
    before: PartLook,
    after: PartLook,
    failed: Mapping[str, str],
    how: HowToApply,
    *,
    waits: str,
    is_owned: bool,
) -> list[Outcome]:
    left = _left(before, after)
    rows: list[Outcome] = []
    for change in before.changes:
        if change.key not in left:
            rows.append(Outcome(change, Fate.DONE))
        elif change.is_deletion and not how.allow_delete:
            rows.append(Outcome(change, Fate.HELD_BACK, "it deletes: --allow-delete does it"))
        elif waits:
            rows.append(Outcome(change, Fate.WAITS, waits))
        else:
            text = failed.get(change.item) or failed.get(change.item.partition(": ")[0])
            unsaid = "the running link has not done it yet" if is_owned else "it is still so"
            rows.append(Outcome(change, Fate.FAILED, text or failed.get("") or unsaid))
    return rows
