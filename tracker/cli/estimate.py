"""``gpucost estimate``: how long a job takes on each GPU, and the way to that number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import completing, render
from tracker.cli.cheapest import readable
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import CommaList
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import Job, JobError, NoEstimate, RuntimeEstimate
from tracker.domain.texts import figure
from tracker.report.shapes import words
from tracker.report.shapes.estimated import document, remarks, rented, span, worked_out

if TYPE_CHECKING:
    from tracker.domain.runtime.types import Step
    from tracker.report.cheapest import Row
    from tracker.report.estimates import OnGpu

_COLUMNS = (
    render.Column("GPU"), render.Column("GPUS", right=True), render.Column("HOURS", right=True),
    render.Column("RANGE", 1, right=True), render.Column("BASIS", 2),
    render.Column("BOUND BY", 4), render.Column("GiB/GPU", 5, right=True),
    render.Column("$/GPU-H", 3, right=True), render.Column("RENTED", 2, right=True),
    render.Column("MARKET", 4), render.Column("BILLED h", 3, right=True),
    render.Column("TOTAL", 1, right=True), render.Column("PROVIDER", 3),
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", shell_complete=completing.jobs)
@click.option(
    "--gpu", type=CommaList(), multiple=True, help="Families or exact GPUs: A100,H100-SXM-80GB."
)
@click.option(
    "--gpus", type=click.IntRange(1, 10_000), metavar="N", help="GPUs that work together."
)
@click.option(
    "--no-prices", is_flag=True,
    help="Ask no database for the cheapest offer of each, and for what was measured.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip
@click.pass_obj
def estimate(obj: dict[str, Any], /, job: str, **options: Any) -> None:
    """How long JOB takes on each GPU, how sure that is, and how it was worked out.

    JOB is a built-in job's name or a job file; the size of a model (7B) gets no more than a rule of
    thumb of what it fits on. Without --gpus as many GPUs as make the cheapest bill; where no price
    is known the smallest of 1, 2, 4 and 8 that the job fits, or whole machines of 8, and of a
    service as many as its rate takes. The way to the number is shown for the first GPU of the
    table.
    """
    app = App(obj["config"])
    names = tuple(name for group in options["gpu"] for name in group)
    if (parameters := _only_a_size(app, job, options)) is not None:
        from tracker.cli import thumb

        thumb.answer(app, job, parameters, options["output"])
        return
    try:
        readable(job, app)
        wanted = _with_count(app.job(job), options["gpus"])
        found, remark = _found(app, wanted, names, not options["no_prices"])
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    if options["output"] == "json":
        render.print_json(document(wanted, found, remark))
    else:
        _print(wanted, found, remark)
    if not any(isinstance(on.hours, RuntimeEstimate) for on in found):
        raise Exit(EXIT_NO_MATCH, f"{wanted.name} runs on none of these GPUs")


def _only_a_size(app: App, text: str, options: dict[str, Any]) -> float | None:
    """The parameters, where *text* is the size of a model and neither a job nor a file."""
    from tracker.app import kept
    from tracker.domain.rule_of_thumb import size_of

    parameters = size_of(text)
    if parameters is None or Path(text).exists() or kept.path_of(text.lower(), app):
        return None
    if options["gpu"] or options["gpus"]:
        raise click.UsageError(f"{text}: a rule of thumb takes no --gpu and no --gpus; name a job")
    return parameters


def _with_count(job: Job, gpus: int | None) -> Job:
    if gpus is None:
        return job
    return replace(job, gpus_needed=gpus, count_given=job.task is not None)


def _found(
    app: App, job: Job, names: Sequence[str], prices: bool
) -> tuple[list[OnGpu], str | None]:
    """The job on each GPU, and why there are no prices beside it where there are none."""
    from tracker.app.estimating import with_prices, without_prices
    from tracker.store.errors import StoreError

    if not prices:
        return without_prices(app, job, names), None
    try:
        with app.reading() as connection:
            return with_prices(connection, app, job, names, datetime.now(UTC)), None
    except NothingRecorded:
        remark = "No prices yet; ask for some with: gpucost poll"
        return without_prices(app, job, names), remark
    except StoreError as error:
        return without_prices(app, job, names), f"No prices: {error}"


def _print(job: Job, found: Sequence[OnGpu], remark: str | None) -> None:
    fits = [on for on in found if isinstance(on.hours, RuntimeEstimate)]
    service = job.task is not None and job.task.service_hours is not None
    what = "what serves it of each GPU, the fewest" if service else "hours on each GPU, the fastest"
    render.say(f"{job.title or job.name}: {what} first.")
    if fits:
        render.say()
        render.print_table(_COLUMNS, [_cells(on) for on in fits])
    without = [on for on in found if isinstance(on.hours, NoEstimate)]
    if without:
        render.say()
        for on in without:
            if isinstance(on.hours, NoEstimate):
                reason = on.hours.reason
                named = reason.startswith(on.gpu) or f" x {on.gpu}" in reason.split(":")[0]
                render.say(f"{reason if named else f'{_tried(on)}: {reason}'}.")
    if fits:
        render.say()
        _path(job, fits[0])
    for text in remarks(job, remark, found):
        render.say(text)


def _cells(on: OnGpu) -> list[str]:
    hours, row = on.hours, on.row
    assert isinstance(hours, RuntimeEstimate)  # noqa: S101 - the table is of those
    made = worked_out(on)
    return [
        on.gpu, str(on.gpus), (">= " if hours.lower_bound else "") + f"{hours.hours:,.2f}",
        span(hours) or render.DASH,
        hours.basis, str(made.bound) if made else render.DASH,
        f"{made.memory.total:.1f}" if made and made.memory else render.DASH,
        render.usd(row.bill.price.per_gpu(row.bill.gpu_count).usd, 4) if row else render.DASH,
        rented(row) if row else render.DASH,
        row.offer.market.replace("_", "-") if row else render.DASH,
        f"{row.bill.billed_hours:,.2f}" if row else render.DASH,
        _bill(row) if row else render.DASH,
        row.offer.provider if row else render.DASH,
    ]  # fmt: skip


def _bill(row: Row) -> str:
    return (">= " if words.open_ended(row.bill) else "") + render.usd(row.bill.at_least_usd)


def _tried(on: OnGpu) -> str:
    from tracker.domain.runtime.types import DoesNotFit

    gpus = on.answer.gpus if isinstance(on.answer, DoesNotFit) else 1
    return on.gpu if gpus == 1 else f"{gpus} x {on.gpu}"


def _path(job: Job, on: OnGpu) -> None:
    """The steps from the workload to the bill on one GPU."""
    hours, made = on.hours, worked_out(on)
    assert isinstance(hours, RuntimeEstimate)  # noqa: S101
    render.say(f"The way to {render.hours(hours.hours)} on {on.gpus} x {on.gpu}:")
    steps = [(step.name, step.formula, _amount(step)) for step in made.steps] if made else []
    if made is None:
        steps.append(("runtime", f"{hours.basis}: {hours.note or 'as given'}",
                      render.hours(hours.hours)))  # fmt: skip
    if job.task is not None and job.task.service_hours is not None:
        steps.append(("service", "kept up so long", render.hours(job.task.service_hours)))
    steps += list(_money(job, on))
    width = max(len(name) for name, _, _ in steps)
    for name, formula, value in steps:
        render.say(f"{name:<{width}}  {value:<24}  {formula}", indent=2)
    if made is not None:
        sure = "measured on this GPU" if made.calibrated else "no measurement of this GPU"
        fit = f"calibration {made.version} (efficiencies fitted to published measurements)"
        if made.version == "roofline":
            fit = "a plain roofline, to which nothing was fitted"
        render.say(f"  {hours.basis}, bound by {made.bound}; group {made.group}, {sure}, {fit}.")
        for note in made.notes:
            render.say(f"  Note: {note}.")
    if hours.source:
        render.say(f"  Source: {hours.source}.")
    if hours.lower_bound:
        render.say("  It takes at least so long.")


def _money(job: Job, on: OnGpu) -> Iterable[tuple[str, str, str]]:
    if on.row is None:
        return
    b = on.row.bill
    o = on.row.offer
    when = "told by itself" if o.valid_as_of is None else f"typed, read on {o.valid_as_of}"
    yield ("price", f"{o.provider} ({when}), {b.machines} x a machine of "
           f"{render.number(b.gpu_count)} {'GPU' if b.gpu_count == 1 else 'GPUs'}",
           f"{render.usd(b.price.usd, 4)} per machine-hour")  # fmt: skip
    count = render.hours(b.billed_hours)
    yield "billed", "set-up and runtime, rounded up as the seller does", count
    yield "total", "machines x billed hours x price, disk and egress", _bill(on.row)
    for part in b.partial:
        yield "", "not in the total", part
    if on.row.low_usd is not None and on.row.high_usd is not None:
        ends = "hours" if on.row.low_machines is None else "speed"
        yield ("range", f"the bill at both ends of the {ends}",
               f"{render.usd(on.row.low_usd)} to {render.usd(on.row.high_usd)}")  # fmt: skip
    if on.row.beside is not None:
        from tracker.report.shapes import units

        least = ">= " if words.open_ended(b) else ""
        for name, value in units.prices(on.row.beside):
            # "per million output tokens, prompts in it": its first words name the step.
            step = " ".join(name.split(",")[0].split()[:2])
            yield step, f"the whole bill, {name}", f"{least}${units.small_usd(value)}"


_ONE = {"copies": "copy", "sequences": "sequence", "GPUs": "GPU"}


def _amount(step: Step) -> str:
    """What a step comes to, with its unit."""
    unit = _ONE.get(step.unit, step.unit) if step.value == 1 else step.unit
    return f"{_figure(step.value)} {unit}"


def _figure(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return figure(value, 4) if abs(value) < 1e6 else f"{value:.4g}"
