"""The parts of PySpark that we need and that have no public equivalent: here, and nowhere else.

Any release may change them; `tests/spark/test_pyspark_private.py` then fails. Imports no PySpark:
callers pass its objects in.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from typing_extensions import override


def gateway_of(context_kind: Any) -> Any:
    """Return py4j's gateway to this process's JVM; None before the first session.

    Parameters
    ----------
    context_kind
        PySpark's class `SparkContext`, which keeps it from one session to the next.
    """
    return context_kind._gateway  # noqa: SLF001  # no public way


def active_context(context_kind: Any) -> Any:
    """Return this process's running `SparkContext`, if any: a process has at most one.

    The public `getOrCreate` would start one.
    """
    return context_kind._active_spark_context  # noqa: SLF001  # no public way


def java_process(context_kind: Any) -> Any:
    """Return the JVM's process (`subprocess.Popen`); None where `spark-submit` started us."""
    return getattr(gateway_of(context_kind), "proc", None)


class JvmProcess(dict[str, Any]):
    """Arguments for the process of a JVM (`subprocess.Popen`), to which PySpark adds its own.

    Parameters
    ----------
    output
        File descriptor for all that it prints.

    Notes
    -----
    The JVM ignores SIGTERM, as PySpark has it ignore SIGINT: a JVM leaves a signal alone that is
    ignored when it starts. Whoever ends a service signals all of its processes, and lanes could not
    end gracefully without Spark. It ends when its standard input is closed, with this process.
    """

    def __init__(self, output: int) -> None:
        super().__init__(stdout=output, stderr=output)

    @override
    def __setitem__(self, key: str, value: Any) -> None:
        """Set an argument; what runs before the JVM's start also has it ignore SIGTERM."""
        super().__setitem__(key, _ignoring_sigterm(value) if key == "preexec_fn" else value)


def _ignoring_sigterm(before: Callable[[], None]) -> Callable[[], None]:
    def prepare() -> None:
        before()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return prepare


@contextmanager
def jvm_started_as(context_kind: Any, process: JvmProcess) -> Iterator[None]:
    """Have PySpark start its JVM with these arguments, if it does so within the block.

    The public parameter for them is that of a function which `SparkContext` calls without it.
    """
    module: Any = sys.modules[context_kind.__module__]
    launch = module.launch_gateway
    module.launch_gateway = lambda conf=None: launch(conf, process)
    try:
        yield
    finally:
        module.launch_gateway = launch


def silence_accumulators(context: Any) -> None:
    """Keep the accumulator thread from printing a trace to stderr when the JVM ends."""
    context._accumulatorServer.handle_error = lambda *_: None  # noqa: SLF001  # no public way


def scala_context(context: Any) -> Any:
    """Return Spark's own `SparkContext`, in the JVM."""
    return context._jsc.sc()  # noqa: SLF001  # no public way


def jvm_of(context: Any) -> Any:
    """Return py4j's view of the JVM's packages."""
    return context._jvm  # noqa: SLF001  # no public way


def ask_numpy_converters_of_numpy_only(converters: list[Any]) -> None:
    """Keep PySpark's test package, pandas and Arrow from being imported by each call to the JVM.

    PySpark's two converters of numpy values ask that package whether there is numpy, for an
    argument of any type: 70 MB and 1 s of processor time in a driver (2026-11-25, PySpark 4.3).

    Parameters
    ----------
    converters
        `py4j.protocol.INPUT_CONVERTER`, changed in place; a gateway takes it when it starts.
    """
    for index, converter in enumerate(converters):
        if type(converter).__name__ in _NUMPY_CONVERTERS:
            converters[index] = NumpyOnly(converter)


_NUMPY_CONVERTERS = ("NumpyScalarConverter", "NumpyArrayConverter")


class NumpyOnly:
    """A converter of py4j that is asked about values of numpy only.

    Parameters
    ----------
    converter
        The one that converts.
    """

    def __init__(self, converter: Any) -> None:
        self._converter = converter

    def can_convert(self, value: object) -> bool:
        """Whether this is a value of numpy that can be converted."""
        kinds: Sequence[type] = type(value).__mro__
        is_numpy = any(kind.__module__.partition(".")[0] == "numpy" for kind in kinds)
        return is_numpy and self._converter.can_convert(value)

    def convert(self, value: object, gateway_client: object) -> object:
        """Return the value for Java."""
        return self._converter.convert(value, gateway_client)


def java_exception(error: Any) -> Any:
    """Return the exception of the JVM that a call raised; None: it is Python's own.

    Py4j has it as such; PySpark, which makes classes of its own of some, keeps it.
    """
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def plan_of(frame: Any) -> Any:
    """Return a frame's analyzed logical plan (class `LogicalPlan`)."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001  # no public way


def has_pattern(plan: Any, name: str, session: Any) -> bool:
    """Return whether a plan's expressions have one of a kind (`TreePattern`)."""
    kinds = getattr(jvm_of(session).org.apache.spark.sql.catalyst.trees, "TreePattern$")
    return bool(plan.containsPattern(getattr(getattr(kinds, "MODULE$"), name)()))


def node_names(frame: Any) -> list[str]:
    """Return the names of all nodes of the plan by which a frame is computed (`SparkPlan`)."""
    plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001  # no public way
    return [node.nodeName() for node in _nodes(plan)]


def frame_of(frame: Any, plan: Any) -> Any:
    """Return a frame with this logical plan, in the session of `frame`."""
    session = frame.sparkSession
    dataset = getattr(jvm_of(session).org.apache.spark.sql.classic, "Dataset$")
    jvm_session = session._jsparkSession  # noqa: SLF001  # no public way
    return type(frame)(getattr(dataset, "MODULE$").ofRows(jvm_session, plan), session)


def column_ids(frame: Any) -> dict[str, int]:
    """Return the ids of a frame's columns by name (`ExprId`): what only passes keeps its own."""
    return dict(_attributes(plan_of(frame).output()))


def read_ids(frame: Any) -> set[int]:
    """Return the ids of all columns that the nodes of a frame's optimized plan read."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # no public way
    attribute_lists = (_attributes(node.references().toSeq()) for node in _nodes(plan))
    return {number for attributes in attribute_lists for _, number in attributes}


def compute_constants(frame: Any) -> None:
    """Compute what is constant in a frame's expressions, as its optimizer does; may raise."""
    frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # no public way


def expressions_of(frame: Any) -> Iterator[Any]:
    """Yield all expressions in a frame's optimized plan (`Expression`), and those within each."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # no public way
    for node in _nodes(plan):
        for expression in elements(node.expressions()):
            yield from _nodes(expression)


def constant_of(frame: Any) -> tuple[bool, Any]:
    """Return whether a frame's one column is a constant that Python knows, and it; may raise."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # no public way
    (column,) = elements(plan.expressions())
    if not column.foldable():
        (column,) = elements(column.children()) or [column]
    if not column.foldable():
        return False, None
    content = column.eval(None)
    if hasattr(content, "getClass"):  # of Java's own
        is_text = content.getClass().getSimpleName() == "UTF8String"
        return is_text, content.toString() if is_text else None
    return True, content


def elements(sequence: Any) -> list[Any]:
    """Return the elements of a Scala `Seq`."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a tree's nodes, each before those below it."""
    yield plan
    for child in elements(plan.children()):
        yield from _nodes(child)


def _attributes(attributes: Any) -> list[tuple[str, int]]:
    return [(attribute.name(), attribute.exprId().id()) for attribute in elements(attributes)]
