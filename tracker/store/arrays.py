"""Many rows in one statement: one array a column, expanded by the server with unnest.

The array literals are written here, because the driver's own array adapter works element by
element in Python: at 20,000 rows of 20 columns that alone would take longer than the poll.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Column
from sqlalchemy.dialects import postgresql

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def _quoted(text: str) -> str:
    # NUL cannot be stored, and a lone surrogate cannot be sent: neither may cost a whole poll.
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _list(items: Iterable[str]) -> str:
    return _quoted("{" + ",".join(map(_quoted, items)) + "}")


_ENCODERS: dict[str, Callable[[Any], str]] = {
    "TEXT": _quoted,
    "TEXT[]": _list,
    "BYTEA": lambda value: '"\\\\x' + value.hex() + '"',
    "DATE": lambda value: value.isoformat(),
    "TIMESTAMP WITH TIME ZONE": lambda value: value.isoformat(),
}


def literal(values: Sequence[Any], encode: Callable[[Any], str] = str) -> str | None:
    """The values as a PostgreSQL array literal; None when all of them are None.

    unnest pads the missing ones with NULL again, provided that another column is complete.
    """
    if all(value is None for value in values):
        return None
    if encode is _quoted:  # words repeat, and quoting is the dearest of the encodings
        words = {value: "NULL" if value is None else _quoted(value) for value in set(values)}
        return "{" + ",".join([words[value] for value in values]) + "}"
    return "{" + ",".join(["NULL" if v is None else encode(v) for v in values]) + "}"


class Batch:
    """Rows of certain columns, to be used as ``FROM <source>`` under the name ``r``.

    ``source`` is the unnest call with its placeholders; ``values`` maps each column to the
    expression of its type. The first column must never be None.
    """

    def __init__(self, columns: Sequence[Column[Any]]) -> None:
        kinds = {column.name: column.type.compile(_DIALECT) for column in columns}
        self._encoders = [_ENCODERS.get(kind, str) for kind in kinds.values()]
        # An array of arrays would be flattened, so an array travels as text and is cast here.
        arrays = ", ".join(f"%s::{kind.removesuffix('[]')}[]" for kind in kinds.values())
        self.source = f"unnest({arrays}) AS r ({', '.join(kinds)})"
        self.values = {
            name: f"r.{name}::{kind}" if kind.endswith("[]") else f"r.{name}"
            for name, kind in kinds.items()
        }

    def parameters(self, rows: Sequence[Sequence[Any]]) -> list[str | None]:
        """The values for ``source``, from at least one row in the order of the columns."""
        return [
            literal(column, encode)
            for column, encode in zip(zip(*rows, strict=True), self._encoders, strict=True)
        ]

    def insert(self, table: str, **constants: str) -> str:
        """An INSERT of the rows into *table*, *constants* being SQL for further columns."""
        values = self.values | constants
        return (
            f"INSERT INTO {table} ({', '.join(values)})"
            f" SELECT {', '.join(values.values())} FROM {self.source}"
        )
