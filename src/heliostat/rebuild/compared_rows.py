"""How rows of both sides are compared, where a link puts other schema ids into records."""

from __future__ import annotations

from heliostat.config import LinkConfig
from heliostat.framed_ids import without_id
from heliostat.verify.schema_ids import RowView
from heliostat.verify.stream_values import ConsumedRecord


def view_of(link: LinkConfig) -> RowView | None:
    """Return how a link's rows are compared; None: as they are.

    Without ids rows tell as well whose they are, and no registry has to answer.
    """
    return _without_ids if link.schemas.strategy == "rewrite" else None


def _without_ids(row: ConsumedRecord) -> ConsumedRecord:
    offset, timestamp, key, value, headers = row
    return offset, timestamp, without_id(key), without_id(value), headers
