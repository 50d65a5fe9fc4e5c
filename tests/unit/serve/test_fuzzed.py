"""All that the API's document allows, and what it doesn't, is answered as the document says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from support.schemathesis_fetched import schemathesis
from unit.serve.test_app import watch

from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.jobs import Jobs
from heliostat.serve.watch import Watch

__all__ = ["watch"]
EXAMPLES = 25
PHASES = (Phase.explicit, Phase.generate)
CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
MODES = ("positive", "negative")
KNOWN = {"link": "l", "topic": "t0", "group": "g", "what": "t0"}


def name_what_is_there(case: Any) -> None:
    """Put names in it that the watch knows: others are answered 404 before all else.

    Of what clusters are asked each is one question then, which need not be refused again.
    """
    for names in (case.path_parameters, case.query):
        for name in names or {}:
            if name in KNOWN:
                names[name] = KNOWN[name]


def parts_of(error: BaseException) -> str:
    """Return what is wrong: schemathesis puts its findings into a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(parts_of(part) for part in error.exceptions)
    return f"{type(error).__name__}: {error}"


@pytest.mark.thorough
def test_each_answer_is_one_that_the_document_names(watch: Watch, tmp_path: Path) -> None:
    """Given clusters that don't answer / when each operation is asked in many ways, also wrong

    ones / then each answer has a status, type and shape that the document has; none is our fault.
    """
    fuzz = schemathesis()
    child = tmp_path / "child.py"
    child.write_text("")
    app = make_app(watch, Jobs(watch, program=(sys.executable, "-I", str(child))))
    app.state.is_ending = lambda: True  # streams end at once
    schema = fuzz.openapi.from_asgi("/openapi.json", Guard(app, hosts=None, tokens=None))
    checks = [getattr(fuzz.checks, name) for name in CHECKS]
    wrong: list[str] = []
    asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in MODES:
            strategy = operation.as_strategy(generation_mode=fuzz.GenerationMode(mode))

            @seed(35)
            @settings(
                max_examples=EXAMPLES,
                phases=PHASES,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                if asked % 4:
                    name_what_is_there(case)
                response = case.call()
                assert response.status_code != 500, case.as_curl_command()
                case.validate_response(response, checks=checks)

            try:
                ask()
            except Unsatisfiable:
                continue  # without parameters nothing can be wrong
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # all are told
                wrong.append(f"{operation.label} {mode}: {parts_of(error)}")
    assert wrong == [], "\n\n".join(wrong)
    assert asked > EXAMPLES * len(MODES)
