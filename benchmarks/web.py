"""How many questions a second ``gpucost serve`` answers on the loopback interface, and how soon.

    python -m benchmarks.web [--offers N] [--scale F] [--rate N] [--seconds N]

Fills an embedded PostgreSQL in a scratch folder with live offers and, beside them, with a year of
the history of ``history_world.py`` (a share of its offers), serves it in a process of its own, and
asks at a fixed rate, whether or not the answers before have come: what waits in a queue counts as
waiting. First for a short list of questions, as a page that many look at asks them, then for
questions of which no two are the same, and for such while the poll of another provider is recorded
every few seconds, with a tenth of its prices moved. Nothing here passes or fails by time; checked
is that every answer is a 200 with rows.

Processor time is that of the server's process for each answer, without the database's.

The client shares the processors with the server, and with whatever else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import httpx

from benchmarks import history_world
from benchmarks.cli import environment, fill, gpucost
from benchmarks.history_load import load
from benchmarks.market import MARKETPLACES, Stream, market
from tracker import data
from tracker.domain.gpu import Catalogue
from tracker.domain.offer import Offer
from tracker.store import floor_packs, migrate
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.engine import connect, make_engine
from tracker.store.polls import Poll, Recorder

GOAL_MS = 100
JOBS = ("bert-large", "resnet-50", "llama-3.1-8b-lora")
GPUS = ("", "H100", "A100", "RTX4090", "H100,A100,RTX4090")


class Load(NamedTuple):
    """Questions of one kind, and how many of them a second."""

    name: str
    paths: Sequence[str]
    per_second: float
    polls: bool = False  # whether polls are recorded meanwhile


class Timings(NamedTuple):
    """What came of a load: seconds from when each was due, and what else was answered than rows;
    ``processor_s`` of the server, None where nobody tells."""

    load: Load
    seconds: list[float]
    errors: Counter[str]
    took_s: float
    processor_s: float | None = None


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--offers", type=int, default=20_000, help="live offers (20000)")
    parser.add_argument("--scale", type=float, default=0.2, help="of the year of history (0.2)")
    parser.add_argument("--rate", type=float, default=50, help="questions a second (50)")
    parser.add_argument("--seconds", type=float, default=15, help="length of each load (15)")
    parser.add_argument("--polls", type=float, default=3, help="seconds from poll to poll (3)")
    options = parser.parse_args()
    account = choose_account(None)
    with tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch:
        folder = Path(scratch)
        if account.switch:
            folder.chmod(0o711)
        embedded = Embedded(folder / "data")
        try:
            url = embedded.start()
            streams = streams_of(options.offers)
            print("filling", flush=True)
            began = time.perf_counter()
            spans = remember(url, options.scale)
            fill(url, streams)
            print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)
            with serving(folder) as (address, pid):
                print("asking", flush=True)
                told = []
                for load in loads(options.rate):
                    polls = polling(url, options.offers, options.polls)
                    with polls if load.polls else nullcontext():
                        told.append(asyncio.run(put(address, load, options.seconds, pid)))
        finally:
            embedded.stop(force=True)
    report(told, f"{options.offers:,} live offers, {spans:,} spans of a year")


def streams_of(offers: int) -> list[Stream]:
    """The invented market of so many offers."""
    texts = data.text("gpus.toml"), data.text("aliases.toml")
    return market(Catalogue.from_toml(*texts), offers)


def remember(url: str, scale: float) -> int:
    """A year that ends now, of a *scale* of the market's offers; how many spans it has."""
    migrate.upgrade(url)
    end = datetime.now(UTC) - timedelta(minutes=1)
    with mock.patch.object(history_world, "END", end):
        providers = list(history_world.world(1, scale))
    with connect(url, statement_timeout_s=0) as connection:
        load(connection, providers)
        floor_packs.build(connection, now=datetime.now(UTC))
        connection.commit()
    return sum(len(provider.spans.start) for provider in providers)


@contextmanager
def polling(url: str, offers: int, every_s: float) -> Iterator[None]:
    """Polls that a process of its own records, every *every_s* seconds from now on."""
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    process = context.Process(target=poll_on, args=(url, offers, every_s, ready, over))
    process.start()
    try:
        if not ready.wait(120):
            raise SystemExit("nobody polls")
        yield
    finally:
        over.set()
        process.join(60)
    if process.exitcode:
        raise SystemExit("the polls failed")


def poll_on(url: str, offers: int, every_s: float, ready: Event, over: Event) -> None:
    """Record polls until it is *over*: of a marketplace and of a cloud, in turns."""
    streams = streams_of(offers)
    hosts, clouds = streams[:MARKETPLACES], streams[MARKETPLACES:]
    turns = [stream for pair in zip(hosts * 3, clouds, strict=True) for stream in pair]
    engine = make_engine(url)
    try:
        recorder = Recorder(engine)
        ready.set()
        for number in count():
            stream = turns[number % len(turns)]
            now = datetime.now(UTC)
            recorder.record(
                Poll(
                    source=stream.name, status="complete", started_at=now, polled_at=now,
                    every_seconds=3600, marketplace=stream.marketplace,
                    default_tiers=stream.default_tiers,
                    accepted=tuple(
                        moved(offer) if (i + number) % 10 == 0 else offer
                        for i, offer in enumerate(stream.offers)
                    ),
                )
            )  # fmt: skip
            if over.wait(every_s):
                return
    finally:
        engine.dispose()


