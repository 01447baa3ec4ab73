"""How long a year of prices takes to answer from, beside DuckDB and arrays in memory.

    python -m benchmarks.history [--runs N] [--scale F] [--years N] [--keep FOLDER]

Fills an embedded PostgreSQL in a scratch folder with the history of ``history_world.py``, packs
settled months as the daemon does, and asks for the cheapest job of every bucket. The floor of one
provider is built anew as ``gpucost db rebuild-floor`` does, which must change nothing. Nothing here
passes or fails by time; what is checked is that every way gives the same answer. The goals are for
a scale of 1. ``--years 10`` makes the history ten times as long (12 GB of memory, 30 GB of disk): a
question about one GPU and one year should then take less than twice the time. ``--keep`` leaves the
filled database in a folder, where the next run finds it: as it was made, whatever is asked for.

DuckDB spreads each span over the buckets it covers and groups by GPU and bucket, on a table of four
integers a span; the line "in memory" is the reducer alone, on arrays that are there already. Both
get their times in one call, as ours do: what is measured for gpucost is reading the store and
reducing, on an open connection.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.history_load import load
from benchmarks.history_world import END, GPUS, HEADLINE, OPEN, Ints, Provider, micros, world
from benchmarks.report import table
from tracker.store import floor_packs, floor_rebuild, migrate
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.engine import connect, read_connection
from tracker.store.series import floor
from tracker.store.series.reduce import bucket_minima
from tracker.store.series.tracks import Track, floor_tracks, span_tracks
from tracker.store.stored import Connection

HOURS = {HEADLINE[0]: 4, HEADLINE[1]: 12, HEADLINE[2]: 48}  # of the job; any other GPU takes 24
NOW = END + timedelta(minutes=1)
MEMORY = "memory.npz"  # beside the data: the yardsticks' part of it
NOTHING = np.iinfo(np.int64).max

Answer = dict[str, Ints]  # for each GPU the cheapest job of each bucket in micro-USD, or NOTHING


@dataclass(frozen=True, slots=True)
class Question:
    """The cheapest job per bucket over a year."""

    name: str
    gpus: tuple[str, ...]
    bucket: timedelta
    goal_ms: int | None

    @property
    def start(self) -> datetime:
        """A whole number of buckets before the end."""
        return END - timedelta(days=365)

    @property
    def edges(self) -> Ints:
        """The boundaries of the buckets."""
        step = self.bucket // timedelta(microseconds=1)
        return np.arange(micros(self.start), micros(END) + 1, step, dtype=np.int64)


QUESTIONS = (
    Question("1 year hourly, 3 headline GPUs", HEADLINE, timedelta(hours=1), 150),
    Question("1 year daily, 40 GPUs", GPUS, timedelta(days=1), 500),
    Question("1 year hourly, 40 GPUs", GPUS, timedelta(hours=1), None),
    Question("1 year hourly, one GPU", GPUS[5:6], timedelta(hours=1), None),
)

Reader = Callable[..., list[Track]]


def from_store(connection: Connection, question: Question, read: Reader) -> Answer:
    """Read the tracks, turn prices into jobs, reduce."""
    tracks = read(
        connection, start=question.start, end=END, now=NOW, gpu_keys=question.gpus
    )  # fmt: skip
    of_gpu: dict[str, list[Track]] = {gpu: [] for gpu in question.gpus}
    for track in tracks:
        of_gpu[track.key.gpu_key].append(track)
    return {gpu: _reduced(found, gpu, question.edges) for gpu, found in of_gpu.items()}


def _reduced(tracks: Sequence[Track], gpu: str, edges: Ints) -> Ints:
    if not tracks:
        return np.full(len(edges) - 1, NOTHING)
    starts, ends = (np.concatenate([track[i] for track in tracks]) for i in (1, 2))
    costs = np.concatenate([track.micro_usd * HOURS.get(gpu, 24) for track in tracks])
    return _minima(starts, ends, costs, edges)


def _minima(starts: Ints, ends: Ints, costs: Ints, edges: Ints) -> Ints:
    values, known = bucket_minima(starts, ends, costs, edges)
    return np.where(known, values, NOTHING)


@dataclass(frozen=True, slots=True)
class Memory:
    """The last year's spans, or floor steps, as arrays; ``gpu`` is the place in GPUS."""

    gpu: NDArray[np.int64]
    starts: Ints
    ends: Ints
    micro_usd: Ints

    @property
    def columns(self) -> tuple[Ints, ...]:
        """What it is made of, in order."""
        return self.gpu, self.starts, self.ends, self.micro_usd

    def answer(self, question: Question) -> Answer:
        """Reduce what is in memory, each GPU by itself."""
        answer: Answer = {}
        for gpu in question.gpus:
            low, high = np.searchsorted(self.gpu, [GPUS.index(gpu), GPUS.index(gpu) + 1])
            part = slice(low, high)
            costs = self.micro_usd[part] * HOURS.get(gpu, 24)
            answer[gpu] = _minima(self.starts[part], self.ends[part], costs, question.edges)
        return answer


