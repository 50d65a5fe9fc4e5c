"""A file of references to passwords of SCRAM users: never the passwords themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from heliostat.access import SecretRef
from heliostat.config.security import SecretConfig
from heliostat.errors import ConfigError

_USERS = TypeAdapter(dict[str, SecretConfig])


def load_passwords(path: str) -> Mapping[str, SecretRef]:
    """Read where each user's password is: `alice: {file: /run/secrets/alice}`, or `{env: NAME}`.

    Raises
    ------
    ConfigError
        It can't be read, or an entry is no such reference; its text is not repeated.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        users = _USERS.validate_python(yaml.safe_load(text) or {})
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file of passwords {path} can't be read: {error}") from None
    except yaml.YAMLError:
        raise ConfigError(f"the file of passwords {path} is no YAML") from None
    except ValidationError as error:
        where = sorted(
            {str(detail["loc"][0]) if detail["loc"] else "all" for detail in error.errors()}
        )
        raise ConfigError(
            f"the file of passwords {path} has entries that are no reference "
            f"({{file: ...}} or {{env: ...}}): {', '.join(where)}"
        ) from None
    return {user: secret.reference() for user, secret in users.items()}
