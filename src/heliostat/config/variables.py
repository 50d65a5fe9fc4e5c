"""Formats with variables such as `${topic}`: names of mirrors, and of groups at the target."""

from __future__ import annotations

import re

VARIABLE = re.compile(r"\$\{([^}]*)\}")


def check_variables(text: str, variables: tuple[str, ...], what: str) -> None:
    """Check the variables of a format.

    Parameters
    ----------
    text
        The format.
    variables
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
        if name not in variables:
            choices = ", ".join(f"${{{choice}}}" for choice in variables)
            raise ValueError(f"unknown variable ${{{name}}}, known are {choices}")
    if variables[0] not in names:
        raise ValueError(f"without ${{{variables[0]}}} every {what} would get the same name")
