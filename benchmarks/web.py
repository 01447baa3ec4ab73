"""How many questions a second ``gpucost serve`` answers on the loopback interface, and how soon.

    python -m benchmarks.web [--offers N] [--scale F] [--rate N] [--seconds N]

Fills an embedded PostgreSQL in a scratch folder with live offers and, beside them, with a year of
the history of ``history_world.py`` (a share of its offers), serves it in a process of its own, and
asks at a fixed rate, whether or not the answers before have come: what waits in a queue counts as
waiting. First for a short list of questions, as a page that many look at asks them, then for
questions of which no two are the same. Nothing here passes or fails by time; checked is that
every answer is a 200 with rows.

The client shares the processors with the server, and with whatever else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import httpx

from benchmarks import history_world
from benchmarks.cli import environment, fill, gpucost
from benchmarks.history_load import load
from benchmarks.market import market
from tracker import data
from tracker.domain.gpu import Catalogue
from tracker.store import floor_packs, migrate
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.engine import connect

GOAL_MS = 100
JOBS = ("bert-large", "resnet-50", "llama-3.1-8b-lora")
GPUS = ("", "H100", "A100", "RTX4090", "H100,A100,RTX4090")


class Load(NamedTuple):
    """Questions of one kind, and how many of them a second."""

    name: str
    paths: Sequence[str]
    per_second: float


class Timings(NamedTuple):
    """What came of a load: seconds from when each was due, and what else was answered than rows."""

    load: Load
    seconds: list[float]
    errors: Counter[str]
    took_s: float


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--offers", type=int, default=20_000, help="live offers (20000)")
    parser.add_argument("--scale", type=float, default=0.2, help="of the year of history (0.2)")
    parser.add_argument("--rate", type=float, default=50, help="questions a second (50)")
    parser.add_argument("--seconds", type=float, default=15, help="length of each load (15)")
    options = parser.parse_args()
    account = choose_account(None)
    with tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch:
        folder = Path(scratch)
        if account.switch:
            folder.chmod(0o711)
        embedded = Embedded(folder / "data")
        try:
            url = embedded.start()
            streams = market(Catalogue.from_toml(data.text("gpus.toml"), data.text("aliases.toml")),
                             options.offers)  # fmt: skip
            print("filling", flush=True)
            began = time.perf_counter()
            spans = remember(url, options.scale)
            fill(url, streams)
            print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)
            with serving(folder) as address:
                print("asking", flush=True)
                told = [
                    asyncio.run(put(address, load, options.seconds)) for load in loads(options.rate)
                ]
        finally:
            embedded.stop(force=True)
    report(told, f"{options.offers:,} live offers, {spans:,} spans of a year")


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
def serving(folder: Path):  # type: ignore[no-untyped-def]
    """``gpucost serve`` on a free port; its address."""
    process = subprocess.Popen(
        [gpucost(), "serve", "--port", "0"], env=environment(folder) | os.environ.copy()
        | {"GPUCOST_DATA_DIR": str(folder / "data")},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"serving (http://[^/]+)/", line):
                yield found[1]
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


async def put(address: str, load: Load, seconds: float) -> Timings:
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
        count, start = round(load.per_second * seconds), time.perf_counter() + 0.1
        paths = [load.paths[-1 - i % len(load.paths)] for i in range(count)]
        await asyncio.gather(
            *(ask(path, start + i / load.per_second) for i, path in enumerate(paths))
        )
    print(f"asked: {load.name}", flush=True)
    return Timings(load, took, errors, time.perf_counter() - start)


def report(told: Sequence[Timings], filled: str) -> None:
    """The table."""
    print(f"{filled}; gpucost serve in a process of its own\n")
    print(
        f"{'':<28}{'asked/s':>9}{'answered/s':>12}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}  errors"
    )
    for one in told:
        found = sorted(one.seconds)
        at = [found[min(len(found) - 1, int(len(found) * q))] * 1000 for q in (0.5, 0.95, 0.99)]
        errors = ", ".join(f"{n} x {kind}" for kind, n in one.errors.items()) or "none"
        print(
            f"{one.load.name:<28}{one.load.per_second:>9.0f}{len(found) / one.took_s:>12.1f}"
            + "".join(f"{ms:>9.1f}" for ms in at) + f"  {errors}"
        )  # fmt: skip
    for one in told[:2]:
        p95 = sorted(one.seconds)[int(len(one.seconds) * 0.95)] * 1000
        met = "met" if p95 < GOAL_MS else "missed"
        print(f"goal: p95 of {one.load.name!r} below {GOAL_MS} ms: {met}")


if __name__ == "__main__":
    main()
