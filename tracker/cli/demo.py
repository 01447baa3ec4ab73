"""``gpucost demo``: a small real history in a database of its own, and what one can ask of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli import render

if TYPE_CHECKING:
    from tracker.domain.crossings import Crossings
    from tracker.report.history.answer import HistoryReport

LEFT, RIGHT = "A100-SXM-40GB", "H100"
HOURS = f"{LEFT}=12,{RIGHT}=4"
ASKED = f"--hours {HOURS} --gpu {LEFT},{RIGHT} --market spot --region us-central1"
START, END = datetime(2024, 9, 19, tzinfo=UTC), datetime(2026, 8, 1, tzinfo=UTC)
EVERY_MONTHS = 2
_FILES = ("prices.csv", "prices.toml", "settings.toml")
# What of the environment still counts: how to run the embedded server.
_KEPT = ("GPUCOST_POSTGRES_BINDIR", "GPUCOST_POSTGRES_USER")

_TABLE = (
    render.Column("ON"), render.Column(f"12 h ON {LEFT}", right=True),
    render.Column(f"4 h ON {RIGHT}", right=True), render.Column("CHEAPER"),
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_obj
def demo(obj: dict[str, Any], /) -> None:
    """A small history of real prices, and what one can ask of it. Needs no network.

    It has an embedded database of its own, beside your data, and leaves yours alone.
    """
    folder = App(obj["config"]).boot.data_dir / "demo"
    app = demo_app(folder)
    with app.database(upgrade=True) as url:
        _fill(app, url)
        report = _history(app)
    _show(report)
    _commands(folder)


def demo_app(folder: Path) -> App:
    """The demo's own App: an embedded database in *folder*, and nobody's configuration."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPUCOST_")}
    env |= {name: os.environ[name] for name in _KEPT if name in os.environ}
    env["GPUCOST_DATA_DIR"] = str(folder)
    with _files() as files:
        app = App(files / "settings.toml", env)
        _ = app.boot, app.settings  # read now: the file is a packaged one, perhaps in a zip
    return app


@contextmanager
def _files() -> Iterator[Path]:
    """The packaged files as files, wherever the package is."""
    import tempfile

    from tracker import data

    with tempfile.TemporaryDirectory(prefix="gpucost-demo-") as folder:
        for name in _FILES:
            (Path(folder) / name).write_text(data.text(f"demo/{name}"), encoding="utf-8")
        yield Path(folder)


def _fill(app: App, url: str) -> None:
    """Import the shipped prices; the second time that is nothing."""
    from tracker.collect.importing.opening import Request, open_source
    from tracker.collect.importing.run import Judging, run_import

    with _files() as files:
        request = Request(
            "csv", str(files / "prices.csv"), datetime.now(UTC), mapping=files / "prices.toml"
        )
        # Wherever the file lies this time, it is the same source.
        source = open_source(request, lambda _url: None)
        source.plan = _placeless(source.plan)
        run_import(url, source, Judging(app.catalogue, app.rules()), lambda *_: None)


def _placeless(plan: Any) -> Any:
    import hashlib
    from dataclasses import replace

    from tracker import data

    digest = hashlib.sha256("".join(data.text(f"demo/{name}") for name in _FILES).encode()).digest()
    return replace(plan, source="tracker/data/demo/prices.csv", digest=digest)


def _history(app: App) -> HistoryReport:
    """What the job of the demo cost at every moment, on each of its two GPUs."""
    from tracker.domain.job import Job
    from tracker.domain.job_text import parse_hours
    from tracker.report.filters import Filters
    from tracker.report.history.answer import Question, history_report

    job = Job(name="demo", title="Job", hours=parse_hours(HOURS, app.catalogue))
    filters = Filters(gpus=(LEFT, RIGHT), markets=("spot",), regions=("us-central1",))
    question = Question(job, filters, START, END, groups=(LEFT, RIGHT))
    with app.reading() as connection:
        return history_report(connection, question, app.catalogue, datetime.now(UTC))


def _show(report: HistoryReport) -> None:
    from tracker.domain.crossings import crossings
    from tracker.report.history.steps import series_of

    left, right = (series_of(report.series[name]) for name in (LEFT, RIGHT))
    render.say(
        "Google Cloud's spot prices in us-central1, read about weekly by"
        " Cyclenerd/google-cloud-pricing-cost-calculator (Apache-2.0). A job of 12 hours on one"
        f" {LEFT} or 4 hours on one {RIGHT} cost:"
    )
    render.say()
    render.print_table(_TABLE, list(_rows(report)))
    render.say()
    for line in _sentences(crossings(left, right)):
        render.say(line)


def _rows(report: HistoryReport) -> Iterator[Sequence[str]]:
    from tracker.report.history.steps import step_at

    day = START
    while day < END:
        noon = day.replace(hour=12)
        steps = [step_at(report.series[name], noon) for name in (LEFT, RIGHT)]
        bills = [step.usd if step else None for step in steps]
        cheaper = render.DASH
        if bills[0] is not None and bills[1] is not None:
            cheaper = LEFT if bills[0] < bills[1] else RIGHT
        yield [f"{day:%Y-%m-%d}", *(render.usd(bill) for bill in bills), cheaper]
        month = day.month - 1 + EVERY_MONTHS
        day = day.replace(year=day.year + month // 12, month=month % 12 + 1)


def _sentences(found: Crossings) -> Iterator[str]:
    """Each change of the cheaper one, with its date and both bills."""
    names = {"left": LEFT, "right": RIGHT}
    if found.initial is not None:
        yield f"At first the {names[found.initial]} job was the cheaper one."
    for change in found.changes:
        yield (
            f"From {change.at:%Y-%m-%d} on the {names[change.to]} job was:"
            f" {LEFT} {render.usd(change.left)}, {RIGHT} {render.usd(change.right)}."
        )


def _commands(folder: Path) -> None:
    from tracker.cli.main import COMMANDS

    render.say()
    render.say("Ask this history yourself, in the same shell:")
    render.say(f"export GPUCOST_DATA_DIR={_quoted(folder)}", 2)
    if os.environ.get("GPUCOST_DATABASE_URL"):
        render.say("unset GPUCOST_DATABASE_URL", 2)
    lines = [
        f"gpucost cheapest {ASKED} --as-of 2025-03-13T12:00Z",
        f"gpucost offers --gpu {RIGHT} --market spot --as-of 2026-07-10",
        "gpucost export history demo.csv -o csv",
    ]
    if "history" in COMMANDS:
        lines.insert(0, f"gpucost history {ASKED} --since 2024-09-19")
    for line in lines:
        render.say(line, 2)


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