def spans_in_memory(providers: Iterable[Provider]) -> Memory:
    """What the generator made of the last year, open spans up to where they are known, in the order
    of GPUs."""
    parts = []
    for provider in providers:
        late = provider.spans.end > micros(QUESTIONS[0].start)
        offer, start, end, cents = (column[late] for column in provider.spans)
        known = np.where(end == OPEN, provider.now + 3 * provider.every, end)
        parts.append((provider.offers.gpu[offer], start, np.minimum(known, micros(NOW)), cents))
    gpu, start, end, cents = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(gpu, kind="stable")
    return Memory(gpu[order], start[order], end[order], cents[order] * 10_000)


def floor_in_memory(connection: Connection) -> Memory:
    """The floor of the last year."""
    tracks = floor_tracks(connection, start=QUESTIONS[0].start, end=END, now=NOW)
    tracks.sort(key=lambda track: GPUS.index(track.key.gpu_key))
    gpu = [np.full(len(t.starts), GPUS.index(t.key.gpu_key)) for t in tracks]
    starts, ends, prices = (np.concatenate([t[i] for t in tracks]) for i in (1, 2, 3))
    return Memory(np.concatenate(gpu), starts, ends, prices)


class DuckDb:
    """The same spans in a table of DuckDB's own, in memory."""

    def __init__(self, memory: Memory) -> None:
        import duckdb

        self._connection = duckdb.connect()
        columns = {
            "gpu": memory.gpu, "start": memory.starts, "finish": memory.ends,
            "micro": memory.micro_usd,
        }  # fmt: skip
        self._connection.register("columns", columns)
        self._connection.execute("CREATE TABLE spans AS SELECT * FROM columns")
        self._connection.unregister("columns")

    def answer(self, question: Question) -> Answer:
        """Spread, group, and put into arrays."""
        places = [GPUS.index(gpu) for gpu in question.gpus]
        low, high = micros(question.start), micros(END)
        step = question.bucket // timedelta(microseconds=1)
        found = self._connection.execute(
            "SELECT gpu, bucket, min(micro) AS micro FROM (SELECT gpu, micro, unnest(range("
            " (greatest(start, $low) - $low) // $step,"
            " (least(finish, $high) - $low - 1) // $step + 1)) AS bucket FROM spans"
            " WHERE gpu IN (SELECT unnest($gpus)) AND finish > $low AND start < $high)"
            " GROUP BY ALL",
            {"low": low, "high": high, "step": step, "gpus": places},
        ).fetchnumpy()
        answer: Answer = {}
        for place, gpu in zip(places, question.gpus, strict=True):
            mine = found["gpu"] == place
            answer[gpu] = np.full(len(question.edges) - 1, NOTHING)
            answer[gpu][found["bucket"][mine]] = found["micro"][mine] * HOURS.get(gpu, 24)
        return answer


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="of each question (7)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the offers (1)")
    parser.add_argument("--years", type=int, default=1, help="length of the history (1)")
    parser.add_argument("--keep", type=Path, help="where the filled database is, or is to stay")
    options = parser.parse_args()
    with placed(options.keep) as folder:
        embedded = Embedded(folder / "data")
        try:
            url = embedded.start()
            if not (folder / MEMORY).is_file():
                fill(url, options.scale, options.years, folder / MEMORY)
            run(url, options.runs, read_memory(folder / MEMORY))
        finally:
            embedded.stop(force=True)


