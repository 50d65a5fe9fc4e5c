"""Values of an Arrow column that are framed Avro records, looked at one by one.

A frame is a byte 0 and the id of a schema (int32, big endian) before the payload: Confluent's wire
format (class `AbstractKafkaSchemaSerDe`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from heliostat.errors import TransformFailed
from heliostat.framed_ids import FRAME_BYTES, framed_id


class Framed:
    """The values of a column.

    Parameters
    ----------
    values
        Arrow's array of bytes.
    """

    def __init__(self, values: Any) -> None:
        values = values.cast(pa.binary())  # a session may have Spark take large ones
        self.count = len(values)
        self._is_null = values.is_null().to_numpy(zero_copy_only=False)
        _, offsets, data = values.buffers()
        all_bounds = np.frombuffer(offsets or b"", np.int32)
        self._bounds = all_bounds[values.offset : values.offset + self.count + 1].tolist()
        self.data: Any = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        """All bytes, as the compiled walk takes them."""
        self.bytes = memoryview(data or b"")

    def payloads(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (row, id, begin, end of the payload) of the rows that have a value.

        Raises
        ------
        TransformFailed
            A value has no frame.
        """
        bounds, view = self._bounds, self.bytes
        for row in np.flatnonzero(~self._is_null).tolist():
            begin, end = bounds[row], bounds[row + 1]
            if end - begin < FRAME_BYTES or view[begin]:
                begins = bytes(view[begin : min(end, begin + FRAME_BYTES)]).hex()
                raise TransformFailed(f"it does not begin with a schema id, but with 0x{begins}")
            number = int.from_bytes(view[begin + 1 : begin + FRAME_BYTES], "big")
            yield row, number, begin + FRAME_BYTES, end


def ids_in(values: Any) -> set[int]:
    """Return the schema ids of the values of an Arrow column (chunked) that have a frame."""
    ids = (framed_id(content) for content in values.to_pylist())
    return {schema_id for schema_id in ids if schema_id is not None}
