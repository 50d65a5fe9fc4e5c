"""Only the owner of a link changes anything, and a fenced one halts (I10)."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from heliostat.errors import ConnectionLost, LinkTakenOver
from heliostat.link.owner_guard import OWN_LASTS_S, OwnerGuard


def test_an_owner_acts_after_it_has_checked_its_claim() -> None:
    ownership, act = Mock(), Mock()
    OwnerGuard(ownership).guarded(act)()
    ownership.hold.assert_called_once_with(OWN_LASTS_S)
    act.assert_called_once_with()


@pytest.mark.parametrize("method", ["hold", "keep"])
def test_a_fenced_owner_halts_and_changes_nothing(method: str) -> None:
    ownership, act = Mock(), Mock()
    lost = LinkTakenOver("another's")
    getattr(ownership, method).side_effect = lost
    guard = OwnerGuard(ownership)
    with pytest.raises(LinkTakenOver):
        guard.run(act) if method == "hold" else guard.renew(5.0)
    act.assert_not_called()
    assert guard.failure is lost
    guard.halt(RuntimeError("later"))
    assert guard.failure is lost, "the first reason counts"


def test_a_target_that_does_not_answer_is_no_reason_to_halt() -> None:
    ownership, act = Mock(), Mock()
    ownership.hold.side_effect = ConnectionLost("away")
    guard = OwnerGuard(ownership)
    with pytest.raises(ConnectionLost):
        guard.run(act)
    act.assert_not_called()
    assert guard.failure is None


@pytest.mark.parametrize(("ahead_s", "lasts_s"), [(0.0, OWN_LASTS_S), (60.0, 60.0)])
def test_a_claim_is_renewed_for_as_long_as_rounds_need_it(ahead_s: float, lasts_s: float) -> None:
    ownership = Mock()
    OwnerGuard(ownership).renew(ahead_s)
    ownership.keep.assert_called_once_with(lasts_s)
