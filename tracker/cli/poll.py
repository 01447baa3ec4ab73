"""``gpucost poll``: ask providers for their prices now and record them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, enabled
from tracker.cli import render
from tracker.cli.exits import EXIT_ALL_FAILED, EXIT_USAGE, Exit
from tracker.cli.options import CommaList, Duration, output_option

if TYPE_CHECKING:
    from tracker.collect import PollOutcome

COLUMNS = ("provider", "status", "offers", "quarantined", "rejected", "unmapped", "opened",
           "changed", "closed", "requests", "bytes", "seconds", "reason")  # fmt: skip

OWN_FILES = "pricebook"  # whose answers are files that the user writes
MAX_MISTAKES = 10

OFFLINE = "nobody could be reached: this machine seems to be offline, or needs HTTPS_PROXY"
_UNREACHED = ("cannot connect", "no connection within", "not asked, the time")

_TABLE = (
    render.Column("PROVIDER"), render.Column("STATUS"), render.Column("OFFERS", right=True),
    render.Column("HELD", right=True), render.Column("REJECTED", right=True),
    render.Column("NEW", 1, right=True), render.Column("CHANGED", 1, right=True),
    render.Column("GONE", 1, right=True), render.Column("TIME", 2, right=True),
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--provider", "names", type=CommaList(), multiple=True, help="Only these providers.")
@click.option("--deadline", type=Duration(), help="Stop asking after this (30s, 2m), and 1 s.")
@click.option("--dry-run", is_flag=True, help="Ask and judge, but write nothing.")
@output_option
@click.pass_obj
def poll(obj: dict[str, Any], /, names: tuple[tuple[str, ...], ...], **options: Any) -> None:
    """Poll providers side by side and record what they answer.

    Without --provider every installed provider that needs no key, or whose key is set, is polled.
    A provider that fails never hides the others; it is an error only when all of them fail.
    """
    app = App(obj["config"])
    wanted = [name.lower() for group in names for name in group] or None
    chosen, left_out = enabled(app, wanted)
    if not chosen:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out)
        raise Exit(EXIT_USAGE, f"no provider to poll ({why or 'all are disabled'})")
    deadline = options["deadline"].total_seconds() if options["deadline"] else None
    from tracker.collect import poll_all

    with (
        app.collector(dry_run=options["dry_run"]) as collector,
        render.progress("polling", [p.name for p, _ in chosen]) as done,
    ):
        outcomes = asyncio.run(
            poll_all(collector, chosen, deadline_s=deadline, on_done=lambda o: done(o.provider))
        )
    report(outcomes, left_out, options["output"], dry_run=options["dry_run"])
    for line in mistakes(outcomes):
        click.echo(
            render.visible(collector.redact(line)), err=options["output"] not in ("table", "wide")
        )
    asked = [o for o in outcomes if o.provider != OWN_FILES]
    if seem_unreachable(None if o.ok or o.bytes else o.reason for o in asked):
        click.echo(OFFLINE, err=True)
    if not any(o.ok for o in asked) and (len(outcomes) > 1 or not outcomes[0].ok):
        read = ", only the price book was read" if any(o.ok for o in outcomes) else ""
        raise Exit(EXIT_ALL_FAILED, f"no provider gave usable prices{read}; see the reasons above")


def seem_unreachable(errors: Iterable[str | None]) -> bool:
    """Whether two providers or more failed, and all for want of a connection: *errors* are what
    was said of each, None of one that answered."""
    said = list(errors)
    return len(said) > 1 and all(e is not None and any(u in e for u in _UNREACHED) for e in said)


def report(
    outcomes: Sequence[PollOutcome], left_out: Sequence[tuple[str, str]], output: str, *,
    dry_run: bool,
) -> None:  # fmt: skip
    """One line a provider: how it went, and why not where it did not."""
    rows = [outcome_row(o) for o in outcomes]
    rows += [dict.fromkeys(COLUMNS) | {"provider": name, "status": "left out", "reason": reason}
             for name, reason in left_out]  # fmt: skip
    if output not in ("table", "wide"):
        render.print_rows(output, rows, COLUMNS, {"dry_run": dry_run})
        return
    render.print_table(_TABLE, [_line(r) for r in rows], wide=output == "wide")
    for r in rows:
        if r["reason"]:
            render.say(f"{r['provider']}: {r['reason']}")
    if dry_run:
        render.say("dry run: nothing was written")


def mistakes(outcomes: Sequence[PollOutcome]) -> Iterator[str]:
    """What is wrong in the user's own files: the row and the key of each, the first few of many."""
    for o in outcomes:
        if o.provider != OWN_FILES or o.digest is None:
            continue
        # The digest keeps one sample of a reason for all; the parser's own are of every row.
        rejected = (*o.digest.parsed.rejected, *o.digest.rejected)
        samples = list(dict.fromkeys((r.reason, r.sample) for r in rejected))[:MAX_MISTAKES]
        for reason, sample in samples:
            yield f"{o.provider}: {reason}: {sample}"
        if (more := len(o.digest.rejected) - len(samples)) > 0:
            yield f"{o.provider}: and {render.counted(more, 'more mistake')}"


def outcome_row(o: PollOutcome) -> dict[str, Any]:
    """A poll's outcome as plain values."""
    return {
        "provider": o.provider,
        "status": o.status,
        "offers": o.accepted,
        "quarantined": o.held,
        "rejected": dict(o.rejected),
        "unmapped": o.unmapped,
        "opened": o.opened,
        "changed": o.changed,
        "closed": o.closed,
        "requests": o.requests,
        "bytes": o.bytes,
        "seconds": round(o.seconds, 1),
        "reason": o.reason,
    }


def _line(r: Mapping[str, Any]) -> list[str]:
    rejected = None if r["rejected"] is None else sum(r["rejected"].values())
    figures = (r["offers"], r["quarantined"], rejected, r["opened"], r["changed"], r["closed"])
    return [
        r["provider"], r["status"], *(render.count(n) for n in figures),
        render.DASH if r["seconds"] is None else f"{r['seconds']:.1f} s",
    ]  # fmt: skip
