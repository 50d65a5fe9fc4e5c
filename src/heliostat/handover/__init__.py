"""Mirrors given away: on the day the source is gone, or as planned (docs/adr/0046)."""
