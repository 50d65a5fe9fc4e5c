"""The program `heliostat <verb>`: imports verbs when called, and turns errors into exit codes.

Exit codes: 0 in sync, 1 difference or refusal, 2 usage, 3 halted.
"""

from __future__ import annotations

import difflib
import importlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from heliostat import __version__
from heliostat.cli.exit_codes import DIFFERENCE, HALTED, INTERRUPTED, USAGE
from heliostat.errors import ConfigError, HeliostatError, Refused


@dataclass(frozen=True, slots=True)
class Verb:
    """Location of a verb (`module:attribute`), and a line that says what it does."""

    place: str
    summary: str


HELP_OPTIONS = ["-h", "--help"]
SANDBOX = "heliostat_sandbox"
"""A package of its own, which runs brokers; the product does not need it."""

VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "demo": Verb(
            "heliostat_sandbox.demo_command:demo_command", "Mirror one local cluster to another."
        ),
        "init": Verb("heliostat.cli.init:init_command", "Write a first configuration."),
        "scan": Verb("heliostat.cli.scan:scan_command", "List what a cluster has; reads only."),
        "check": Verb(
            "heliostat.cli.check:check_command", "Say whether it would run, and why not."
        ),
        "topics": Verb("heliostat.cli.topics:topics_command", "Preview what would be mirrored."),
        "plan": Verb("heliostat.cli.topics:plan_command", "Print planned changes and refusals."),
        "apply": Verb("heliostat.cli.apply:apply_command", "Do what is planned once, and end."),
        "try": Verb("heliostat.cli.trial:try_command", "Show what a pipeline makes of records."),
        "groups": Verb("heliostat.cli.groups:groups_command", "Show where groups would resume."),
        "schemas": Verb(
            "heliostat.cli.schemas:schemas_group", "Show schemas at the target, open or close."
        ),
        "import-mm2": Verb(
            "heliostat.cli.import_mm2:import_mm2_command", "Convert MirrorMaker 2's configuration."
        ),
        "export-mm2": Verb(
            "heliostat.cli.export_mm2:export_mm2_command", "Write a link for MirrorMaker 2."
        ),
        "adopt": Verb(
            "heliostat.cli.adopt:adopt_command", "Take over what another tool has copied."
        ),
        "access": Verb(
            "heliostat.cli.access:access_command", "Show rights that follow the source."
        ),
        "acls": Verb("heliostat.cli.acls:acls_command", "Print the ACLs that a link needs."),
        "examples": Verb(
            "heliostat.cli.examples:examples_command", "Print files that come with the program."
        ),
        "prepare": Verb(
            "heliostat.cli.prepare:prepare_command", "Compile what a first start would."
        ),
        "run": Verb("heliostat.cli.run:run_command", "Mirror until stopped."),
        "serve": Verb("heliostat.cli.serve:serve_command", "Serve metrics and the reading API."),
        "links": Verb("heliostat.cli.links:links_group", "List, make, change and delete links."),
        "pause": Verb("heliostat.cli.wishes:pause_command", "Let a link or topics rest."),
        "resume": Verb("heliostat.cli.wishes:resume_command", "Let them go on."),
        "stop": Verb("heliostat.cli.wishes:stop_command", "Let a link do nothing at all."),
        "start": Verb("heliostat.cli.wishes:start_command", "Let it go on."),
        "restart": Verb("heliostat.cli.restart:restart_command", "Let it begin anew, once."),
        "reverse": Verb("heliostat.cli.reverse:reverse_command", "Copy back what was promoted."),
        "limit": Verb("heliostat.cli.levels:limit_command", "Limit a link's or topic's speed."),
        "prefer": Verb("heliostat.cli.levels:prefer_command", "Let topics come first, or last."),
        "switch": Verb(
            "heliostat.cli.switch:switch_command", "Move producers and consumers, as planned."
        ),
        "failover": Verb(
            "heliostat.cli.failover:failover_command", "Give mirrors away: the source is gone."
        ),
        "drill": Verb("heliostat.cli.drill:drill_command", "Rehearse a switch on the clusters."),
        "status": Verb("heliostat.cli.status:status_command", "Show the state of links."),
        "exposure": Verb("heliostat.cli.exposure:exposure_command", "Say what would be lost now."),
        "explain": Verb("heliostat.cli.explain:explain_command", "Say why, and what to do."),
        "history": Verb("heliostat.cli.history:history_command", "Show the last day."),
        "events": Verb("heliostat.cli.events:events_command", "Show what happens, and follow it."),
        "config": Verb(
            "heliostat.cli.configuration:config_command", "Print the configuration in force."
        ),
        "gaps": Verb("heliostat.cli.gaps:gaps_command", "List lost records and open decisions."),
        "resolve": Verb("heliostat.cli.gaps:resolve_command", "Decide on a stopped partition."),
        "dlq": Verb("heliostat.cli.dlq:dlq_group", "Show, replay and drop dead letters."),
        "tail": Verb("heliostat.cli.tail:tail_group", "Rescue records that never crossed."),
        "export": Verb("heliostat.cli.export:export_command", "Write a topic's records to files."),
        "verify": Verb("heliostat.cli.verify:verify_command", "Compare both sides by content."),
        "offsets": Verb("heliostat.cli.offsets:offsets_group", "Translate offsets between sides."),
        "state": Verb("heliostat.cli.state:state_group", "Rebuild a link's lost state."),
        "sandbox": Verb("heliostat_sandbox.commands:sandbox_group", "Run brokers on this machine."),
    }
)
"""Verbs in the order in which a user needs them; a module is imported when its verb is called."""


