"""An import from beginning to end: read, judge, stage, merge. Killed anywhere, it can go on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from tracker.collect.importing.intake import Intake
from tracker.collect.importing.observation import Report
from tracker.collect.importing.rules import FAR_BELOW, Week, far_below, unconfirmed
from tracker.collect.importing.source import BadSource, Plan, Source
from tracker.collect.importing.source_table import Columns, TableFile
from tracker.domain.gpu import Catalogue
from tracker.domain.quality import Rules
from tracker.store import import_merge, imports
from tracker.store.bulk import NotByColumns, months
from tracker.store.bulk.memory import give_back
from tracker.store.engine import connect, translated

Progress = Callable[[int, int | None, str], None]  # units done, of how many, the last one's name


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an import ended. ``spans`` were written, ``replaced`` taken away. None on a dry run."""

    report: Report
    run: int | None = None
    spans: int | None = None
    replaced: int | None = None
    repeated: bool = False  # finished before, with this very content: nothing was done
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Judging:
    """What prices are judged with, and the time window asked for: [since, until)."""

    catalogue: Catalogue
    rules: Rules
    since: datetime | None = None
    until: datetime | None = None


def dry_run(source: Source, judging: Judging, progress: Progress) -> Outcome:
    """Read and judge everything, and write nothing. Raises ImportFailed."""
    told = _dry_by_columns(source, judging, progress)
    if told is not None:
        return Outcome(told)
    report = Report()
    intake = _intake(source.plan, judging, report)
    if not source.plan.listings:
        intake.doubt_the_whole()
    done = 0
    for done, unit in enumerate(source.units(None), 1):
        if unit.snapshot is None:
            report.absent += 1
        else:
            intake.take(unit.snapshot)
        progress(done, source.plan.total, unit.label)
    _nothing(done, report, source.plan)
    intake.doubt()
    return Outcome(report)


def _dry_by_columns(source: Source, judging: Judging, progress: Progress) -> Report | None:
    columns = source.by_columns if isinstance(source, TableFile) else None
    if columns is None:
        return None
    from tracker.collect.importing import by_columns

    report = by_columns.dry(columns, (judging.since, judging.until), progress)
    if report is not None and not report.rows:
        _nothing(0, report, source.plan)
    return report


class Connections:
    """The one that commits what is read, and the one that merges it. That is opened when it is
    needed: reading may take hours, after which many a network has forgotten an idle one."""

    def __init__(self, url: str, open_until: ExitStack) -> None:
        self._url, self._open_until = url, open_until
        self.reading = self._open()
        self.reading.autocommit = True

    @cached_property
    def merging(self) -> imports.Connection:
        """Not in autocommit."""
        return self._open()

    def _open(self) -> imports.Connection:
        opened = connect(self._url, statement_timeout_s=0, lock_timeout_s=60)
        return self._open_until.enter_context(opened)


def run_import(url: str, source: Source, judging: Judging, progress: Progress) -> Outcome:
    """Import everything of *source* into the database at *url*.

    1. Take up the interrupted run of the same content, or begin one. 2. Stage file by file, each
    with the run's position. 3. Take back what only the whole shows to be wrong. 4. Merge all of it
    into history, in one transaction.

    Raises ImportFailed when the source fails: then the same call goes on later; ImportBusy; and
    StoreError.
    """
    plan = source.plan
    with translated(), ExitStack() as open_until:
        connections = Connections(url, open_until)
        run = imports.begin(
            connections.reading, format=plan.format, source=plan.source, digest=plan.digest,
            slug=plan.slug, hold_seconds=round(plan.hold.total_seconds()), settled=plan.settled,
            position=dict(plan.position),
        )  # fmt: skip
        report = Report.from_json(run.counts)
        if run.done:
            return Outcome(report, run.id, 0, 0, repeated=True)
        report, begun = _read(url, connections, run, source, judging, progress)
        merged = import_merge.merge(connections.merging, run, report.to_json(), begun)
    return Outcome(report, run.id, merged.spans, merged.replaced, resumed=run.resumed)


def _read(
    url: str, connections: Connections, run: imports.Run, source: Source, judging: Judging,
    progress: Progress,
) -> tuple[Report, bool | None]:  # fmt: skip
    """Stage everything that the run has not staged yet, less what is not believed; what
    ``import_merge.begin`` said, where that has been called."""
    report, connection = Report.from_json(run.counts), connections.reading
    columns = source.by_columns if isinstance(source, TableFile) else None
    begun = run.position.get("units", 0) > 0
    if columns is not None and (run.position.get("columns") is True or not begun):
        try:
            return report, _read_columns(
                url, connections, run, columns, source.plan, judging, report, progress
            )
        except NotByColumns:
            imports.start_over(connection, run, dict(source.plan.position))
            report = Report()
    if run.position.get("read") is not True:
        _stage(connection, run, source, judging, report, progress)
    if not source.plan.listings and run.position.get("judged") is not True:
        _take_back(connection, run, report, far_below(lowest_by_week(connection, run)))
    return report, None


