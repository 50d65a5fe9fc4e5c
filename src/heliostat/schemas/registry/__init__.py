"""Requests to schema registries that answer like Confluent's.

`calls` has a function for each request: it gives a `Call`, which is the request as a value, and how
its answer is read. `HttpRegistry` sends it. A test may as well answer it by itself.
"""

from heliostat.schemas.registry import calls
from heliostat.schemas.registry.messages import Answer, Call, Request
from heliostat.schemas.registry.over_http import HttpRegistry, Timeouts
from heliostat.schemas.registry.retries import Retries

__all__ = ["Answer", "Call", "HttpRegistry", "Request", "Retries", "Timeouts", "calls"]
