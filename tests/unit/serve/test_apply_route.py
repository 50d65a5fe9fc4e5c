"""`apply` by API: what is asked of it, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.changes import Change, Fate, Outcome
from heliostat.config import LinkConfig
from heliostat.names import LinkName
from heliostat.operate.apply import ApplyAnswer, HowToApply
from heliostat.serve import apply_routes
from heliostat.serve.app import make_app
from heliostat.serve.apply_routes import ApplyOutcome
from heliostat.serve.guard import ROLE, Guard
from heliostat.serve.tokens import Role
from heliostat.serve.watch import Watch

__all__ = ["watch"]
UNSET = Change("unset_config", "t: x", "unset x of t", "the source no longer sets it", True)


@pytest.mark.parametrize(
    ("fate", "query", "code", "how"),
    [
        (Fate.DONE, "?allow_delete=true", 200, HowToApply("api", "w", 5.0, False, True, "k")),
        (Fate.HELD_BACK, "?wait_s=2", 202, HowToApply("api", "w", 2.0, False, False)),
        (Fate.PLANNED, "?dry_run=true", 200, HowToApply("api", "w", 5.0, True, False)),
    ],
)
def test_what_became_of_it(
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    fate: Fate,
    query: str,
    *,
    code: int,
    how: HowToApply,
) -> None:
    asked: list[tuple[str, HowToApply]] = []

    def applied(_: object, link: LinkConfig, how: HowToApply) -> ApplyAnswer:
        asked.append((link.name, how))
        return ApplyAnswer(LinkName(link.name), by_owner=True, outcomes=(Outcome(UNSET, fate),))

    monkeypatch.setattr(apply_routes, "apply_link", applied)
    app = Guard(make_app(watch), hosts=[HOST], tokens=None)
    client = TestClient(app, base_url=f"http://{HOST}")
    headers = {"Idempotency-Key": how.key} if how.key else {}
    body = {"why": "w", "confirm": "l"}
    answer = client.post(f"/api/v1/links/l/apply{query}", json=body, headers=headers)
    assert (answer.status_code, asked) == (code, [("l", how)])
    told: dict[str, Any] = answer.json()
    assert ApplyOutcome(**told).changes[0].fate == fate.value


def test_a_token_of_less_than_admin_may_only_try(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ApplyAnswer(LinkName("l"), by_owner=False, is_tried=True)
    monkeypatch.setattr(apply_routes, "apply_link", lambda *_: answer)
    app = make_app(watch)

    async def as_operator(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, ROLE: Role.OPERATE}, receive, send)

    client = TestClient(as_operator, base_url=f"http://{HOST}")
    assert client.post("/api/v1/links/l/apply").status_code == 403
    assert client.post("/api/v1/links/l/apply?dry_run=true").status_code == 200


def test_the_links_name_is_typed_before_anything_is_done(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_routes, "apply_link", lambda *_: pytest.fail("it was done"))
    client = TestClient(
        Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}"
    )
    refused = client.post("/api/v1/links/l/apply", json={"confirm": "k"})
    assert (refused.status_code, refused.json()["field"]) == (422, "confirm")
