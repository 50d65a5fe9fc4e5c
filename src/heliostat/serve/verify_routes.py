"""Verify as a job, by API: begun, followed, cancelled; a process of its own does the work."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Query
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.names import LinkName
from heliostat.serve.answers import LinkParameter
from heliostat.serve.job_messages import Job, JobPage, VerifyOptions
from heliostat.serve.jobs import RUNNING_MAX, Jobs, LinkIsBusy, TooManyJobs
from heliostat.serve.problems import documented, problem
from heliostat.serve.questions import Asking
from heliostat.serve.verify_job import VerifyJob

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
        responses={202: {"headers": _LOCATION}, **documented(403, 404, 409, 413, 415, 429)},
    )
    def begin_verify(
        link: LinkParameter, options: Annotated[VerifyOptions | None, Body()] = None
    ) -> Response:
        """Begin to compare a link's two sides by content, as `heliostat verify`.

        A process of its own does it, on Spark, one at a time for a link. The body is a JSON object
        with any of `topics`, `from`, `until`, `complete` and `decode_all`, or empty.
        """
        name = LinkName(asking.link(link).name)
        wanted = options or VerifyOptions()
        try:
            job = jobs.verify(name, wanted.model_dump(by_alias=True), wanted.words())
        except LinkIsBusy as busy:
            return problem(
                409,
                f"link {name} is being compared already, by job {busy.job.id}",
                code="verify_running",
                hint=f"wait for {_place(busy.job)}, or cancel it",
                headers={"Location": _place(busy.job)},
            )
        except TooManyJobs:
            text = f"{RUNNING_MAX} jobs run already"
            raise HTTPException(429, text, headers={"Retry-After": "10"}) from None
        return JSONResponse(job.to_json(), 202, {"Location": _place(job), "Retry-After": AGAIN_S})

    @app.get(
        "/api/v1/jobs", operation_id="list_jobs", response_model=JobPage, responses=documented(404)
    )
    def list_jobs(link: Annotated[str | None, Query(max_length=100)] = None) -> Any:
        """Return jobs since the service was started, the newest first."""
        name = None if link is None else LinkName(asking.link(link).name)
        return JSONResponse({"items": [job.to_json() for job in jobs.of(name)]})

    @app.get(
        "/api/v1/jobs/{job}", operation_id="get_job", response_model=Job, responses=documented(404)
    )
    def get_job(job: JobParameter) -> Response:
        """Return how far a job is, and its result once it has ended."""
        return JSONResponse(_known(jobs, job).to_json())

    @app.delete(
        "/api/v1/jobs/{job}",
        operation_id="cancel_job",
        response_model=Job,
        responses=documented(403, 404),
    )
    def cancel_job(job: JobParameter) -> Response:
        """Cancel a job; one that has ended stays as it is."""
        found = _known(jobs, job)
        found.cancel()
        return JSONResponse(found.to_json())


def _place(job: VerifyJob) -> str:
    return f"/api/v1/jobs/{job.id}"


def _known(jobs: Jobs, job_id: str) -> VerifyJob:
    found = jobs.get(job_id)
    if found is None:
        raise HTTPException(404, f"there is no job {job_id[:64]}; the last 20 are kept")
    return found
