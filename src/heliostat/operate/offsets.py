"""`heliostat offsets`: offsets of one side translated to the other, and maps in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.names import LinkName
from heliostat.offsets.translation import Answer, Question, Side
from heliostat.operate.translators import open_translator


@dataclass(frozen=True, slots=True)
class TranslatedOffsets:
    """Answers to questions, in their order."""

    link: LinkName
    to: Side
    answers: tuple[Answer, ...]
    is_source_known: bool
    """Whether the source answered; without it recreated and missing topics are not recognised."""

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "link": self.link,
            "to": self.to.value,
            "items": [answer.to_json() for answer in self.answers],
            "is_source_known": self.is_source_known,
        }


def translated(
    config: Config, link: LinkConfig, questions: Sequence[Question], to: Side
) -> TranslatedOffsets:
    """Translate offsets of one side of a link into offsets of the other.

    Raises
    ------
    ConnectionLost
        The target does not answer; the source need not.
    """
    asked = Side.SOURCE if to is Side.TARGET else Side.TARGET
    with open_translator(config, link, {question.topic for question in questions}) as translator:
        answers = tuple(translator.translate(questions, asked))
        return TranslatedOffsets(LinkName(link.name), to, answers, translator.is_source_known)
