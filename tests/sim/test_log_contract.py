"""The model of a log answers as observed of a broker; `tests/kafka` asks a broker the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.log_contract import SCRIPTS, Make
from support.log_sides import ModelSide


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_model_answers_like_a_broker(script: Callable[[Make], None]) -> None:
    script(ModelSide)
