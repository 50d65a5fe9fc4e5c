"""What would be lost, and read again: the same function as `heliostat exposure`, by API."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from heliostat.names import LinkName
from heliostat.operate.exposure import LinkExposure, exposure_of_link
from heliostat.operate.status import LinkPicture
from heliostat.serve.answers import LinkParameter, status_of
from heliostat.serve.exposure_messages import ExposureAnswer
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking
from heliostat.serve.watch import Watch


def exposed(watch: Watch, link: str, topics: tuple[str, ...]) -> LinkExposure:
    """Return it by what the service has seen, and groups as clusters tell them."""
    picture = LinkPicture(status_of(watch, link), tuple(watch.partitions(LinkName(link))))
    return exposure_of_link(watch.config, link, picture, topics)


def add_exposure(app: FastAPI, asking: Asking) -> None:
    """Answer what would be lost now."""

    @app.get(
        "/api/v1/links/{link}/exposure",
        operation_id="get_exposure",
        response_model=ExposureAnswer,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_exposure(
        *,
        request: Request,
        link: LinkParameter,
        topic: Annotated[
            list[str], Query(description="Names at either side; * is a wildcard.", max_length=20)
        ] = [],  # noqa: B006  # FastAPI copies it
        partitions: Annotated[bool, Query(description="With each partition.")] = False,
    ) -> Response:
        """Return what would be lost if the source were gone now, as `heliostat exposure`."""
        name = asking.link(link).name
        topics = tuple(topic)

        def shown(exposure: LinkExposure) -> dict[str, Any]:
            answer = exposure.to_json()
            return answer if partitions else {**answer, "partitions": []}

        ask = partial(exposed, asking.watch, name, topics)
        return asking.answer(request, f"exposure {name} {topics}", ask, shown)
