"""How answers are printed: tables for people, JSON, CSV and NDJSON for programs.

The only module that imports rich, and only when a table is drawn. Money is text, never a float;
other quantities are numbers in JSON. What is not known is ``null`` (an empty CSV cell, a dash in
a table), never 0. What providers say is data: nothing in it reaches a terminal as a command.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from tracker.report.shapes.texts import DASH as DASH
from tracker.report.shapes.texts import SCHEMA_VERSION as SCHEMA_VERSION
from tracker.report.shapes.texts import age as age
from tracker.report.shapes.texts import count as count
from tracker.report.shapes.texts import counted as counted
from tracker.report.shapes.texts import csv_cell as csv_cell
from tracker.report.shapes.texts import duration as duration
from tracker.report.shapes.texts import footer as footer
from tracker.report.shapes.texts import hours as hours
from tracker.report.shapes.texts import iso as iso
from tracker.report.shapes.texts import json_text as json_text
from tracker.report.shapes.texts import number as number
from tracker.report.shapes.texts import plain as plain
from tracker.report.shapes.texts import quantity as quantity
from tracker.report.shapes.texts import usd as usd
from tracker.report.shapes.texts import usd_text as usd_text
from tracker.report.shapes.texts import visible as visible

GAP = "  "


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document with its ``schema_version``."""
    sys.stdout.write(
        json_text({"schema_version": SCHEMA_VERSION, **plain(document)}, indent=2) + "\n"
    )


def print_ndjson(rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line."""
    for row in rows:
        sys.stdout.write(json_text({"schema_version": SCHEMA_VERSION, **plain(row)}) + "\n")


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A header and the rows. Text that a spreadsheet would run as a formula gets a quote."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([csv_cell(plain(row.get(column))) for column in columns])


def print_rows(output: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str],
               document: Mapping[str, Any], footer: str = "") -> None:  # fmt: skip
    """Print *rows* as ``json`` (inside *document*), ``csv`` or ``ndjson``.

    The latter two have no place for *footer* (what was left out): it goes to stderr.
    """
    if output == "json":
        print_json({**document, "rows": rows})
        return
    if output == "ndjson":
        print_ndjson(rows)
    else:
        print_csv(rows, columns)
    if footer:
        click.echo(visible(footer), err=True)


class Column(NamedTuple):
    """A column of a table. Those with the highest ``drop`` go first where a terminal is narrow;
    0 stays on every terminal."""

    name: str
    drop: int = 0
    right: bool = False


def fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The indices of the columns that fit *width*, in order.

    Columns that may go and hold nothing at all go first, then those with the highest ``drop``, to
    which two are added where all rows say the same.
    """
    from rich.cells import cell_len

    def order(index: int) -> tuple[bool, int, int]:
        cells = {row[index] for row in rows}
        return cells <= {"", DASH}, columns[index].drop + 2 * (len(cells) == 1), index

    widths = [max(cell_len(c.name), *(cell_len(row[i]) for row in rows), 0)
              for i, c in enumerate(columns)]  # fmt: skip
    kept = list(range(len(columns)))
    may_go = sorted((i for i in kept if columns[i].drop), key=order)
    while may_go and sum(widths[i] for i in kept) + len(GAP) * (len(kept) - 1) > width:
        kept.remove(may_go.pop())
    return kept


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, dim: frozenset[int] = frozenset(),
    wide: bool = False,
) -> None:  # fmt: skip
    """A table on stdout; *dim* are the rows set back.

    On a terminal that is too narrow, less important columns are left out and named below. A pipe,
    a file and *wide* get all of them.
    """
    table = [[visible(cell) for cell in row] for row in rows]
    width = terminal_width()
    kept = list(range(len(columns))) if wide or width is None else fitting(columns, table, width)
    limit = None if wide or width is None else width
    _draw([columns[i] for i in kept], [[row[i] for i in kept] for row in table], dim, limit)
    hidden = [c.name for i, c in enumerate(columns) if i not in kept]
    if hidden:
        say(f"(too narrow for {', '.join(hidden)}; -o wide shows all)")


def _draw(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], dim: frozenset[int], limit: int | None
) -> None:
    from rich.cells import cell_len, set_cell_size

    widths = [max(cell_len(c.name), *(cell_len(row[i]) for row in rows), 0)
              for i, c in enumerate(columns)]  # fmt: skip

    def line(cells: Sequence[str]) -> str:
        padded = [
            " " * (width - cell_len(cell)) + cell if column.right
            else cell + " " * (width - cell_len(cell))
            for column, cell, width in zip(columns, cells, widths, strict=True)
        ]  # fmt: skip
        text = GAP.join(padded).rstrip()
        if limit is not None and cell_len(text) > limit:
            text = set_cell_size(text, limit - 1) + "…"
        return text

    click.secho(line([column.name for column in columns]), bold=True)
    for index, row in enumerate(rows):
        click.secho(line(row), dim=True if index in dim else None)


def terminal_width() -> int | None:
    """The width of the terminal, or None where stdout is something else."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@contextmanager
def progress(what: str, names: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, on a terminal only; call the result with each name that is finished."""
    if not sys.stderr.isatty():
        yield lambda _name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    waiting = list(names)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{what} {', '.join(waiting)}", total=len(waiting))

        def done(name: str) -> None:
            waiting.remove(name)
            bar.update(task, advance=1, description=f"{what} {', '.join(waiting)}")

        yield done


def say(text: str = "", indent: int = 0) -> None:
    """A line on stdout, set in by *indent*; on a terminal, broken between words."""
    text, width = " " * indent + visible(text), terminal_width()
    if width is not None and len(text) > width:
        text = "\n".join(_broken(text, width, " " * indent))
    click.echo(text.rstrip())


def _broken(text: str, width: int, further: str) -> list[str]:
    """*text* in lines; a number and what it is of stay on one."""
    import re
    import textwrap

    together = re.sub(r"(?<=[0-9]) (?=[%A-Za-z])", "\xa0", text)
    lines = textwrap.wrap(together, width, subsequent_indent=further, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


@contextmanager
def long_progress(what: str) -> Iterator[Callable[[int, int | None, str], None]]:
    """A bar on stderr of work whose length may not be known; nothing when it is no terminal.

    To be called with what is done, what there is in all (None: unknown) and what is worked on.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total, _label: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None, label: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{what}: {label[-50:]}")

        yield update