def _read_columns(
    url: str, connections: Connections, run: imports.Run, columns: Columns, plan: Plan,
    judging: Judging, report: Report, progress: Progress,
) -> bool:  # fmt: skip
    from tracker.collect.importing import by_columns

    connection = connections.reading
    if run.position.get("judged") is True:
        return _index(url, connections, run)
    window = judging.since, judging.until
    doubted = by_columns.stage(url, connection, run, columns, report, window, progress)
    give_back()
    if not report.rows:
        _nothing(0, report, plan)
    if run.position.get("settled") is not True:
        with connection.transaction(), connection.cursor() as cursor:
            months.settle(cursor, run)
            run.position["settled"] = True
            _note(connection, run, report)
    begun = _index(url, connections, run, doubted.numbers)
    _take_back(connection, run, report, doubted.limits, doubted.numbers)
    return begun


def _index(
    url: str, connections: Connections, run: imports.Run, doubted: Sequence[int] = ()
) -> bool:
    """Make the indexes of the staged months, by which the few *doubted* offers are found, and
    beside that the other offers' rows, in the transaction that will be the merge's."""
    return months.index(
        url, connections.reading, run,
        lambda: import_merge.begin(connections.merging, run, doubted),
    )  # fmt: skip


def _intake(plan: Plan, judging: Judging, report: Report, **more: Any) -> Intake:
    return Intake(
        judging.catalogue, judging.rules, plan.slug, report, listings=plan.listings,
        since=judging.since, until=judging.until, **more,
    )  # fmt: skip


def _stage(
    connection: imports.Connection, run: imports.Run, source: Source, judging: Judging,
    report: Report, progress: Progress,
) -> None:  # fmt: skip
    numbers = imports.known_offers(connection, run)
    intake = _intake(source.plan, judging, report, numbers=numbers, state=run.position.get("state"))
    done: int = run.position.get("units", 0)
    for unit in source.units(run.position.get("after")):
        done += 1
        if unit.snapshot is None:
            report.absent += 1
            offers, prices, moments = [], [], []
        else:
            taken = intake.take(unit.snapshot)
            offers, prices, moments = taken.offers, taken.prices, taken.moments
        run.position |= {"after": unit.key, "units": done, "state": intake.state}
        imports.stage(
            connection, run, offers=offers, prices=prices, moments=moments,
            position=run.position, counts=report.to_json(),
        )  # fmt: skip
        progress(done, source.plan.total, unit.label)
    _nothing(done, report, source.plan)
    run.position["read"] = True
    _note(connection, run, report)


def _note(connection: imports.Connection, run: imports.Run, report: Report) -> None:
    """Keep how far the run is."""
    imports.stage(connection, run, offers=(), prices=(), moments=(), position=run.position,
                  counts=report.to_json())  # fmt: skip


def _nothing(units: int, report: Report, plan: Plan) -> None:
    if units == report.absent:
        raise BadSource(f"{plan.source}: nothing found ({report.absent} dates asked for)")


def lowest_by_week(
    connection: imports.Connection, run: imports.Run
) -> Mapping[Week, Mapping[str, int]]:
    """Each seller's lowest list price, in micro-USD per GPU-hour, of what is staged."""
    lowest: dict[Week, dict[str, int]] = defaultdict(dict)
    for family, monday, seller, micro_usd in imports.lowest_by_week(connection, run):
        lowest[Week(family, monday)][seller] = micro_usd
    return lowest


def _take_back(
    connection: imports.Connection, run: imports.Run, report: Report,
    limits: Mapping[tuple[Week, str], int], doubted: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """Take back what is far below all others, now that everything has been staged.

    *limits* are what prices may not be below; *doubted* the offers that may have been, of an import
    by columns.
    """
    with connection.transaction():
        if doubted is not None:
            with connection.cursor() as cursor:
                months.settle(cursor, run, doubted)
        told = [imports.Limit(*week, seller, micro_usd)
                for (week, seller), micro_usd in limits.items()]  # fmt: skip
        below = imports.days_below(connection, run, told)
        wrong = unconfirmed((n, day) for n, day, _ in below)
        for row in imports.withdraw(connection, run, [d for d in below if d[0] in wrong]):
            sample = f"{row.seller} {row.native_id}: {row.gpu_key}"
            report.drop(FAR_BELOW, row.seller, row.gpu_key, sample, row.rows)
        run.position["judged"] = True
        _note(connection, run, report)
