"""Formats with variables such as `${topic}`: names of mirrors, and of groups at the target."""

from __future__ import annotations

import re

VARIABLE = re.compile(r"\$\{([^}]*)\}")


def check_variables(text: str, known: tuple[str, ...], what: str) -> None:
    """Check the variables of a format.

    Parameters
    ----------
    text
        The format.
    known
        Names of variables; the first one must be in it.
    what
        What is named by it, for the message.

    Raises
    ------
    ValueError
        A variable is not known, or the first one is missing; the text says which.
    """
    names = VARIABLE.findall(text)
    for name in names:
        if name not in known:
            choices = ", ".join(f"${{{choice}}}" for choice in known)
            raise ValueError(f"unknown variable ${{{name}}}, known are {choices}")
    if known[0] not in names:
        raise ValueError(f"without ${{{known[0]}}} every {what} would get the same name")