def completed(command: click.Command) -> click.Command:
    r"""Give a command what all of ours have: `-h`, and paragraphs whose lines click keeps.

    Docstrings with a backslash are raw strings here, so `\b` is two characters there.
    """
    if command.add_help_option:  # click keeps the option that it made at the first call
        command.add_help_option = False
        click.help_option(*HELP_OPTIONS)(command)
    if command.help is not None:
        command.help = command.help.replace("\\b", "\b")
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            completed(subcommand)
    return command


class VerbGroup(click.Group):
    """Command group that imports a command only when it is called, so that each starts fast."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return list(VERBS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb of that name; None if there is none."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        module, _, attribute = verb.place.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name != SANDBOX:
                raise
            raise click.UsageError(
                f"{cmd_name!r} needs the package heliostat-sandbox: pip install heliostat[sandbox]"
            ) from None
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.place} is not a command")
        return completed(command)

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb of these words; for a word that is none, name the nearest one."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], VERBS, n=1)
            nearest = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{nearest}")
        return super().resolve_command(ctx, args)

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer verbs from the table above, without importing them."""
        verbs = [
            CompletionItem(name, help=verb.summary)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]
        return verbs or click.Command.shell_complete(self, ctx, incomplete)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table above, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group("heliostat", cls=VerbGroup)
@click.version_option(__version__, prog_name="heliostat", message="%(prog)s %(version)s")
def root() -> None:
    r"""Mirror Kafka topics between clusters: equal offsets, each record exactly once, with proof.

    Exit codes of all verbs: 0 in sync, 1 difference or refusal, 2 usage, 3 halted.

    \b
    Examples:
      heliostat topics -c heliostat.yaml     which topics would be mirrored, and why
      heliostat plan -c heliostat.yaml       what would be done at the target
      heliostat run -c heliostat.yaml        mirror, until Ctrl-C
      heliostat verify -c heliostat.yaml     compare both sides by content
    """


completed(root)


def exit_code_of(error: HeliostatError) -> int:
    """Return the exit code for an error that a verb raised."""
    if isinstance(error, ConfigError):
        return USAGE
    return DIFFERENCE if isinstance(error, Refused) else HALTED


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one verb, print errors to stderr, and return the exit code.

    Parameters
    ----------
    arguments
        Arguments; None for those of the command line.
    """
    try:
        answer = root.main(
            args=None if arguments is None else list(arguments),
            prog_name="heliostat",
            standalone_mode=False,
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except HeliostatError as error:
        click.echo(f"heliostat: {error}", err=True)
        return exit_code_of(error)
    except Exception:  # noqa: BLE001  # Python's own code for it, 1, would say "difference"
        traceback.print_exc()
        return HALTED
    return answer if isinstance(answer, int) else 0
