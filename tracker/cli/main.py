"""The ``gpucost`` command: its sub-commands, loaded when called, and its exit codes."""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tracker import __version__
from tracker.cli.exits import EXIT_BUG, EXIT_HELP, Exit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# command → (module in tracker.cli, attribute, one line of help). The help stands here so that
# `gpucost --help` imports no command.
COMMANDS = {
    "cheapest": ("cheapest", "cheapest", "The cheapest way to run a job: ranked bills."),
    "estimate": ("estimate", "estimate", "How long a job takes on each GPU, and how one knows."),
    "history": ("history", "history", "What a job cost over time, and on which GPU when."),
    "compare": ("compare", "compare", "One GPU against another for a job: which, and until when."),
    "when": ("when", "when", "Start a job now, or wait for a lower price?"),
    "own": ("own", "own", "Buy a machine for a job, or rent the cheapest that does its work?"),
    "month": ("month", "month", "What recurring jobs come to in a month, together."),
    "jobs": ("jobs", "jobs", "Jobs: list, show, check, keep and measure them."),
    "offers": ("offers", "offers", "What can be rented now, at what price."),
    "explain": ("explain", "explain", "Where one offer's price comes from."),
    "poll": ("poll", "poll", "Ask providers for their prices now and record them."),
    "import": ("import_", "import_", "Price history that somebody else has kept."),
    "export": ("export", "export", "Offers, history, floor and polls as files."),
    "demo": ("demo", "demo", "A small real history, without a network: how it looks."),
    "serve": ("serve", "serve", "Answer over HTTP: the programming interface, health, metrics."),
    "mcp": ("mcp", "mcp", "Answer assistants: a server of the Model Context Protocol."),
    "daemon": ("daemon", "daemon", "Poll and alert in the background, for months."),
    "alerts": ("alerts", "alerts", "Alert rules: how they stand, tests, silences, notices."),
    "providers": ("providers", "providers", "Each provider's health, age and counts."),
    "provider": ("provider", "provider", "Check, record or parse one provider's answers."),
    "db": ("db", "db", "The database: status, upgrade, start, stop."),
    "completion": ("completion", "completion", "Completion of names in bash, zsh and fish."),
    "doctor": ("doctor", "doctor", "What works here, what does not, and what to do about it."),
}  # fmt: skip


# How variables that hold a credential end, ours and those of providers.
_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


class LazyGroup(click.Group):
    """A group that imports a sub-command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(
            importlib.import_module(f"tracker.cli.{module}"), attribute
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else " See gpucost --help."
            raise click.UsageError(f"No such command: {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=text)
            for name, (_, _, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    epilog=EXIT_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gpucost")
@click.option(
    "--config", metavar="FILE", envvar="GPUCOST_CONFIG", help="Configuration file (gpucost.toml)."
)
@click.pass_context
def cli(ctx: click.Context, config: str | None) -> None:
    """What a whole GPU job costs, on every cloud that rents GPUs, now and over time."""
    ctx.obj = {"config": config}


def main() -> None:
    """Run the command line. No traceback reaches a user unless GPUCOST_DEBUG is set."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a dash is no error
            stream.reconfigure(errors="backslashreplace")
    # A command is short and makes many small objects without cycles: look for cycles seldom.
    gc.set_threshold(100_000, 50, 50)
    # A service manager's stop is an orderly end: an embedded server must not outlive the command.
    signal.signal(signal.SIGTERM, _terminated)
    code = _run()
    gc.freeze()  # nor once more at the end, in what the end of the process frees anyway
    sys.exit(code)


def _terminated(_signal: int, _frame: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _run(args: Sequence[str] | None = None) -> int:
    """Run *args* (None: those of the process) and return the exit code."""
    stdout = sys.stdout
    try:
        result = cli.main(args, prog_name="gpucost", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except Exit as error:
        if error.message:
            _complain(error.message)
        return error.code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        _complain(error.format_message())
        return 2
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return 130
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit:
        # Where the pipe broke while click ran, it puts a stream of its own in the place of this one
        # and ends with 1, which says "a bug".
        if sys.stdout is stdout:
            raise
        return _reader_gone()
    except UnicodeEncodeError as error:
        given = sys.argv[1:] if args is None else args
        if not any(not word.isascii() and _not_text(word) for word in given):
            return _failed(error)
        _complain("an argument is not UTF-8 text")
        return 2
    except Exception as error:
        return _failed(error)


def _reader_gone() -> int:
    """The reader went away (``| head``): no error. Keeps the interpreter from flushing again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _not_text(word: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in word)


def _failed(error: Exception) -> int:
    """One line for what was not foreseen; known store and settings errors have their own codes."""
    from tracker.cli.exits import known
    from tracker.telemetry import Redactor

    redactor = Redactor(value for name, value in os.environ.items() if name.endswith(_SECRETS))
    redactor.register_url(os.environ.get("GPUCOST_DATABASE_URL"))
    if os.environ.get("GPUCOST_DEBUG"):
        click.echo(redactor.traceback(error), err=True)
    exit_ = known(error)
    if exit_ is not None:
        _complain(redactor(exit_.message or ""))
        return exit_.code
    _complain(
        f"internal error ({redactor.error(error)}); "
        "set GPUCOST_DEBUG=1 for the details and please report it"
    )
    return EXIT_BUG


def _complain(message: str) -> None:
    """One line on stderr, whatever a provider or a file put into the message."""
    from tracker.cli.render import visible

    click.echo(f"gpucost: {visible(' '.join(message.split()))}", err=True)
