"""Many links at once: each cluster is entered once, and a dead one costs its own links only."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from heliostat.access import ClusterAccess
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, RegistryUnreachable
from heliostat.operate import each_link as module
from heliostat.operate.each_link import AT_ONCE, each_link

LINKS = 100
DEAD = "dead"
CLUSTERS = 3


def config(order: int) -> Config:
    """Links of a live source and of a dead one in turn."""
    sources = ["live", DEAD][::order]
    clusters = {alias: {"bootstrap": [f"{alias}:1"]} for alias in ("live", DEAD, "west")}
    links = [
        {"name": f"l{number}", "source": sources[number % 2], "target": "west"}
        for number in range(LINKS)
    ]
    return Config.model_validate({"clusters": clusters, "links": links})


@pytest.mark.parametrize("order", [1, -1], ids=["dead last", "dead first"])
def test_a_dead_cluster_is_asked_once_for_all_its_links(
    monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    """Given 100 links, half of a dead source / then three clusters are entered, at once."""
    entered: Counter[str] = Counter()
    asked: list[str] = []
    at_once = threading.Barrier(CLUSTERS, timeout=20)

    def enter(access: ClusterAccess, within_s: float) -> None:
        entered[access.alias] += 1
        at_once.wait()
        if access.alias == DEAD:
            raise ConnectionLost(f"no broker of {access.described} answers within {within_s}")

    def ask(link: LinkConfig) -> str:
        asked.append(link.name)
        return link.source

    monkeypatch.setattr(module, "enter", enter)
    made = config(order)
    answers = each_link(made, made.links, ask)
    assert entered == {"live": 1, DEAD: 1, "west": 1}
    assert list(answers) == [link.name for link in made.links]
    for link in made.links:
        assert isinstance(answers[link.name], ConnectionLost) == (link.source == DEAD)
        assert link.source == DEAD or link.name in asked
    assert len(asked) <= LINKS // 2 + AT_ONCE, "links of a dead cluster"


def test_links_are_asked_about_together_and_an_error_that_is_no_answer_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "enter", lambda *_: None)
    made = config(1)
    together = threading.Barrier(AT_ONCE, timeout=20)
    assert each_link(made, made.links[:AT_ONCE], lambda _: together.wait() >= 0)

    def ask(link: LinkConfig) -> None:
        if link.name == "l3":
            raise RegistryUnreachable("no registry")

    found = each_link(made, made.links, ask, told=(RegistryUnreachable,))
    assert [name for name, each in found.items() if each is not None] == ["l3"]
    with pytest.raises(RegistryUnreachable):
        each_link(made, made.links, ask)