def moved(offer: Offer) -> Offer:
    """*offer* at a price of a hundredth more."""
    listed = offer.listed
    price = replace(listed.price, amount=listed.price.amount * Decimal("1.01"))
    hour = price.machine_hour(listed.gpu_count, Decimal(1))
    return replace(offer, listed=replace(listed, price=price), price=hour)


def processor_s(pid: int) -> float | None:
    """The processor time that a process has had; None where nobody tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """``gpucost serve`` on a free port; its address and its number."""
    process = subprocess.Popen(
        [gpucost(), "serve", "--port", "0"], env=environment(folder) | os.environ.copy()
        | {"GPUCOST_DATA_DIR": str(folder / "data")},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"serving (http://[^/]+)/", line):
                yield found[1], process.pid
                break
        else:
            raise SystemExit("gpucost serve did not start")
    finally:
        process.terminate()
        process.wait(60)


def loads(rate: float) -> list[Load]:
    """The loads, in the order in which they are put."""
    few = [
        f"/api/v1/cheapest?job={job}" + (f"&gpu={gpus}" if gpus else "")
        for job in JOBS
        for gpus in GPUS
    ]
    new = [_question(number) for number in range(8000)]
    others = ["/api/v1/offers?gpu=H100&top=100", "/api/v1/offers.csv?gpu=A100&top=1000",
              "/api/v1/providers", "/api/v1/jobs", "/api/v1/estimate?job=resnet-50"]  # fmt: skip
    past = ["/api/v1/history?job=bert-large&since=30d&bucket=1d",
            "/api/v1/history?job=bert-large&since=1y&bucket=1w"]  # fmt: skip
    return [
        Load("cheapest, 15 questions", few, rate),
        Load("cheapest, all different", new, rate),
        Load("the same, with polls", [path + "&setup=0.25" for path in new], rate, polls=True),
        Load("cheapest, the page", ["/?" + path.partition("?")[2] for path in new], rate / 5),
        Load("offers, providers, jobs", others, rate),
        Load("history of 30 days", past, rate / 5),
    ]


def _question(number: int) -> str:
    """A question of its own: another job, other filters, another disk."""
    job, gpus = JOBS[number % 3], GPUS[number // 3 % 5]
    filters = ("", "&tier=any", "&market=any", "&country=US,DE", "&gpus=8", "&min_vcpus=16",
               "&goal=fastest")[number // 15 % 7]  # fmt: skip
    return (
        f"/api/v1/cheapest?job={job}&disk={number % 1000 + 1}&egress={number // 1000}"
        + (f"&gpu={gpus}" if gpus else "") + filters
    )  # fmt: skip


async def put(address: str, load: Load, seconds: float, pid: int) -> Timings:
    """Ask at the load's rate for *seconds*; each question once before, so that nothing is cold."""
    took: list[float] = []
    errors: Counter[str] = Counter()
    limits = httpx.Limits(max_connections=48, max_keepalive_connections=48)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:

        async def ask(path: str, due: float) -> None:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                answer = await client.get(path)
            except httpx.HTTPError as error:
                errors[type(error).__name__] += 1
                return
            took.append(time.perf_counter() - due)
            if answer.status_code != 200:
                errors[str(answer.status_code)] += 1
            elif not answer.content.strip():
                errors["empty"] += 1

        for path in load.paths[:20]:
            (await client.get(path)).raise_for_status()
        asked, start = round(load.per_second * seconds), time.perf_counter() + 0.1
        paths = [load.paths[-1 - i % len(load.paths)] for i in range(asked)]
        before = processor_s(pid)
        await asyncio.gather(
            *(ask(path, start + i / load.per_second) for i, path in enumerate(paths))
        )
        after = processor_s(pid)
    print(f"asked: {load.name}", flush=True)
    spent = None if before is None or after is None else after - before
    return Timings(load, took, errors, time.perf_counter() - start, spent)


def report(told: Sequence[Timings], filled: str) -> None:
    """The table."""
    print(f"{filled}; gpucost serve in a process of its own\n")
    print(
        f"{'':<28}{'asked/s':>9}{'answered/s':>12}{'p50 ms':>9}{'p95 ms':>9}"
        f"{'p99 ms':>9}{'cpu ms':>9}  errors"
    )
    for one in told:
        found = sorted(one.seconds)
        at = [found[min(len(found) - 1, int(len(found) * q))] * 1000 for q in (0.5, 0.95, 0.99)]
        spent = "" if one.processor_s is None else f"{one.processor_s / len(found) * 1000:.1f}"
        errors = ", ".join(f"{n} x {kind}" for kind, n in one.errors.items()) or "none"
        print(
            f"{one.load.name:<28}{one.load.per_second:>9.0f}{len(found) / one.took_s:>12.1f}"
            + "".join(f"{ms:>9.1f}" for ms in at) + f"{spent:>9}  {errors}"
        )  # fmt: skip
    for one in told[:3]:
        p95 = sorted(one.seconds)[int(len(one.seconds) * 0.95)] * 1000
        met = "met" if p95 < GOAL_MS else "missed"
        print(f"goal: p95 of {one.load.name!r} below {GOAL_MS} ms: {met}")


if __name__ == "__main__":
    main()
