"""``gpucost cheapest --as TOOL``: the best offer as what another tool launches it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tracker.cli.exits import EXIT_NO_MATCH, Exit

if TYPE_CHECKING:
    from tracker.cli.verify import Verdict
    from tracker.domain.gpu import Catalogue
    from tracker.report.cheapest import CheapestReport

_SHOWN = 3  # of those that are passed over


def refuse(options: Mapping[str, Any]) -> None:
    """Refuse what does not go with --as. Raises UsageError."""
    if options["as_of"] is not None:
        raise click.UsageError("--as and --as-of exclude each other: what was then is gone")
    context = click.get_current_context()
    for name in ("output", "explain", "compare", "top"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"--as and --{name} exclude each other: it prints one file or command"
            )


def print_launch(
    report: CheapestReport, verdicts: Sequence[Verdict], tool: str, catalogue: Catalogue
) -> None:
    """Print the first of the ranked offers that *tool* can launch; on stderr why not those before.

    Raises Exit where it can launch none of them. Where there are none at all, the caller says so.
    """
    from tracker.cli import render
    from tracker.report.launching import CannotLaunch, launch
    from tracker.report.shapes import words
    from tracker.report.shapes.rows import ref

    for verdict in verdicts:
        click.echo(render.visible(verdict.sentence()), err=True)
    if not report.rows:
        footer = render.footer(report.considered, report.total_offers, report.excluded)
        click.echo(render.visible(footer), err=True)
        return
    passed: list[str] = []
    for row in report.rows:
        try:
            found = launch(row, report.job, catalogue.gpu(row.offer.gpu_key), tool)
        except CannotLaunch as error:
            passed.append(
                f"#{row.rank} ({row.offer.gpu_key}, {row.offer.provider}, {words.total(row.bill)}, "
                f"offer {ref(row.offer.key)}) {error}"
            )
            continue
        for line in passed[:_SHOWN]:
            click.echo(render.visible(line), err=True)
        if passed:
            those = f"the {len(passed)} offers" if len(passed) > 1 else "the offer"
            click.echo(f"{tool} cannot launch {those} before #{row.rank}, which this is", err=True)
        click.echo(found.text, nl=False)
        return
    raise Exit(EXIT_NO_MATCH, f"{tool} can launch none of these offers: {passed[0]}")
