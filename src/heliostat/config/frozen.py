"""What all sections of the configuration have in common."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema
from typing_extensions import override


class Frozen(BaseModel):
    """A section: immutable, strict in types, refuses unknown keys.

    Validators are built with the first file that is checked, and descriptions are read from the
    source when a schema is asked for: each verb's process would wait for them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """Add the text below each field as its description."""
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema)["properties"]
        for section in cls.__mro__:
            if section is not Frozen and issubclass(section, Frozen):
                for name, text in _texts_below_fields(section):
                    key = cls.model_fields[name].alias or name
                    fields[key].setdefault("description", text)
        return schema


def _texts_below_fields(section: type) -> list[tuple[str, str]]:
    (defined,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(defined, ast.ClassDef)
    texts: list[tuple[str, str]] = []
    for field, below in zip(defined.body, defined.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts.append((name, inspect.cleandoc(text)))
            case _:
                pass
    return texts