@contextmanager
def placed(keep: Path | None) -> Iterator[Path]:
    """A folder that the server's account can reach: *keep*, or one that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch:
        folder = Path(scratch) if keep is None else keep.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if choose_account(None).switch:
            folder.chmod(0o711)
        yield folder


def fill(url: str, scale: float, years: int, memory: Path) -> None:
    """Fill the database at *url*, and keep in *memory* what the yardsticks work on."""
    migrate.upgrade(url)
    providers, generated = timed(lambda: list(world(years, scale)))
    with connect(url, statement_timeout_s=0) as connection:
        _, loaded = timed(lambda: load(connection, providers))
        steps = steps_of(connection)
        spans = sum(len(provider.spans.start) for provider in providers)
        print(
            f"{spans:,} spans generated in {generated:.0f} s, loaded with {steps:,} steps of the"
            f" floor in {loaded:.0f} s;",
            flush=True,
        )
        if years == 1:
            rebuilt, built = timed(lambda: floor_rebuild.rebuild(connection, providers[0].slug))
            assert steps_of(connection) == steps, "a rebuilt floor is another one"
            [one] = rebuilt.values()
            print(f"{one.steps:,} steps of one provider built anew in {built:.0f} s;", flush=True)
        packs, packed = timed(lambda: floor_packs.build(connection, now=NOW))
        vacuum(connection)
    print(f"{packs:,} packs made in {packed:.1f} s\n", flush=True)
    np.savez(memory, *spans_in_memory(providers).columns)


def read_memory(path: Path) -> Memory:
    """What ``fill`` kept."""
    with np.load(path) as kept:
        return Memory(*kept.values())


def run(url: str, runs: int, memory: Memory) -> None:
    """Measure."""
    few = [q for q in QUESTIONS if len(q.gpus) <= len(HEADLINE)]
    ways = {
        "gpucost, packed months": measure_store(url, runs, floor_tracks),
        "gpucost, floor not packed": measure_store(url, min(runs, 3), not_packed),
        # What filters need that a floor does not know.
        "gpucost, single offers": measure_store(url, min(runs, 3), span_tracks, few),
        "DuckDB, raw spans": measure(DuckDb(memory).answer, min(runs, 5)),
        "in memory, raw spans": measure(memory.answer, runs),
    }
    with read_connection(url) as reader:
        ways["in memory, floor"] = measure(floor_in_memory(reader).answer, runs)
    print_report(ways)


def not_packed(connection: Connection, **asked: Any) -> list[Track]:
    """``floor_tracks`` as if no month were packed."""
    with mock.patch.object(floor, "_packs", return_value={}):
        return floor_tracks(connection, **asked)


def steps_of(connection: Connection) -> int:
    """How many steps the floor has, open ones included."""
    [(count,)] = connection.execute(
        "SELECT (SELECT count(*) FROM price_floor) + (SELECT count(*) FROM floor_now)"
    ).fetchall()
    return int(count)


def vacuum(connection: Connection) -> None:
    """As autovacuum would in time."""
    connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM (ANALYZE) floor_key, price_floor, floor_now, floor_pack")
    connection.autocommit = False


Measured = dict[str, tuple[list[float], Answer]]


def measure_store(
    url: str, runs: int, read: Reader, questions: Sequence[Question] = QUESTIONS
) -> Measured:
    """Measure on one open connection."""
    with read_connection(url, statement_timeout_s=0) as connection:
        return measure(lambda question: from_store(connection, question, read), runs, questions)


def measure(
    ask: Callable[[Question], Answer], runs: int, questions: Sequence[Question] = QUESTIONS
) -> Measured:
    """Every question so many times, after once to warm up."""
    found: Measured = {}
    for question in questions:
        answer = ask(question)
        seconds = [timed(lambda q=question: ask(q))[1] for _ in range(runs)]
        found[question.name] = seconds, answer
    return found


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of *work* and the seconds it took."""
    gc.collect()
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def print_report(ways: dict[str, Measured]) -> None:
    """One line for each question and way: the median, the least, and beside DuckDB."""
    rows = []
    for question in QUESTIONS:
        duck, expected = ways["DuckDB, raw spans"][question.name]
        for way, measured in ways.items():
            if question.name not in measured:
                continue
            seconds, answer = measured[question.name]
            for gpu in question.gpus:
                assert np.array_equal(answer[gpu], expected[gpu]), (question.name, way, gpu)
            typical, least = statistics.median(seconds) * 1000, min(seconds) * 1000
            ratio = statistics.median(duck) * 1000 / typical
            goal = ""
            if way == "gpucost, packed months" and question.goal_ms is not None:
                goal = f"< {question.goal_ms}: {'met' if typical < question.goal_ms else 'missed'}"
            rows.append(
                (f"{question.name}: {way}", f"{typical:.1f}", f"{least:.1f}", f"{ratio:.1f}", goal)
            )
    head = ("question: way", "median ms", "least ms", "x as fast as DuckDB", "goal ms")
    print(table(head, rows))
    print("\nAll ways gave the same answers.")


if __name__ == "__main__":
    main()
