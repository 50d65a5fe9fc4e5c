"""Gaps, open decisions and dead letters, by API."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.gaps.dead_letters import DeadLetter
from heliostat.names import PartitionId, TopicName
from heliostat.operate.dead_letters import letters_of
from heliostat.operate.gaps import GapReport, gap_reports
from heliostat.serve.answers import LinkParameter
from heliostat.serve.cluster_messages import GapPage, LetterPage, WholeLetters
from heliostat.serve.pages import LIMIT, OFFSET_MAX, PARTITION_MAX, After, Limit, rows_page
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking

Topic = Annotated[str, Query(max_length=249, description="Only of this source topic.")]


def add_gaps(app: FastAPI, asking: Asking) -> None:
    """Answer what was lost, what waits for a decision, and what was put aside."""
    _add_lost(app, asking)
    _add_letters(app, asking)


def _add_lost(app: FastAPI, asking: Asking) -> None:
    config = asking.watch.config

    @app.get(
        "/api/v1/links/{link}/gaps",
        operation_id="list_gaps",
        response_model=GapPage,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def list_gaps(
        request: Request,
        link: LinkParameter,
        topic: Topic = "",
        after: After = "",
        limit: Limit = LIMIT,
    ) -> Response:
        """Return records that were lost, and what waits for a decision, as `heliostat gaps`."""
        name = asking.link(link).name

        def shown(reports: list[GapReport]) -> dict[str, Any]:
            (report,) = reports
            rows = sorted(report.rows, key=lambda row: (row.at_ms, row.key), reverse=True)
            rows = [row for row in rows if topic in {"", row.topic}]
            some, following = rows_page(rows, lambda row: row.key, after, limit)
            return {
                "policy": report.policy,
                "stopped": [item.to_json() for item in report.stopped],
                "total": len(rows),
                "items": [row.to_json() for row in some],
                "next": following,
            }

        return asking.answer(request, f"gaps {name}", partial(gap_reports, config, name), shown)


def _add_letters(app: FastAPI, asking: Asking) -> None:
    config = asking.watch.config

    @app.get(
        "/api/v1/links/{link}/dead-letters",
        operation_id="list_dead_letters",
        response_model=LetterPage,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def list_dead_letters(
        request: Request,
        link: LinkParameter,
        topic: Topic = "",
        after: After = "",
        limit: Limit = LIMIT,
    ) -> Response:
        """Return records that could not be copied, as `heliostat dlq list`."""
        link_config = asking.link(link)

        def shown(letters: list[DeadLetter]) -> dict[str, Any]:
            rows = [letter for letter in reversed(letters) if topic in {"", letter.source.topic}]
            some, following = rows_page(rows, lambda row: row.name, after, limit)
            items = [letter.described() for letter in some]
            return {"total": len(rows), "items": items, "next": following}

        ask = partial(letters_of, config, link_config)
        return asking.answer(request, f"letters {link}", ask, shown)

    @app.get(
        "/api/v1/links/{link}/dead-letters/{topic}/{partition}/{offset}",
        operation_id="get_dead_letter",
        response_model=WholeLetters,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_dead_letter(
        request: Request,
        link: LinkParameter,
        topic: Annotated[str, Path(max_length=249)],
        partition: Annotated[int, Path(ge=0, le=PARTITION_MAX)],
        offset: Annotated[int, Path(ge=0, le=OFFSET_MAX)],
    ) -> Response:
        """Return dead letters of one source offset, with their bytes, as `heliostat dlq show`."""
        link_config = asking.link(link)

        def shown(letters: list[DeadLetter]) -> dict[str, Any]:
            if not letters:
                place = f"{topic}/{partition}/{offset}"
                raise HTTPException(404, f"link {link} has no dead letter of {place}")
            return {"items": [letter.whole() for letter in letters]}

        ask = partial(
            letters_of, config, link_config, TopicName(topic), PartitionId(partition), offset
        )
        key = f"letter {link} {topic}/{partition}/{offset}"
        return asking.answer(request, key, ask, shown)
