"""Our own exports by columns: the same rows as ``own.Reader`` reads, many at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tracker.collect.importing import own
from tracker.collect.importing.tables import CutShort, Table, open_parquet, open_table, text
from tracker.store.bulk import NotByColumns, arrow
from tracker.store.bulk.cells import Cells, coded, constant, whole
from tracker.store.bulk.unit import Unit

ROWS = 60_000  # of one unit
TEXT_ROWS = 15_000  # where every cell is an object of its own

_TIMES = ("valid_from", "valid_to")
_USD = "price_usd_per_machine_hour"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Stretch(NamedTuple):
    """Rows of a table. ``last`` is the number of the last one, ``of(i)`` the number and the cells
    of the row in place i of ``unit``, ``broken`` those that are not even whole rows."""

    last: int
    unit: Unit
    of: Callable[[int], tuple[int, Sequence[str]]]
    broken: Sequence[tuple[int, Sequence[str]]] = ()


def micros(cell: str) -> int:
    """Microseconds since 1970 of the time in *cell*. Raises ValueError."""
    return (own.moment(cell) - _EPOCH) // _MICROSECOND


def stretches(path: Path, kind: str, after: int) -> Iterator[Stretch]:
    """The rows behind number *after*. Raises BadTable and NotByColumns."""
    if kind == "parquet":
        yield from _of_parquet(path, after)
        return
    with open_table(path, kind) as table:
        yield from _of_rows(table, after, quoted=kind == "csv")


# -- CSV and newline-delimited JSON --------------------------------------------------------------


def _of_rows(table: Table, after: int, *, quoted: bool) -> Iterator[Stretch]:
    header = table.header
    places = {name: header.index(name) for name in own.NAMES}
    rows = islice(table.rows, after, None)
    while numbered := list(islice(rows, min(ROWS, TEXT_ROWS))):
        fit, broken = list[tuple[int, Sequence[str]]](), list[tuple[int, Sequence[str]]]()
        for item in numbered:
            bad = len(item[1]) < len(header) or isinstance(item[1], CutShort)
            (broken if bad else fit).append(item)
        columns = list(zip(*(row for _, row in fit), strict=False)) or [()] * len(header)
        cells = {name: coded(columns[place]) for name, place in places.items()}
        if quoted:
            cells |= {name: _unguarded(cells[name]) for name in own.OFFER_CELLS}
        yield Stretch(numbered[-1][0], _unit(cells), fit.__getitem__, broken)


def _unguarded(cells: Cells) -> Cells:
    return cells._replace(texts=[own.unguarded(cell) for cell in cells.texts])


def _unit(cells: dict[str, Cells]) -> Unit:
    starts, ends = (whole(cells.pop(name), micros) for name in _TIMES)
    return Unit(cells, starts, ends, whole(cells.pop(_USD), own.micro_usd))


# -- Parquet -------------------------------------------------------------------------------------


def _of_parquet(path: Path, after: int) -> Iterator[Stretch]:
    number, header = 0, list[str]()
    for file in open_parquet(path, dictionaries=True):
        names = file.schema_arrow.names
        header = header or names
        if len(set(names)) < len(names):
            raise NotByColumns("two columns of one name")
        if number + file.metadata.num_rows > after:
            with closing(_ahead(_tables(file, max(after - number, 0)))) as tables:
                for table in tables:
                    last = number + max(after - number, 0) + table.num_rows
                    after = last
                    yield Stretch(last, _parquet_unit(table), _row_of(table, header, last))
        number += file.metadata.num_rows


def _ahead(tables: Generator[Any]) -> Generator[Any]:
    """The same *tables*, each made while the one before is worked on: pyarrow needs no Python."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, tables, None)
            yield table


def _tables(file: Any, skipped: int) -> Generator[Any]:
    """The rows of *file* behind the first ones, ROWS at a time, each column in one piece."""
    import pyarrow

    # Its own allocator keeps what it once had, which is a third of all the memory an import takes.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    waiting: list[Any] = []
    held = 0
    empty = _empty(file.metadata)
    wanted = [n for n in own.NAMES if n in file.schema_arrow.names and n not in empty]
    for batch in file.iter_batches(ROWS, columns=wanted):
        if skipped >= batch.num_rows:
            skipped -= batch.num_rows
            continue
        batch, skipped = batch.slice(skipped), 0
        waiting.append(batch)
        held += batch.num_rows
        if held >= ROWS:
            yield _whole(pyarrow.Table.from_batches(waiting))
            waiting, held = [], 0
    if waiting:
        yield _whole(pyarrow.Table.from_batches(waiting))


def _empty(metadata: Any) -> set[str]:
    """The columns that say nothing in any row of a file, by what it says of itself."""
    empty = {*own.NAMES} - {*_TIMES, _USD}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        told = set()
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema in empty:
                known = chunk.statistics
                nulls = known.null_count if known is not None and known.has_null_count else -1
                if nulls == chunk.num_values == group.num_rows:
                    told.add(chunk.path_in_schema)
        empty &= told
    return empty


def _whole(table: Any) -> Any:
    return table.unify_dictionaries().combine_chunks()


def _parquet_unit(table: Any) -> Unit:
    present = set(table.column_names)

    def column(name: str) -> Any:
        chunked = table.column(name)
        return chunked.chunk(0) if chunked.num_chunks else chunked.combine_chunks()

    cells: dict[str, Cells] = {}
    numbers = {}
    for name in own.NAMES:
        if name not in present:
            cells[name] = constant("", table.num_rows)
            continue
        found = None
        if name in _TIMES:
            found = arrow.times_of(column(name))
        elif name == _USD:
            found = arrow.money_of(column(name))
        if found is None:
            of = arrow.names_of if name == "native_id" else arrow.cells_of
            cells[name] = of(column(name), text)
        else:
            numbers[name] = found
    for name in (*_TIMES, _USD):
        if name in cells:
            read = own.micro_usd if name == _USD else micros
            numbers[name] = whole(cells.pop(name), read)
    return Unit(cells, *(numbers[name] for name in (*_TIMES, _USD)))


def _row_of(
    table: Any, header: Sequence[str], last: int
) -> Callable[[int], tuple[int, Sequence[str]]]:
    def row(place: int) -> tuple[int, Sequence[str]]:
        found = table.slice(place, 1).to_pylist()[0]
        return last - table.num_rows + place + 1, [text(found.get(name)) for name in header]

    return row
