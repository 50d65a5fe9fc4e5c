"""Python functions on Arrow columns, as functions of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import Column


def on_columns(function: Callable[..., pa.Array], ddl: str) -> Callable[..., Column]:
    """Return a function on Arrow columns as one of Spark; its annotations say that it is one.

    Its module must import PyArrow: Spark reads the annotations.
    """
    from pyspark.sql.pandas.functions import arrow_udf

    udf: Any = arrow_udf  # its stubs want a type of function, which it warns of when it is given
    found: Callable[..., Column] = udf(function, ddl)
    return found
