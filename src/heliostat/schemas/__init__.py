"""Schemas of the source's registry at the target's."""

from heliostat.schemas.registry import HttpRegistry, Retries, Timeouts, calls

__all__ = ["HttpRegistry", "Retries", "Timeouts", "calls"]
