"""Who asks, and what they may: so that a page offers no more."""

from __future__ import annotations

from typing import Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel

from heliostat.serve.guard import CALLER, ROLE
from heliostat.serve.tokens import Role


class CallerRights(BaseModel):
    """Who asks, and what they may."""

    name: str
    """Of the token; empty: the service asks for none."""
    role: Literal["view", "operate", "admin"]
    may_change: bool
    """Whether what changes something is carried out for them."""


def add_caller(app: FastAPI) -> None:
    """Answer what the token of a request allows."""

    @app.get("/api/v1/caller", operation_id="get_caller", response_model=CallerRights)
    async def get_caller(request: Request) -> CallerRights:
        """Return who asks, and what they may."""
        role = request.scope.get(ROLE, Role.ADMIN)
        return CallerRights.model_validate(
            {
                "name": request.scope.get(CALLER, ""),
                "role": role.name.lower(),
                "may_change": role >= Role.OPERATE,
            }
        )
