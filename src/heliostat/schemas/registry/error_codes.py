"""Error codes of schema registries: what each means for what was asked.

Numbers and names are those of Confluent's class `rest.exceptions.Errors` (8.4); below 1000 they are
HTTP's. Registries that answer like it differ: Apicurio 2.5 has 409 for 40901, and a code of 0 where
it lacks the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from heliostat.errors import RegistryError, Verdict

SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_SOFT_DELETED = 40404
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_SOFT_DELETED = 40406
VERSION_NOT_SOFT_DELETED = 40407
NO_COMPATIBILITY_OF_SUBJECT = 40408
NO_MODE_OF_SUBJECT = 40409
CONFLICT = 409
INCOMPATIBLE_SCHEMA = 40901
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_COMPATIBILITY = 42203
INVALID_MODE = 42204
OPERATION_NOT_PERMITTED = 42205
REFERENCE_EXISTS = 42206
INVALID_SUBJECT = 42208

NOT_FOUND = frozenset({SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, SCHEMA_NOT_FOUND})
"""It is not there, or not there yet."""
NOT_CONFIGURED = frozenset({NO_COMPATIBILITY_OF_SUBJECT, NO_MODE_OF_SUBJECT})
"""The subject has no setting of its own."""
NO_SUCH_REQUEST = frozenset({404, 405})
"""The registry lacks this part of the API: Apicurio's modes."""
INCOMPATIBLE = frozenset({CONFLICT, INCOMPATIBLE_SCHEMA})


class RegistryErrorKind(NamedTuple):
    """One row of the table below."""

    name: str
    verdict: Verdict
    hint: str = ""


_RETRY, _HALT, _ASIDE = Verdict.RETRY, Verdict.HALT, Verdict.SET_ASIDE
_NO_SUCH = "it lacks this part of the API, or its address lacks a path such as /apis/ccompat/v7"
_COMPATIBLE = "set the subject's compatibility to NONE at that registry"

REGISTRY_ERRORS: Mapping[int, RegistryErrorKind] = MappingProxyType(
    {
        400: RegistryErrorKind("BAD_REQUEST", _HALT),
        401: RegistryErrorKind(
            "UNAUTHORIZED",
            _RETRY,
            "check user, password, token or certificate; they are read again at each request",
        ),
        403: RegistryErrorKind("FORBIDDEN", _RETRY, "grant the right there; it is asked again"),
        404: RegistryErrorKind("NO_SUCH_REQUEST", _HALT, _NO_SUCH),
        405: RegistryErrorKind("NO_SUCH_METHOD", _HALT, _NO_SUCH),
        CONFLICT: RegistryErrorKind("CONFLICT", _ASIDE, _COMPATIBLE),
        422: RegistryErrorKind("UNPROCESSABLE", _ASIDE),
        429: RegistryErrorKind("TOO_MANY_REQUESTS", _RETRY),
        500: RegistryErrorKind("INTERNAL_SERVER_ERROR", _RETRY),
        SUBJECT_NOT_FOUND: RegistryErrorKind("SUBJECT_NOT_FOUND", _RETRY),
        VERSION_NOT_FOUND: RegistryErrorKind("VERSION_NOT_FOUND", _RETRY),
        SCHEMA_NOT_FOUND: RegistryErrorKind("SCHEMA_NOT_FOUND", _RETRY),
        SUBJECT_SOFT_DELETED: RegistryErrorKind("SUBJECT_SOFT_DELETED", _HALT),
        SUBJECT_NOT_SOFT_DELETED: RegistryErrorKind("SUBJECT_NOT_SOFT_DELETED", _HALT),
        VERSION_SOFT_DELETED: RegistryErrorKind("SCHEMAVERSION_SOFT_DELETED", _HALT),
        VERSION_NOT_SOFT_DELETED: RegistryErrorKind("SCHEMAVERSION_NOT_SOFT_DELETED", _HALT),
        NO_COMPATIBILITY_OF_SUBJECT: RegistryErrorKind(
            "SUBJECT_LEVEL_COMPATIBILITY_NOT_CONFIGURED", _HALT
        ),
        NO_MODE_OF_SUBJECT: RegistryErrorKind("SUBJECT_LEVEL_MODE_NOT_CONFIGURED", _HALT),
        INCOMPATIBLE_SCHEMA: RegistryErrorKind("INCOMPATIBLE_SCHEMA", _ASIDE, _COMPATIBLE),
        INVALID_SCHEMA: RegistryErrorKind("INVALID_SCHEMA", _ASIDE),
        INVALID_VERSION: RegistryErrorKind("INVALID_VERSION", _ASIDE),
        INVALID_COMPATIBILITY: RegistryErrorKind("INVALID_COMPATIBILITY_LEVEL", _HALT),
        INVALID_MODE: RegistryErrorKind("INVALID_MODE", _HALT),
        OPERATION_NOT_PERMITTED: RegistryErrorKind(
            "OPERATION_NOT_PERMITTED",
            _RETRY,
            "see the mode of registry and subject, and whether that id has other content there",
        ),
        REFERENCE_EXISTS: RegistryErrorKind("REFERENCE_EXISTS", _HALT),
        42207: RegistryErrorKind("ID_DOES_NOT_MATCH", _ASIDE),
        INVALID_SUBJECT: RegistryErrorKind("INVALID_SUBJECT", _ASIDE),
        42209: RegistryErrorKind(
            "SCHEMA_TOO_LARGE", _ASIDE, "raise max.message.bytes of that registry's topic"
        ),
        42210: RegistryErrorKind("INVALID_RULESET", _ASIDE),
        42211: RegistryErrorKind("CONTEXT_NOT_EMPTY", _HALT),
        50001: RegistryErrorKind("STORE_ERROR", _RETRY),
        50002: RegistryErrorKind("OPERATION_TIMEOUT", _RETRY),
        50003: RegistryErrorKind("REQUEST_FORWARDING_FAILED", _RETRY),
        50004: RegistryErrorKind("UNKNOWN_LEADER", _RETRY),
    }
)


def registry_error_kind(code: int) -> RegistryErrorKind:
    """What we know of a code; one that we don't know is like its HTTP status."""
    status = code if code < 1000 else code // 100
    rest = REGISTRY_ERRORS[500 if status >= 500 else 400]
    return REGISTRY_ERRORS.get(code) or REGISTRY_ERRORS.get(status) or rest


def registry_error(text: str, code: int, **context: object) -> RegistryError:
    """The error for an answer with this code; `text` has the registry's own words."""
    kind = registry_error_kind(code)
    return RegistryError(
        text,
        registry_code=code,
        name=kind.name,
        verdict=kind.verdict,
        hint=kind.hint or None,
        **context,
    )
