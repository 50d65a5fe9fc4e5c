"""Constants with which an expression fails whatever the record: Spark reads them at the first one.

A regular expression, a format of times, a time zone or a path is no constant to Spark's optimizer,
as what they are applied to is none. So each expression of a plan is computed here with contents
made up in place of the records' own: one that says of all of them that a parameter is wrong fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from heliostat.errors import PipelineRefused
from heliostat.ops.pyspark_private import elements, expressions_of, java_exception, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_PARAMETERS = (
    "DIVIDE_BY_ZERO",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION",
    "INVALID_DATETIME_PATTERN",
    "INVALID_FORMAT",
    "INVALID_INDEX_OF_ZERO",
    "INVALID_PARAMETER_VALUE",
    "INVALID_TIMEZONE",
    "INVALID_VARIANT_GET_PATH",
    "OPTION_VALUE_EXCEEDS_ONE_CHARACTER",
    "REMAINDER_BY_ZERO",
    "UNSUPPORTED_FEATURE",
)
"""Conditions of Spark's errors, or their beginnings, that are about what a function is told."""
_OF_CONTENTS = ("INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR",)
"""Those of them that are not."""
_BARE = ("java.util.regex.PatternSyntaxException", "java.lang.IllegalArgumentException")
"""Such errors that Spark lets through as they are."""
_FORMATS = "java.util.IllegalFormatException"
"""The class above those of `format_string`."""
_MADE_UP = {
    "STRING": ("'<a/>'", "''", "'UTC'", "'UTF-8'", "'GCM'", "'$'", "'NONE'"),
    "BINARY": ("X'61'", "X'30313233343536373839303132333435'"),
}
"""As SQL: among those of a kind is one for most of what a record's content may be told as."""
_OF_GROUPS = ("RegExpExtract", "RegExpExtractAll", "RegExpReplace")
_OF_ELEMENTS = {"GetArrayItem": 0, "ElementAt": 1}
"""What reads an element of an array, and the index of its first one."""
_GROUP = re.compile(r"(?<!\\)\$(\d)")
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_WITHOUT_PARAMETERS = frozenset(
    (
        *("Literal", "AttributeReference", "Alias", "And", "Or", "Not", "IsNull", "IsNotNull"),
        *("If", "CaseWhen", "Coalesce", "Cast", "EqualTo", "EqualNullSafe", "LessThan"),
        *("LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "GetStructField"),
        *("CreateNamedStruct", "NamedLambdaVariable", "LambdaFunction", "PythonUDF"),
    )
)
"""Kinds of expressions that fail at no record because of a constant; most are of these."""


def check_constants(frame: DataFrame) -> None:
    """Compute what in a frame's plan fails at each record; raises what Spark says of it.

    Raises
    ------
    PipelineRefused
        A path of JSON objects is none: Spark says nothing, and gives null for each record.
    """
    jvm, contents = jvm_of(frame.sparkSession), _Contents(jvm_of(frame.sparkSession))
    for each in expressions_of(frame):
        name = each.nodeName()
        if name in _WITHOUT_PARAMETERS or not (children := elements(each.children())):
            continue
        if each.foldable():
            continue
        if name == "GetJsonObject":
            _check_path(jvm, children[1])
        if name in _OF_GROUPS:
            _check_groups(jvm, children)
        if name == "Invoke":
            _check_xpath(jvm, children[0])
        _check_index(each, name, children)
        failures = (_failure(each, made) for made in contents.operands(children))
        first = next(failures, None)
        if first is not None and all(failures):
            raise _named(first, each)


class _Contents:
    """Contents in place of the records' own, of each kind."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        catalyst = jvm.org.apache.spark.sql.catalyst
        self._literals = getattr(getattr(catalyst.expressions, "Literal$"), "MODULE$")
        self._parser = getattr(getattr(catalyst.parser, "CatalystSqlParser$"), "MODULE$")
        self._made: dict[tuple[str, int], Any] = {}

    def operands(self, children: Sequence[Any]) -> Iterator[Any]:
        """Yield an expression's operands, again and again with other contents."""
        kinds = [None if child.foldable() else child.dataType() for child in children]
        names = ["" if kind is None else str(kind.sql()) for kind in kinds]
        for number in range(max(len(_texts(name)) for name in names)):
            some = [
                child if kind is None else self._content(kind, name, number)
                for child, kind, name in zip(children, kinds, names, strict=True)
            ]
            yield self._jvm.PythonUtils.toSeq(some)

    def _content(self, kind: Any, name: str, number: int) -> Any:
        texts = _texts(name)
        key = name, min(number, len(texts) - 1)
        if key not in self._made:
            text = texts[key[1]]
            self._made[key] = (
                self._parser.parseExpression(text) if text else self._literals.default(kind)
            )
        return self._made[key]


def _texts(kind: str) -> Sequence[str]:
    """Return contents of a type as SQL; an empty text: Spark's own default."""
    if kind.partition("(")[0] in _NUMBERS:
        return [f"cast({number} as {kind})" for number in (1, 0)]
    return _MADE_UP.get(kind, ("",))


def _failure(expression: Any, operands: Any) -> Exception | None:
    """Return how an expression fails with these operands, if a parameter is to blame."""
    try:
        expression.withNewChildren(operands).eval(None)
    except Exception as error:
        # Of PySpark and py4j, which have no common class.
        thrown = java_exception(error)
        if thrown is None:
            raise
        return error if _is_of_parameter(thrown) else None
    return None


def _named(error: Exception, expression: Any) -> Exception:
    """Return an error that says where it is: those that are not Spark's own do not."""
    thrown = java_exception(error)
    if _condition(thrown) is not None:
        return error
    first, _, _ = str(thrown).partition("\n")
    return PipelineRefused(f"{expression.sql()}: {first}")


def _is_of_parameter(thrown: Any) -> bool:
    kind = thrown.getClass()
    if kind.getName() in _BARE or kind.getSuperclass().getName() == _FORMATS:
        return True
    condition = _condition(thrown) or ""
    return condition.startswith(_OF_PARAMETERS) and condition not in _OF_CONTENTS


def _condition(thrown: Any) -> str | None:
    """Return the condition of an error of Spark's own; None: it is none."""
    if not thrown.getClass().getName().startswith("org.apache.spark."):
        return None
    condition: str | None = thrown.getCondition()
    return condition


def _check_path(jvm: Any, path: Any) -> None:
    if not path.foldable() or (text := path.eval(None)) is None:
        return
    parsers = jvm.org.apache.spark.sql.catalyst.expressions.json
    parser = getattr(getattr(parsers, "JsonPathParser$"), "MODULE$")
    if parser.parse(text.toString()).isEmpty():
        raise PipelineRefused(f"{text.toString()} is no path into JSON: Spark gives null for it")


def _check_groups(jvm: Any, children: Sequence[Any]) -> None:
    """Refuse a group that a regular expression has not: records that do not match would pass.

    Raises
    ------
    PipelineRefused
        There is no such group.
    """
    pattern, wanted = (each.eval(None) if each.foldable() else None for each in children[1:3])
    if pattern is None or wanted is None:
        return
    try:
        groups = jvm.java.util.regex.Pattern.compile(pattern.toString()).matcher("").groupCount()
    except Exception as error:  # of py4j, which has no common class with PySpark's
        if java_exception(error) is None:
            raise
        return  # it is no expression, which Spark says
    numbers = [wanted] if isinstance(wanted, int) else map(int, _GROUP.findall(wanted.toString()))
    missing = next((number for number in numbers if number > groups), None)
    if missing is not None:
        raise PipelineRefused(f"{pattern.toString()} has no group {missing}: it has {groups}")


def _check_index(expression: Any, name: str, children: Sequence[Any]) -> None:
    """Refuse the index of an element that a list of expressions has not.

    Raises
    ------
    PipelineRefused
        There is no such element.
    """
    if name == "Elt":
        index, size, first = children[0], len(children) - 1, 1
    elif name in _OF_ELEMENTS and children[0].nodeName() == "CreateArray":
        index, size = children[1], len(elements(children[0].children()))
        first = _OF_ELEMENTS[name]
    else:
        return
    number = index.eval(None) if index.foldable() else None
    if number is None or first <= number < first + size:
        return
    if name != "ElementAt" or not -size <= number <= 0:  # of 0 Spark says more
        raise PipelineRefused(f"{expression.sql()}: there is no element {number}, of {size}")


def _check_xpath(jvm: Any, called: Any) -> None:
    """Refuse a path into XML that is none: of an empty text Spark makes null without a look at it.

    Raises
    ------
    PipelineRefused
        It is none.
    """
    evaluator: Any = called.eval(None) if called.foldable() else None
    if not hasattr(evaluator, "getClass"):
        return
    kind = evaluator.getClass().getSimpleName()
    if not kind.startswith("XPath"):
        return
    text = evaluator.path().toString()
    try:
        jvm.javax.xml.xpath.XPathFactory.newInstance().newXPath().compile(text)
    except Exception as error:  # of py4j, which has no common class with PySpark's
        thrown = java_exception(error)
        if thrown is None:
            raise
        said = str(thrown.getMessage()).splitlines()[0]
        raise PipelineRefused(f"{text} is no path into XML: {said}") from None
