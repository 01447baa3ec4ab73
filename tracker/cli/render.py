"""How answers are printed: tables for people, JSON, CSV and NDJSON for programs.

The only module that imports rich, and only when a table is drawn. Money is text, never a float;
other quantities are numbers in JSON. What is not known is ``null`` (an empty CSV cell, a dash in
a table), never 0. What providers say is data: nothing in it reaches a terminal as a command.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, NamedTuple

import click

SCHEMA_VERSION = 1
DASH = "—"

GAP = "  "

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

# Control characters (C1 too: 0x9b starts an escape sequence), zero-width and direction marks.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


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
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def number(value: Decimal) -> str:
    """A decimal in full, without trailing zeros and without an exponent."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: Decimal | None) -> int | float | None:
    """A count or a size that is no money, as a JSON number."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(round(value, 6))


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


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def hours(value: Decimal | None) -> str:
    """Hours for people, to a hundredth."""
    return DASH if value is None else number(round(value, 2)) + " h"


def age(then: datetime | None, now: datetime) -> str:
    """How long ago: 40 s, 12 min, 5 h, 21 d."""
    if then is None:
        return DASH
    return duration((now - then).total_seconds())


def duration(length_s: float) -> str:
    """A length of time in one unit, rounded down."""
    seconds = max(0, int(length_s))
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit} {name}"
    return f"{seconds // 86_400} d"


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document with its ``schema_version``."""
    sys.stdout.write(_json({"schema_version": SCHEMA_VERSION, **plain(document)}, indent=2) + "\n")


def _json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    # Only inside strings can such a character stand, save for the line ends of the indentation.
    return _UNSEEN.sub(lambda m: m[0] if m[0] == "\n" else f"\\u{ord(m[0]):04x}", text)


def print_ndjson(rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line."""
    for row in rows:
        sys.stdout.write(_json({"schema_version": SCHEMA_VERSION, **plain(row)}) + "\n")


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A header and the rows. Text that a spreadsheet would run as a formula gets a quote."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(plain(row.get(column))) for column in columns])


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False) if value != [] else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    # Spreadsheets skip blanks before a formula.
    if value.lstrip(" ").startswith(_FORMULA_STARTS) and not _is_number(value):
        value = "'" + value
    return visible(value)


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


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


def visible(text: str) -> str:
    """*text* on one line, with nothing in it that moves a terminal's cursor or turns text round."""
    return _UNSEEN.sub(lambda match: " " if match[0] == "\t" else "\ufffd", text)


def say(text: str = "", indent: int = 0) -> None:
    """A line on stdout, set in by *indent*; on a terminal, broken between words."""
    text, width = " " * indent + visible(text), terminal_width()
    if width is not None and len(text) > width:
        import textwrap

        further = " " * indent
        lines = textwrap.wrap(text, width, subsequent_indent=further, break_on_hyphens=False)
        text = "\n".join(lines)
    click.echo(text.rstrip())


def footer(kept: int, total: int, excluded: Mapping[str, int]) -> str:
    """``12 of 3,214 offers; left out: 210 with too little VRAM, 40 stale``."""
    parts = [f"{n:,} {reason}" for reason, n in sorted(excluded.items(), key=lambda x: -x[1]) if n]
    text = f"{kept:,} of {total:,} offers"
    return text + ("; left out: " + ", ".join(parts) if parts else "")
