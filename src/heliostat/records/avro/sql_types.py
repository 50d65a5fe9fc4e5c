"""Avro's types for types of Spark SQL, as a step names them."""

from __future__ import annotations

import re
from typing import Any

from heliostat.records.avro.schema_text import AvroUnusable

_TYPES: dict[str, Any] = {
    "boolean": "boolean",
    **dict.fromkeys(("tinyint", "byte", "smallint", "short", "int", "integer"), "int"),
    **dict.fromkeys(("bigint", "long"), "long"),
    **dict.fromkeys(("float", "real"), "float"),
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def avro_of_sql(text: str) -> Any:
    """Return the type that holds values of a type of Spark.

    Raises
    ------
    AvroUnusable
        It is none of those that have one.
    """
    name = text.strip().lower()
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    if name not in _TYPES:
        raise AvroUnusable(f"{text} is no type for a field: {', '.join(_TYPES)}, decimal(p, s)")
    return _TYPES[name]
