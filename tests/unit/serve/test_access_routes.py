"""Rights by API: what is shown, and that only what was shown is confirmed."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from support.access_world import World, acl
from unit.serve.test_app import HOST, watch

from heliostat.names import LinkName
from heliostat.operate.access import LinkAccess
from heliostat.serve import access_routes
from heliostat.serve.access_routes import AccessAnswer, LinkRights
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.watch import Watch

__all__ = ["watch"]
PATH = "/api/v1/links/l/access"


def test_what_asks_is_shown_and_confirmed_once_the_name_is_typed(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked = World(), list[dict[str, Any]]()
    world.source.acls = {acl(user=f"u{n}") for n in range(10)}
    world.turn()
    world.source.acls = {acl()}
    plan = world.look()

    def link_access(_: object, name: str, **words: Any) -> list[LinkAccess]:
        asked.append(words)
        is_confirmed = bool(words.get("allow_delete_by"))
        return [LinkAccess(LinkName(name), True, plan, is_confirmed)]

    monkeypatch.setattr(access_routes, "link_access", link_access)
    client = TestClient(
        Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}"
    )
    shown = AccessAnswer.model_validate(client.get(PATH).json())
    assert shown.asks.endswith("would go at once")
    assert len(shown.remove) == 10
    assert shown.confirmation == plan.confirmation
    body = {"removals": shown.confirmation}
    assert client.post(f"{PATH}/confirm?dry_run=true", json=body).status_code == 200
    refused = client.post(f"{PATH}/confirm", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "confirm")
    done = client.post(f"{PATH}/confirm", json={**body, "confirm": "l"})
    assert LinkRights.model_validate(done.json()).is_confirmed
    assert [each.get("allow_delete_by") for each in asked] == [None, "", "api"]
    assert asked[-1]["shown"] == plan.confirmation
