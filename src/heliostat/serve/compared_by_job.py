"""Contents compared for a switch of the service: by a job, which has a process and Spark."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heliostat.errors import Refused
from heliostat.handover.desk import Answer
from heliostat.names import LinkName, Offset, TopicName, TopicPartition
from heliostat.serve.job_messages import VerifyOptions
from heliostat.serve.jobs import Jobs, LinkIsBusy, TooManyJobs
from heliostat.serve.verify_job import VerifyJob
from heliostat.wishes.job import JobState

LOOK_S = 0.25
_HINT = "then go on with the run, or go back"


class ComparedByJob:
    """Compares contents of a link by a job of the service, which its list of jobs shows, too."""

    def __init__(self, jobs: Jobs, link: LinkName, by: str) -> None:
        self._jobs = jobs
        self._link = link
        self._by = by

    def __call__(
        self,
        topics: Sequence[TopicName],
        starts: Mapping[TopicPartition, Offset],
        is_complete: bool,  # as `Compare` has it
    ) -> Answer:
        """Compare these topics from there on.

        Raises
        ------
        Refused
            Another job compares the link, too many run, or this one has failed or was cancelled.
        """
        with tempfile.TemporaryDirectory(prefix="heliostat-switch-") as folder:
            file = Path(folder) / "rest.json"
            rows = [(place.topic, place.partition, start) for place, start in starts.items()]
            rest = {"topics": list(topics), "starts": rows}  # too many for words of a command
            file.write_text(json.dumps(rest), encoding="utf-8")
            options = VerifyOptions(complete=is_complete)
            job = self._begun(options, [f"--rest-of={file}", *options.words()])
            while not job.wait(LOOK_S):
                pass
        if job.state is not JobState.DONE or job.result is None:
            why = "it was cancelled" if job.problem is None else job.problem["detail"]
            raise Refused(f"contents could not be compared: {why}", hint=f"solve it, {_HINT}")
        return _answer(job.result)

    def _begun(self, options: VerifyOptions, words: Sequence[str]) -> VerifyJob:
        try:
            given = options.model_dump(by_alias=True)
            job = self._jobs.verify(self._link, given, words, by=self._by, key="")
        except LinkIsBusy as busy:
            text = f"link {self._link} is being compared already, by job {busy.job.id}"
            raise Refused(text, hint=f"let it end or cancel it, {_HINT}") from busy
        except TooManyJobs as many:
            text = "as many links are being compared as may be at once"
            raise Refused(text, hint=f"let one end, {_HINT}") from many
        assert isinstance(job, VerifyJob), "it is begun under no key"
        return job


def _answer(result: Mapping[str, Any]) -> Answer:
    """Return what a report says; of a difference, where the first one is and what is left out."""
    text = str(result["summary"])
    if result["clean"]:
        return Answer(text)
    first = result["first_difference"]
    lines = [] if first is None else [f"the first difference: {json.dumps(first)}"]
    lines += [f"not compared: {json.dumps(row)}" for row in result["not_compared"]]
    lines += [f"the link refuses {name}: {why}" for name, why in result["refused"].items()]
    return Answer(text, {}, tuple(lines) or (text,))
