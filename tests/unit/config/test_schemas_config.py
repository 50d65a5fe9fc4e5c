"""A link's schemas in the configuration: what is accepted and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.config import Config, SchemasConfig, load_config
from heliostat.errors import ConfigError

SUMMIT = "https://summit:8081"
USDF = "https://usdf:8081"
FILE = """
clusters:
  summit: {{bootstrap: "127.0.0.1:9092", schema_registry: {source}}}
  usdf: {{bootstrap: "127.0.0.1:9093", schema_registry: {target}}}
defaults: {{schemas: {{{defaults}}}}}
links: [{{name: l, source: summit, target: usdf, schemas: {{{link}}}}}]
"""
MERGED = "links: [{name: l, source: summit, target: usdf, topics: {naming: merge}, schemas: {%s}}]"


def load(
    folder: Path,
    link: str,
    *,
    defaults: str = "",
    source: str | None = SUMMIT,
    target: str | None = USDF,
) -> Config:
    registries = {
        side: "null" if url is None else f"{{urls: '{url}'}}"
        for side, url in (("source", source), ("target", target))
    }
    path = folder / "heliostat.yaml"
    path.write_text(FILE.format(link=link, defaults=defaults, **registries))
    return load_config(path, {})


def problems(folder: Path, link: str, **given: str | None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(folder, link, **given)  # type: ignore[arg-type]  # as `load` has them
    return caught.value.problems


TAKEN = {
    "": SchemasConfig(),
    "strategy: preserve": SchemasConfig(strategy="preserve"),
    "strategy: isolate": SchemasConfig(strategy="isolate"),
    "strategy: isolate, context: .summit": SchemasConfig(strategy="isolate", context=".summit"),
    "strategy: isolate, context: .Sum-mit_2.b": SchemasConfig(
        strategy="isolate", context=".Sum-mit_2.b"
    ),
    "strategy: preserve, context: null": SchemasConfig(strategy="preserve"),
    "strategy: rewrite, plain: [a]": SchemasConfig(strategy="rewrite", plain=("a",)),
    r"strategy: preserve, include: 'lsst\.sal\..*', exclude: [lsst.sal.Test], keep_names: true,"
    " compatibility: carry, framed: [a, 'b.*'], interval_s: 5": SchemasConfig(
        strategy="preserve",
        include=(r"lsst\.sal\..*",),
        exclude=("lsst.sal.Test",),
        keep_names=True,
        compatibility="carry",
        framed=("a", "b.*"),
        interval_s=5,
    ),
}


@pytest.mark.parametrize("text", TAKEN)
def test_a_valid_section_is_taken(text: str, tmp_path: Path) -> None:
    assert load(tmp_path, text).links[0].schemas == TAKEN[text]


def test_no_schemas_are_mirrored_by_default(tmp_path: Path) -> None:
    found = load(tmp_path, "", source=None, target=None).links[0].schemas
    assert (found.strategy, found.include, found.exclude) == ("off", (".*",), ())
    assert (found.context, found.compatibility, found.keep_names) == (None, "none", False)
    assert (found.framed, found.plain, found.interval_s) == ((), (), 30)


def test_a_link_overrides_defaults_key_by_key(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "strategy: preserve, context: null",
        defaults="strategy: isolate, context: .x, interval_s: 60",
    )
    assert config.links[0].schemas == SchemasConfig(strategy="preserve", interval_s=60)


NAME = "must be a dot and a name of a-z A-Z 0-9 . _ -, such as .summit"
REFUSED = {
    "strategy: rewrites": (
        "links[0].schemas.strategy: input should be 'off', 'preserve', 'isolate' or 'rewrite' "
        '(got "rewrites")'
    ),
    "strategy: rewrite, context: .x": (
        "links[0].schemas: context only with strategy isolate "
        "(got {'strategy': 'rewrite', 'context': '.x'})"
    ),
    "plain: ['']": 'links[0].schemas.plain[0]: an empty entry matches nothing (got "")',
    "strategy: isolate, context: summit": f'links[0].schemas.context: {NAME} (got "summit")',
    "strategy: isolate, context: '.'": f'links[0].schemas.context: {NAME} (got ".")',
    "strategy: isolate, context: ''": f'links[0].schemas.context: {NAME} (got "")',
    "strategy: isolate, context: '.a:b'": f'links[0].schemas.context: {NAME} (got ".a:b")',
    "strategy: isolate, context: .__GLOBAL": (
        "links[0].schemas.context: registries keep their own settings in this context "
        '(got ".__GLOBAL")'
    ),
    "context: .summit": (
        "links[0].schemas: context only with strategy isolate (got {'context': '.summit'})"
    ),
    "strategy: preserve, context: .x": (
        "links[0].schemas: context only with strategy isolate "
        "(got {'strategy': 'preserve', 'context': '.x'})"
    ),
    "include: '('": (
        "links[0].schemas.include[0]: bad regex: missing ), unterminated subpattern at position 0 "
        '(got "(")'
    ),
    "framed: ['']": 'links[0].schemas.framed[0]: an empty entry matches nothing (got "")',
    "compatibility: carries": (
        "links[0].schemas.compatibility: input should be 'none' or 'carry' (got \"carries\")"
    ),
    "interval_s: 0.1": (
        "links[0].schemas.interval_s: input should be greater than or equal to 0.5 (got 0.1)"
    ),
    "interval_s: 3601": (
        "links[0].schemas.interval_s: input should be less than or equal to 3600 (got 3601)"
    ),
    "stratgy: preserve": "links[0].schemas.stratgy: unknown key, did you mean strategy?",
}


@pytest.mark.parametrize("text", REFUSED)
def test_an_invalid_section_is_refused_with_field_reason_and_value(
    text: str, tmp_path: Path
) -> None:
    assert problems(tmp_path, text) == (REFUSED[text],)


@pytest.mark.parametrize("strategy", ["preserve", "isolate", "rewrite"])
def test_schemas_need_a_registry_at_both_clusters(strategy: str, tmp_path: Path) -> None:
    """Given clusters without registry / when a link mirrors schemas / then each is named."""
    told = [
        f'links[0].schemas.strategy: cluster {alias} has no schema_registry (got "{strategy}")'
        for alias in ("summit", "usdf")
    ]
    text = f"strategy: {strategy}"
    assert problems(tmp_path, text, source=None) == (told[0],)
    assert problems(tmp_path, text, target=None) == (told[1],)
    assert problems(tmp_path, text, source=None, target=None) == tuple(told)
    assert problems(tmp_path, "", defaults=text, target=None) == (told[1],)


def test_a_link_to_an_unknown_cluster_is_told_only_that(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(
        "clusters: {summit: {bootstrap: 'h:1', schema_registry: {urls: 'https://r'}}}\n"
        "links: [{name: l, source: summit, target: usdf, schemas: {strategy: preserve}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert caught.value.problems == (
        "links[0].target: no such cluster, there are summit (got 'usdf')",
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("strategy: preserve", "strategy"),
        ("strategy: isolate", "strategy"),
        ("strategy: rewrite, compatibility: carry", "compatibility"),
    ],
)
def test_schemas_of_merged_topics_are_rewritten_alone(
    text: str, field: str, tmp_path: Path
) -> None:
    """Given links both of whose sides register for a topic / then nothing closes or turns there."""
    load(tmp_path, "")
    path = tmp_path / "heliostat.yaml"
    before = path.read_text().rpartition("links:")[0]
    path.write_text(before + MERGED % "strategy: rewrite")
    assert load_config(path, {}).links[0].schemas.strategy == "rewrite"
    path.write_text(before + MERGED % text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    [problem] = caught.value.problems
    assert problem.startswith(f"links[0].schemas.{field}: ")


def test_schemas_are_not_preserved_in_the_registry_they_are_from(tmp_path: Path) -> None:
    """Given one registry for both clusters / then only a context of its own keeps them apart."""
    assert problems(tmp_path, "strategy: preserve", target=f"{SUMMIT}/") == (
        (
            "links[0].schemas.strategy: summit and usdf have the same schema registry, "
            f'{SUMMIT} (got "preserve")'
        ),
    )
    assert load(tmp_path, "strategy: isolate", target=SUMMIT).links
    assert load(tmp_path, "", target=SUMMIT).links


@pytest.mark.parametrize(
    ("topics", "source_topic", "target_topic", "is_refused"),
    [
        ("{include: ['.*']}", "_schemas", "_schemas", True),
        ("{include: [_schemas]}", "_schemas", "_schemas", True),
        ("{include: ['registry-.*']}", "registry-schemas", "registry-schemas", True),
        ("{include: ['.*'], exclude: [_schemas]}", "_schemas", "_schemas", False),
        ("{include: ['lsst.*']}", "_schemas", "_schemas", False),
        ("{include: ['.*'], naming: {prefix: summit.}}", "_schemas", "_schemas", False),
        ("{include: ['.*'], naming: {prefix: summit.}}", "_schemas", "summit._schemas", True),
        ("{include: ['.*']}", "_schemas", "registry-schemas", False),
    ],
)
def test_a_registrys_topic_is_not_copied_into_that_of_another_registry(
    tmp_path: Path, topics: str, source_topic: str, target_topic: str, *, is_refused: bool
) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(
        "clusters:\n"
        "  summit:\n    bootstrap: s:1\n"
        f"    schema_registry: {{urls: 'https://r', topic: {source_topic}}}\n"
        "  usdf:\n    bootstrap: t:1\n"
        f"    schema_registry: {{urls: 'https://q', topic: {target_topic}}}\n"
        f"links: [{{name: l, source: summit, target: usdf, topics: {topics}}}]\n"
    )
    if not is_refused:
        assert load_config(path, {}).links
        return
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    (problem,) = caught.value.problems
    assert problem.startswith(f"links[0].topics: selects {source_topic}, which is the topic of")


def test_a_registrys_topic_may_be_copied_where_no_registry_is_known(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(
        "clusters: {summit: {bootstrap: 's:1', schema_registry: {urls: 'https://r'}},\n"
        "  usdf: {bootstrap: 't:1'}}\n"
        "links: [{name: l, source: summit, target: usdf, topics: {include: [_schemas]}}]\n"
    )
    assert load_config(path, {}).links
