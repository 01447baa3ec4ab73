"""Options that several commands share, with their meaning and their parsing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tracker.app import asked
from tracker.app.asked import MARKETS as MARKETS
from tracker.app.asked import BadQuestion
from tracker.domain.kind import KINDS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tracker.report.filters import Filters

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "wide", "json", "csv", "ndjson")


class CommaList(click.ParamType[tuple[str, ...]]):
    """``A100,H100`` or the option given several times."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return asked.words(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        from tracker.cli.completing import listed

        return listed(ctx, param.opts[0], incomplete)


class Duration(click.ParamType[timedelta]):
    """``90s``, ``30m``, ``2h``, ``7d``."""

    name = "DURATION"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return asked.duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType[datetime]):
    """``2026-03-01`` or ``2026-03-01T12:00Z``; without a zone it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return asked.moment(str(value), datetime.now(UTC))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Positive(click.ParamType[Decimal]):
    """A number above zero, or with *zero* not below it, exactly as typed; of a *unit* or none."""

    name = "NUMBER"

    def __init__(
        self, *, zero: bool = False, most: Decimal = Decimal(10) ** 9, unit: str = ""
    ) -> None:
        self._zero, self._most, self._unit = zero, most, unit

    def convert(self, value: Any, param: Any, ctx: Any) -> Decimal:
        try:
            return asked.positive(str(value), zero=self._zero, most=self._most, unit=self._unit)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def stack(options: list[Callable[[F], F]]) -> Callable[[F], F]:
    """All of *options* as one decorator, listed by --help in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _many(name: str, help_: str) -> Callable[[F], F]:
    return click.option(f"--{name}", type=CommaList(), multiple=True, help=help_)


# What history can tell of an offer. The GPUs are named by each command in its own way.
_past_options: Callable[[F], F] = stack(
    [
        _many("provider", "Only these providers."),
        _many("region", "Only these regions; * and ? match anything: us-*."),
        _many("country", "Only these countries (two-letter codes)."),
        _many("market", f"{', '.join(MARKETS)}. Default: all that is not interruptible."),
        _many(
            "tier",
            "Trust classes (secure, community, verified, unverified, dedicated, vps, standard) or "
            "any. Default: each provider's own.",
        ),
        click.option("--min-vram", type=Positive(unit="GB"), help="At least so many GB per GPU."),
        click.option("--gpus", type=click.IntRange(1, 10_000), metavar="N", help="GPUs needed."),
        click.option(
            "--min-ram", type=Positive(unit="GiB"), help="At least so many GiB per machine."
        ),
        click.option("--min-vcpus", type=Positive(), help="At least so many per machine."),
        click.option(
            "--min-disk", type=Positive(unit="GB"), help="At least so many GB per machine."
        ),
        click.option("--interconnect", metavar="WORD", help="A word of it: nvlink, infiniband."),
        _many("kind", f"What is rented: {', '.join(KINDS)}."),
        click.option("--dedicated", is_flag=True, help="Only machines of one's own."),
        click.option("--ecc", is_flag=True, help="Only GPUs with ECC memory."),
    ]
)

# What a command has that names its GPUs in another way.
filter_options_but_gpu: Callable[[F], F] = stack(
    [
        _past_options,
        click.option(
            "--min-network",
            type=Positive(unit="Mbit/s"),
            help="At least so many Mbit/s down, per machine.",
        ),
        click.option("--available", is_flag=True, help="Only what the provider says is in stock."),
        click.option(
            "--max-age",
            type=Duration(),
            help="Only prices confirmed within this time: 30m, 2h, 7d.",
        ),
        click.option("--include-stale", is_flag=True, help="Stale prices too (marked)."),
        click.option(
            "--as-of", type=Moment(), help="As it was then (UTC): 2026-11-20, 2026-11-20T12:00Z."
        ),
    ]
)

_gpu_option: Callable[[F], F] = _many("gpu", "Families or exact GPUs: A100,H100-SXM-80GB,4090.")
filter_options: Callable[[F], F] = stack([_gpu_option, filter_options_but_gpu])

# Those of a question about the past: what is only known for now (app/past.py) is not among them.
past_filter_options: Callable[[F], F] = stack([_gpu_option, _past_options])


def top_option(default: int) -> Callable[[F], F]:
    """``--top N`` and ``--all``."""
    top = click.option("--top", type=click.IntRange(1, 100_000), default=default, metavar="N",
                       show_default=True, help="Only the cheapest N.")  # fmt: skip
    every = click.option("--all", "show_all", is_flag=True, help="Every one that fits.")
    return stack([top, every])


output_option: Callable[[F], F] = click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip


def filters_from(options: dict[str, Any]) -> Filters:
    """Take the shared filter options out of *options* and return them as Filters.

    ``gpus`` and ``as_of`` stay with the command: what they mean is its own business. Raises
    click.UsageError on constraints that no offer can fulfil.
    """
    names = {name: _flat(options, name) for name in asked.LISTS if name in options}
    values = names | {name: options[name] for name in asked.FILTERS if name in options}
    values |= {"verify": options.get("verify")}
    for name in asked.FILTERS:
        if name not in ("gpus", "as_of"):
            options.pop(name, None)
    try:
        return asked.filters_of(values)
    except BadQuestion as error:
        raise usage(error) from None


def usage(error: BadQuestion) -> click.UsageError:
    """The complaint of a command about a question that makes no sense."""
    text = error.said(_option)
    if error.parameter is None:
        return click.UsageError(text)
    return click.BadParameter(text, param_hint=_option(error.parameter))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flat(options: dict[str, Any], name: str) -> tuple[str, ...]:
    return tuple(item for group in options.pop(name) for item in group)


def refuse_all_with_top(show_all: bool) -> None:
    """Refuse ``--all`` beside a ``--top`` that was typed."""
    source = click.get_current_context().get_parameter_source("top")
    if show_all and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--all and --top exclude each other")
