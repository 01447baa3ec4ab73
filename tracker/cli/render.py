"""How answers are printed: tables for people, JSON, CSV and NDJSON for programs.

The only module that imports rich, and only when a table is drawn. Money is text, never a float;
what is not known is ``null`` (an empty CSV cell, a dash in a table), never 0.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import click

SCHEMA_VERSION = 1
DASH = "—"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def iso(moment: datetime | None) -> str | None:
    """UTC, to the second, with a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """*value* as JSON has it: decimals as text without an exponent, times in UTC."""
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


def number(value: Decimal) -> str:
    """A decimal in full, without trailing zeros and without an exponent."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def usd(value: Decimal | None, places: int = 2) -> str:
    """Dollars for people: rounded to *places*, thousands separated."""
    if value is None:
        return DASH
    return f"${value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN):,}"


def usd_text(value: Decimal | None) -> str | None:
    """Dollars for programs: to a millionth, as text."""
    if value is None:
        return None
    return number(value.quantize(Decimal("0.000001"), ROUND_HALF_EVEN))


def count(value: Decimal | int | None) -> str:
    """A plain number for people."""
    if value is None:
        return DASH
    return number(Decimal(value)) if not isinstance(value, int) else f"{value:,}"


def hours(value: Decimal | None) -> str:
    """Hours for people, to a hundredth."""
    return DASH if value is None else number(round(value, 2)) + " h"


def age(then: datetime | None, now: datetime) -> str:
    """How long ago: 40 s, 12 min, 5 h, 21 d."""
    if then is None:
        return DASH
    seconds = max(0, int((now - then).total_seconds()))
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit} {name}"
    return f"{seconds // 86_400} d"


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document with its ``schema_version``."""
    json.dump(
        {"schema_version": SCHEMA_VERSION, **plain(document)}, sys.stdout, indent=2,
        ensure_ascii=False,
    )  # fmt: skip
    sys.stdout.write("\n")


def print_ndjson(rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line."""
    for row in rows:
        line = {"schema_version": SCHEMA_VERSION, **plain(row)}
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A header and the rows. Text that a spreadsheet would run as a formula gets a quote."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(plain(row.get(column))) for column in columns])


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS) and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def print_rows(output: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str],
               document: Mapping[str, Any]) -> None:  # fmt: skip
    """Print *rows* as ``json`` (inside *document*), ``csv`` or ``ndjson``."""
    if output == "json":
        print_json({**document, "rows": rows})
    elif output == "ndjson":
        print_ndjson(rows)
    else:
        print_csv(rows, columns)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: frozenset[str] = frozenset(),
    dim: frozenset[int] = frozenset(),
    title: str | None = None,
) -> None:
    """A table on stdout. *right* names the columns of figures; *dim* the rows set back."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=True,
            overflow="ellipsis",
        )  # fmt: skip
    for index, row in enumerate(rows):
        # Text, not markup: a provider's words are data and may hold square brackets.
        table.add_row(*(Text(cell) for cell in row), style="dim" if index in dim else None)
    terminal = sys.stdout.isatty()
    Console(width=None if terminal else 200, highlight=False, soft_wrap=not terminal).print(table)


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


def say(text: str = "") -> None:
    """A line on stdout."""
    click.echo(text)


def footer(kept: int, total: int, excluded: Mapping[str, int]) -> str:
    """``12 of 3,214 offers; 40 stale, 210 too little VRAM``."""
    parts = [f"{n:,} {reason}" for reason, n in sorted(excluded.items(), key=lambda x: -x[1]) if n]
    text = f"{kept:,} of {total:,} offers"
    return text + ("; left out: " + ", ".join(parts) if parts else "")
