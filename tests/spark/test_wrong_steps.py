"""Every wrong thing that a step can do: the same sentence, at the same record, whoever is asked.

One Spark session, no brokers: what a link's copier sees of its rows is what `RowExchange` says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from support.records import Sample, encode

from heliostat.errors import PipelineRefused, TransformFailed
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.verified_pipelines import PipesOfLink
from heliostat.ops.spark_session import essence
from heliostat.records.copier.blame import Blame, RowsFailed, blame_of
from heliostat.records.copier.lane import PartitionSpec, Suspect
from heliostat.records.copier.network import Fetched, Want
from heliostat.records.copier.pipeline_steps import (
    CallFunction,
    JsonFields,
    Pipeline,
    SetColumns,
    Step,
    Where,
)
from heliostat.records.rows import wrong_rows
from heliostat.records.rows.layout import marks
from heliostat.records.rows.row_times import WHY_NOT_TAKEN
from heliostat.records.rows.to_rows import Chunk, rows_of
from heliostat.records.spark.frames import refused, session_of_rows, with_steps
from heliostat.records.spark.row_failures import blame_by_classes
from heliostat.records.spark.trial import maker_in, tried
from heliostat.records.transport.row_exchange import RowExchange
from heliostat.records.transport.row_pipe import RowPipe

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers can't import a test

P = TopicPartition(TopicName("orders"), PartitionId(3))
VALUES = [b'{"id":1}', b'{"id":"x', b'{"id":3}']
BAD = 1
"""The record with which a step goes wrong."""


def _each_row(frame: DataFrame, change: Any) -> DataFrame:
    def changed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [new for row in batch.to_pylist() for new in change(row)]
            yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)

    return frame.mapInArrow(changed, frame.schema)


def _is_bad(row: dict[str, Any]) -> bool:
    return bool(row["partition"] == P.partition and row["offset"] == BAD)


def _at_bad(name: str, content: Any) -> Any:
    return lambda row: [{**row, name: content} if _is_bad(row) else row]


def doubled(frame: DataFrame) -> DataFrame:
    return _each_row(frame, lambda row: [row, row] if _is_bad(row) else [row])


def other_offset(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("offset", 99))


def no_offset(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("offset", None))


def other_partition(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("partition", 7))


def no_partition(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("partition", None))


def late(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("timestamp", datetime(1969, 1, 1, tzinfo=UTC)))


def no_time(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("timestamp", None))


def no_headers(frame: DataFrame) -> DataFrame:
    return _each_row(frame, _at_bad("headers", None))


def raising(frame: DataFrame) -> DataFrame:
    return _each_row(frame, lambda row: [row] if not _is_bad(row) else row["nothing"])


def exploding(frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import array, col, explode, lit, when

    copies = when(col("offset") == BAD, array(lit(1), lit(2))).otherwise(array(lit(1)))
    return frame.withColumn("copy", explode(copies)).drop("copy")


def sorted_in_parts(frame: DataFrame) -> DataFrame:
    return frame.sortWithinPartitions("value")


def moved(frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import col

    return frame.withColumn("offset", col("offset") + 1)


def elsewhere(frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import lit

    return frame.withColumn("partition", lit(7))


class Wrong(NamedTuple):
    """What a step does, and the words for it."""

    step: Step
    why: str
    is_refused: bool = False


def function(found: Any) -> CallFunction:
    return CallFunction(f"{__name__}:{found.__name__}")


WRONG = {
    "multiplies": Wrong(function(doubled), wrong_rows.OUT_OF_ORDER),
    "multiplies in SQL": Wrong(function(exploding), wrong_rows.OUT_OF_ORDER),
    "another offset": Wrong(function(other_offset), wrong_rows.UNKNOWN_OFFSET),
    "no offset": Wrong(function(no_offset), wrong_rows.NO_PLACE),
    "another partition": Wrong(function(other_partition), wrong_rows.OTHER_PARTITION),
    "no partition": Wrong(function(no_partition), wrong_rows.NO_PLACE),
    "before 1970": Wrong(function(late), WHY_NOT_TAKEN),
    "no time": Wrong(function(no_time), wrong_rows.NO_TIMESTAMP),
    "no headers": Wrong(function(no_headers), wrong_rows.NO_HEADERS),
    "raises": Wrong(function(raising), "KeyError"),
    "malformed JSON": Wrong(JsonFields("value", schema="id bigint"), "no JSON object"),
    "a regex in a record": Wrong(
        SetColumns(
            (("value", f"if(offset = {BAD} AND value RLIKE decode(value, 'UTF-8'), key, value)"),)
        ),
        "PatternSyntaxException",
    ),
    "a cast": Wrong(Where(f"cast(if(offset = {BAD}, 'x', '1') AS int) = 1"), "CAST_INVALID_INPUT"),
    "unix_millis": Wrong(
        SetColumns((("timestamp", "unix_millis(timestamp)"),)), "timestamp_millis", True
    ),
    "sorts": Wrong(function(sorted_in_parts), "Sort", True),
    "moves": Wrong(function(moved), "it changes the column offset", True),
    "elsewhere": Wrong(function(elsewhere), "it changes the column partition", True),
}

TEXT = "decode(value, 'UTF-8')"


def refused_where(condition: str, why: str) -> Wrong:
    return Wrong(Where(condition), why, True)


WRONG |= {
    "a regex": refused_where(f"{TEXT} RLIKE '['", "PARAMETER_VALUE.PATTERN"),
    "a regex of headers": refused_where(
        "exists(headers, h -> decode(h.value, 'UTF-8') RLIKE '(')", "PARAMETER_VALUE.PATTERN"
    ),
    "a regex of replace": Wrong(
        SetColumns((("value", f"encode(regexp_replace({TEXT}, '(', ''), 'UTF-8')"),)),
        "PARAMETER_VALUE.PATTERN",
        True,
    ),
    "a group of a regex": refused_where(
        f"regexp_extract({TEXT}, '(.*)', 2) = 'a'", "has no group 2"
    ),
    "a regex of split": refused_where(f"split({TEXT}, '(')[0] = 'a'", "Unclosed group"),
    "LIKE": refused_where(f"{TEXT} LIKE 'a\\\\'", "ESC_AT_THE_END"),
    "a format of times": Wrong(
        SetColumns((("timestamp", f"to_timestamp({TEXT}, 'yyyy-MM-ddTHH')"),)),
        "INVALID_DATETIME_PATTERN",
        True,
    ),
    "a format of dates": refused_where("date_format(timestamp, 'bbb') = ''", "DATETIME_PATTERN"),
    "a format of texts": refused_where("format_string('%q', topic) = ''", "Conversion = 'q'"),
    "a format of numbers": refused_where("format_number(offset, '#.#.#') = ''", "decimal sep"),
    "a path of JSON": refused_where(f"get_json_object({TEXT}, 'a[') = ''", "no path into JSON"),
    "a group to extract": refused_where(f"regexp_extract({TEXT}, 'a', 5) = ''", "has no group 5"),
    "a group to put": refused_where(f"regexp_replace({TEXT}, 'a', '$5') = ''", "has no group 5"),
    "a path of XML": refused_where(f"xpath_string({TEXT}, 'a[') = ''", "no path into XML"),
    "an option of CSV": refused_where(
        f"from_csv({TEXT}, 'a int', map('quote', 'ab')).a = 1", "OPTION_VALUE_EXCEEDS"
    ),
    "a path of variants": refused_where(
        f"variant_get(parse_json({TEXT}), 'a[', 'int') = 1", "VARIANT_GET_PATH"
    ),
    "a schema of JSON": Wrong(JsonFields("value", schema="id bigintt"), "PARSE_SYNTAX", True),
    "a charset": refused_where("decode(value, 'UTF-99') = ''", "CHARSET"),
    "a time zone": refused_where(
        "from_utc_timestamp(timestamp, 'Nowhere') > timestamp", "INVALID_TIMEZONE"
    ),
    "a text of several": refused_where(f"elt(3, {TEXT}, 'b') = ''", "no element 3, of 2"),
    "an element of several": refused_where(f"array({TEXT}, 'b')[5] = ''", "no element 5, of 2"),
    "one of them by its place": refused_where(
        f"element_at(array({TEXT}, 'b'), -3) = ''", "no element -3, of 2"
    ),
    "a place in an array": refused_where("element_at(headers, 0).key = ''", "INDEX_OF_ZERO"),
    "a place in a text": refused_where(f"split_part({TEXT}, ',', 0) = ''", "INDEX_OF_ZERO"),
    "a secret key": refused_where("aes_decrypt(value, 'short', 'ECB') = key", "AES_KEY_LENGTH"),
    "by zero": refused_where("offset % 0 = 1", "BY_ZERO"),
}
OF_RECORDS = (
    "100 / offset > 1",
    "from_utc_timestamp(timestamp '2026-01-01', topic) > timestamp",
    "decode(value, topic) = ''",
    "regexp_replace(topic, topic, 'x') = ''",
    "aes_decrypt(value, key, 'ECB') = value",
    "element_at(headers, cast(offset AS int)).key = ''",
    f"elt(2, {TEXT}, 'b') = array({TEXT}, 'b')[1]",
    f"element_at(array({TEXT}, 'b'), -2) = element_at(array({TEXT}, 'b'), cast(offset AS int))",
    "size(slice(headers, cast(offset AS int), 1)) = 1",
    "date_format(timestamp '2026-01-01', topic) = ''",
    "format_string(topic, offset) = ''",
    "format_string('%s %d', topic, offset) = ''",
    f"get_json_object({TEXT}, '$.a[0].b') = get_json_object({TEXT}, topic)",
    f"variant_get(try_parse_json({TEXT}), '$.a', 'int') = 1",
    f"{TEXT} RLIKE '^a(b)?$' AND to_timestamp({TEXT}, 'yyyy-MM-dd HH:mm') > timestamp",
    f"split({TEXT}, ',')[0] = 'a' AND xpath_string({TEXT}, 'a/b') = 'c'",
    "assert_true(length(value) > 1000) IS NULL",
)
"""Which fail at some records, or at none."""


def chunk() -> Chunk:
    return Chunk(0, P, encode([Sample(b"k", value, 5, (("h", b""),)) for value in VALUES]))


def plan_says(session: SparkSession, pipeline: Pipeline) -> str:
    """As a link does before it begins."""
    return refused(session, [pipeline]).get(pipeline.name, "")


def try_says(session: SparkSession, pipeline: Pipeline) -> dict[int, str]:
    found = list(tried(session, pipeline, pa.Table.from_batches([rows_of(chunk())])))
    assert [each.before["offset"] for each in found] == [0, 1, 2]
    assert all(each.after is not None for each in found if not each.error)
    return {each.before["offset"]: each.error for each in found if each.error}


def verify_says(session: SparkSession, pipeline: Pipeline) -> dict[int, str]:
    pipes = PipesOfLink(
        frozenset({P.topic}),
        {P.topic: "p"},
        maker_in(session.sparkContext),
        lambda _, __: pipeline,
    )
    rows = [(offset, 5, b"k", value, [("h", b"")]) for offset, value in enumerate(VALUES)]
    made = pipes.of(P)(cast("Any", rows), is_log_append_time=False)
    failed: dict[int, str] = dict(cast("dict[int, str]", pipes.failed[P]))
    assert sorted([*(row[0] for row in made), *failed]) == [0, 1, 2]
    return failed


class Pipe:
    """Leads rows and marks through Spark, in this process."""

    def __init__(self, session: SparkSession, pipeline: Pipeline) -> None:
        self._session, self._pipeline = session, pipeline
        self._sent: list[Chunk] = []

    def send(self, chunk: Chunk) -> None:
        self._sent.append(chunk)

    def came(self) -> Iterator[pa.RecordBatch]:
        while self._sent:
            one = self._sent.pop(0)
            rows = pa.Table.from_batches([rows_of(one), marks(one.number, 3)])
            frame = self._session.createDataFrame(rows).coalesce(1)
            try:
                made = with_steps(frame, self._pipeline).frame.toArrow()
            except Exception as error:
                raise RowsFailed(str(error), blame_by_classes(error)) from error
            yield from made.combine_chunks().to_batches()


def link_says(session: SparkSession, pipeline: Pipeline) -> dict[int, str]:
    """As rounds go on until one names a record, see `PipelineFaults`."""
    changed = with_steps(
        session.createDataFrame(pa.Table.from_batches([rows_of(chunk())])), pipeline
    ).changed
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    for careful in (0, 64, 1):
        pipe = cast("RowPipe", Pipe(session, pipeline))
        exchange = RowExchange(
            [spec], pipe, changed=changed, careful=careful, monotonic_s=lambda: 0.0
        )
        suspects: list[Suspect | None] = []
        exchange.suspect = suspects.append
        data = bytearray(chunk().data)
        exchange.put(Fetched(Want(0, 1, 0, 1 << 20), 0, len(VALUES), data, 0, len(data)))
        try:
            while not (found := exchange.take()):
                pass
        except (RowsFailed, TransformFailed) as error:
            if careful == 1:
                assert blame_of(error) is Blame.RECORD  # noqa: PT017 - some rounds raise
                assert suspects[-1] is not None
                return {suspects[-1].first: essence(str(error))}
            continue
        stop = found[0].stop
        return {} if stop is None else {stop.offset: stop.text}
    raise AssertionError("no record was found")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_step_is_told_alike_with_its_record(spark: SparkSession, wrong: Wrong) -> None:
    """Given a step that goes wrong at one record, or that can't be run / when it is tried, planned,

    run and verified / then each says the same of the same record, and the others come out.
    """
    session = session_of_rows(spark)
    pipeline = Pipeline("p", (wrong.step,))
    why = plan_says(session, pipeline)
    assert bool(why) == wrong.is_refused, why
    if why:
        assert wrong.why in why
        for says in (try_says, verify_says):
            with pytest.raises(PipelineRefused) as raised:
                says(session, pipeline)
            assert str(raised.value) == why
        return
    for says in (try_says, verify_says, link_says):
        found = says(session, pipeline)
        assert list(found) == [BAD], (says.__name__, found)
        assert wrong.why in found[BAD], (says.__name__, found)


def test_what_may_fit_a_record_is_not_refused(spark: SparkSession) -> None:
    """Given expressions that fail at some records / when they are planned / then none is refused:

    what they are told is no constant, or right.
    """
    pipelines = [Pipeline(text, (Where(text),)) for text in OF_RECORDS]
    assert refused(session_of_rows(spark), pipelines) == {}
