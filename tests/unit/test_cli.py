"""The command line's entry point: what it loads, what it prints, its exit code."""

import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from heliostat import __version__
from heliostat.cli import main as cli
from heliostat.errors import BrokerError, ConfigError, ConnectionLost, HeliostatError, Refused

HEAVY = ("pyspark", "pyarrow", "pandas", "kafka", "aiokafka", "rich", "pydantic")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[str]]:
    """Add a verb `try` that does what the test sets."""

    def plant(action: Callable[[], object]) -> list[str]:
        command = click.Command("try", callback=action, help="Try.")
        monkeypatch.setattr(sys.modules[__name__], "planted", command, raising=False)
        place = cli.Verb(f"{__name__}:planted", "Try.")
        monkeypatch.setattr(cli, "VERBS", {"try": place})
        return ["try"]

    return plant


def raising(error: BaseException) -> Callable[[], object]:
    def action() -> object:
        raise error

    return action


def test_help_and_version_load_nothing_heavy() -> None:
    program = (
        "import sys\nfrom heliostat.cli.main import run\n"
        "assert run(['--version']) == 0 and run(['--help']) == 0\n"
        f"loaded = sorted(set({HEAVY!r}) & set(sys.modules))\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"heliostat {__version__}" in done.stdout
    assert all(name in done.stdout for name in cli.VERBS)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("no", problems=("links: missing",)), 2),
        (Refused("no"), 1),
        (ConnectionLost("gone"), 3),
        (BrokerError("no", kafka_code=7), 3),
        (HeliostatError("no"), 3),
    ],
)
def test_error_is_printed_once_on_stderr_with_its_code(
    verb: Callable[[Callable[[], object]], list[str]],
    capsys: pytest.CaptureFixture[str],
    error: HeliostatError,
    code: int,
) -> None:
    assert cli.run(verb(raising(error))) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"heliostat: {error}\n"


def test_bug_is_shown_whole_and_never_ends_as_a_difference(
    verb: Callable[[Callable[[], object]], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(verb(raising(ValueError("a bug")))) == 3
    assert "ValueError: a bug" in capsys.readouterr().err


def test_interruption_ends_with_the_shells_exit_code(
    verb: Callable[[Callable[[], object]], list[str]],
) -> None:
    assert cli.run(verb(raising(KeyboardInterrupt()))) == 130


@pytest.mark.parametrize("code", [0, 1, 3])
def test_verb_chooses_its_code(
    verb: Callable[[Callable[[], object]], list[str]], code: int
) -> None:
    assert cli.run(verb(lambda: click.get_current_context().exit(code))) == code


def test_verb_that_just_ends_is_in_sync(
    verb: Callable[[Callable[[], object]], list[str]],
) -> None:
    assert cli.run(verb(lambda: None)) == 0


@pytest.mark.parametrize("arguments", [["no-such-verb"], ["--no-such-option"], []])
def test_wrong_usage_ends_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert cli.run(arguments) == 2
    assert "Usage: heliostat" in capsys.readouterr().err


def commands_of(group: click.Group) -> list[tuple[str, click.Command]]:
    found = []
    context = click.Context(group, **group.context_settings)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {inner}", each) for inner, each in commands_of(command)]
    return found


def test_each_verb_has_help_that_ends_in_examples() -> None:
    for name, command in [("", cli.root), *commands_of(cli.root)]:
        path = f"heliostat {name}".strip()
        text = command.get_help(click.Context(command, info_name=path, **command.context_settings))
        assert command.help, name
        assert "Example" in text, name
        assert "\\b" not in text, name
        if not isinstance(command, click.Group):
            assert f"  heliostat {name}" in text.split("Example")[1], name


def test_each_option_has_help() -> None:
    for name, command in commands_of(cli.root):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize(
    ("word", "nearest"),
    [("stauts", " Did you mean 'status'?"), ("verfy", " Did you mean 'verify'?"), ("zzz", "")],
)
def test_a_word_that_is_no_verb_gets_the_nearest_one(capsys, word: str, nearest: str) -> None:
    assert cli.run([word, "-c", "x"]) == 2
    assert capsys.readouterr().err.endswith(f"No such command '{word}'.{nearest}\n")


def test_help_has_a_short_name_after_a_call_past_the_command_line() -> None:
    command = click.Command("try", callback=lambda: None)
    assert CliRunner().invoke(command, ["--help"]).exit_code == 0
    assert "-h, --help" in CliRunner().invoke(cli.completed(command), ["-h"]).output


@pytest.mark.parametrize("words", [[], ["plan"], ["dlq"], ["dlq", "list"]])
def test_help_has_a_short_name(capsys, words: list[str]) -> None:
    assert cli.run([*words, "-h"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {' '.join(['heliostat', *words])}")
