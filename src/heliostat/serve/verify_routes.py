"""Verify as a job, by API: begun, followed, cancelled; a process of its own does the work."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, cast

from fastapi import Body, FastAPI, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.serve.admin_verbs import IdempotencyKey
from heliostat.serve.answers import LinkParameter
from heliostat.serve.guard import caller_of
from heliostat.serve.job_messages import Job, JobPage, VerifyOptions, standing_json
from heliostat.serve.jobs import RUNNING_MAX, Jobs, LinkIsBusy, TooManyJobs
from heliostat.serve.problems import documented, problem
from heliostat.serve.questions import Asking
from heliostat.serve.verify_job import VerifyJob
from heliostat.wishes.job import JobStanding, JobState

AGAIN_S = "1"
JobParameter = Annotated[str, Path(description="Id of the job.", max_length=64)]
_LOCATION = {
    "Location": {"description": "Where it is followed.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds.", "schema": {"type": "string"}},
}


def add_verify(app: FastAPI, asking: Asking, jobs: Jobs) -> None:
    """Answer what is asked of jobs."""

    @app.post(
        "/api/v1/links/{link}/verify",
        operation_id="begin_verify",
        response_model=Job,
        status_code=202,
        responses={202: {"headers": _LOCATION}, **documented(403, 404, 409, 413, 415, 429, 503)},
    )
    def begin_verify(
        request: Request,
        link: LinkParameter,
        options: Annotated[VerifyOptions | None, Body()] = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Begin to compare a link's two sides by content, as `heliostat verify`.

        A process of its own does it, on Spark, one at a time for a link. The body is a JSON object
        with any of `topics`, `from`, `until`, `complete` and `decode_all`, or empty. It is noted at
        the link's target before it begins: what was cut short is seen, and not repeated.
        """
        name = LinkName(asking.link(link).name)
        wanted, key = options or VerifyOptions(), idempotency_key or ""
        given, by = wanted.model_dump(by_alias=True), caller_of(request)
        try:
            job = jobs.verify(name, given, wanted.words(), by=by, key=key)
        except LinkIsBusy as busy:
            return problem(
                409,
                f"link {name} is being compared already, by job {busy.job.id}",
                code="verify_running",
                hint=f"wait for {_place(busy.job.id)}, or cancel it",
                headers={"Location": _place(busy.job.id)},
            )
        except TooManyJobs:
            text = f"{RUNNING_MAX} jobs run already"
            raise HTTPException(429, text, headers={"Retry-After": "10"}) from None
        asking.questions.forget(f"jobs {name}")
        row = job.to_json() if isinstance(job, VerifyJob) else standing_json(name, job)
        return JSONResponse(row, 202, {"Location": _place(row["id"]), "Retry-After": AGAIN_S})

    @app.get(
        "/api/v1/jobs", operation_id="list_jobs", response_model=JobPage, responses=documented(404)
    )
    def list_jobs(link: Annotated[str | None, Query(max_length=100)] = None) -> Any:
        """Return jobs, the newest first: of a link, or all of this service since it was started."""
        name = None if link is None else LinkName(asking.link(link).name)
        items, error = [job.to_json() for job in jobs.of(name)], None
        if name is not None:
            try:
                noted = asking.questions.get(f"jobs {name}", partial(jobs.noted, name)).value
            except HeliostatError as failure:
                noted, error = [], failure.text
            except HTTPException as failure:
                noted, error = [], str(failure.detail)
            own = {item["id"] for item in items}
            items += [
                standing_json(name, standing)
                for standing in noted
                if standing.job.job_id not in own
            ]
            items.sort(key=lambda item: item["started_ms"], reverse=True)
        return JSONResponse({"items": items, "error": error})

    _add_job(app, asking, jobs)


def _add_job(app: FastAPI, asking: Asking, jobs: Jobs) -> None:
    def noted(job_id: str) -> tuple[LinkName, JobStanding]:
        job = asking.questions.get(f"job {job_id}", partial(jobs.find_noted, job_id)).value
        if job is None:
            raise HTTPException(404, f"there is no job {job_id[:64]}; the last 20 are kept")
        return cast("tuple[LinkName, JobStanding]", job)

    @app.get(
        "/api/v1/jobs/{job}",
        operation_id="get_job",
        response_model=Job,
        responses=documented(404, 429, 503),
    )
    def get_job(job: JobParameter) -> Response:
        """Return how far a job is, and its result once it has ended."""
        own = jobs.get(job)
        return JSONResponse(standing_json(*noted(job)) if own is None else own.to_json())

    @app.delete(
        "/api/v1/jobs/{job}",
        operation_id="cancel_job",
        response_model=Job,
        responses=documented(403, 404, 409, 429, 503),
    )
    def cancel_job(request: Request, job: JobParameter) -> Response:
        """Cancel a job of this service; one that has ended stays as it is."""
        own = jobs.get(job)
        if own is not None:
            own.cancel(caller_of(request))
            return JSONResponse(own.to_json())
        link, standing = noted(job)
        if standing.state is JobState.RUNNING:
            host = standing.job.host
            raise HTTPException(409, f"job {job} is another service's, at {host}: cancel it there")
        return JSONResponse(standing_json(link, standing))


def _place(job_id: str) -> str:
    return f"/api/v1/jobs/{job_id}"
