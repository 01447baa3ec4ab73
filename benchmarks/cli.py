"""How long the command line takes to answer, beside a bare interpreter and gpuhunt.

    python -m benchmarks.cli [--runs N] [--offers N]

Fills an embedded PostgreSQL in a scratch folder with live offers, writes the same offers as a local
gpuhunt catalogue, then times whole processes, one after the other in turns. The server is left
running between them, as a daemon leaves it. Nothing here passes or fails by time; what is
checked is that both answer the same question: the number of matching offers and the lowest price.

A goal is met when the median is below it. On a machine that does other work at the same time the
least time says more, and the least processor time still more: both hold the least of that work.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from benchmarks.market import FAMILIES, Stream, gpuhunt_catalogue, market
from benchmarks.report import Timing, table, time_in_turns
from tracker import data
from tracker.domain.gpu import Catalogue
from tracker.store import migrate
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.engine import make_engine
from tracker.store.polls import Poll, Recorder

GPUS = ("A100", "H100", "RTX4090")
_GPUHUNT = f"""
import gpuhunt
found = gpuhunt.Catalog(balance_resources=False, auto_reload=False).query(
    gpu_name={list(GPUS)!r}, spot=False)
found.sort(key=lambda item: item.price)
for item in found[:10]:
    print(item.provider, item.instance_name, item.gpu_name, item.gpu_count, item.price)
print(len(found), min(item.price / item.gpu_count for item in found))
"""

_GOALS_MS = {
    "gpucost --help": 150,
    "gpucost cheapest bert-large": 700,
    "gpucost cheapest bert-large --gpu ...": 700,
}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cli", description=__doc__)
    parser.add_argument("--runs", type=int, default=11, help="processes of each kind (11)")
    parser.add_argument("--offers", type=int, default=20_000, help="live offers (20000)")
    options = parser.parse_args()
    if not Path(gpucost()).exists():
        raise SystemExit("gpucost is not installed beside this interpreter: make bench")
    account = choose_account(None)
    with tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch:
        folder = Path(scratch)
        if account.switch:
            folder.chmod(0o711)  # the server's account must reach its data
        embedded = Embedded(folder / "data")
        try:
            url = embedded.start()
            streams = market(Catalogue.from_toml(data.text("gpus.toml"), data.text("aliases.toml")),
                             options.offers)  # fmt: skip
            fill(url, streams)
            gpuhunt_catalogue(streams, folder / "gpuhunt")
            check_same_answer(folder, streams)
            timings = time_in_turns(commands(), environment(folder), options.runs)
        finally:
            embedded.stop(force=True)
    print_report(timings, streams, options.runs)


def fill(url: str, streams: Sequence[Stream]) -> None:
    """Record one poll of every stream, as a poll just made."""
    migrate.upgrade(url)
    engine = make_engine(url)
    try:
        recorder = Recorder(engine)
        for stream in streams:
            now = datetime.now(UTC)
            recorder.record(
                Poll(
                    source=stream.name,
                    status="complete",
                    started_at=now,
                    polled_at=now,
                    every_seconds=3600,
                    marketplace=stream.marketplace,
                    default_tiers=stream.default_tiers,
                    accepted=stream.offers,
                )
            )
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE offer_now")
    finally:
        engine.dispose()


def environment(folder: Path) -> dict[str, str]:
    """What the measured processes see: nothing of the caller's settings of these programs.

    Compiled modules go to the scratch folder: an installed package has them, a checkout may not.
    """
    dropped = ("GPUCOST_", "GPUHUNT_", "PYTHONDONTWRITEBYTECODE")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(dropped)},
        "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
        "GPUCOST_DATA_DIR": str(folder / "data"),
        "GPUHUNT_CATALOG_DIR": str(folder / "gpuhunt"),
    }


def commands() -> dict[str, list[str]]:
    """The processes measured, by the name in the table. The first is what all Python pays."""
    program = gpucost()
    cheapest = [program, "cheapest", "bert-large"]
    filtered = [*cheapest, "--gpu", ",".join(GPUS)]
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "gpuhunt, same offers and filter": [sys.executable, "-c", _GPUHUNT],
        "gpucost --version": [program, "--version"],
        "gpucost --help": [program, "--help"],
        "gpucost cheapest bert-large": cheapest,
        "gpucost cheapest bert-large --gpu ...": filtered,
        "gpucost cheapest bert-large --gpu ... -o json": [*filtered, "-o", "json"],
        "gpucost cheapest bert-large --gpu ... --all -o csv": [*filtered, "--all", "-o", "csv"],
        "gpucost offers --gpu H100": [program, "offers", "--gpu", "H100"],
        "gpucost providers": [program, "providers"],
    }


def gpucost() -> str:
    """The command beside this interpreter."""
    return str(Path(sys.executable).with_name("gpucost"))


def check_same_answer(folder: Path, streams: Sequence[Stream]) -> None:
    """Stop when gpuhunt and gpucost do not see the same offers at the same prices."""
    wanted = [
        offer
        for stream in streams
        for offer in stream.offers
        if offer.gpu.family in GPUS and offer.listed.market != "spot"
    ]
    lowest = min(offer.price_per_gpu.usd for offer in wanted)
    env = environment(folder)
    told = _output([sys.executable, "-c", _GPUHUNT], env).splitlines()[-1].split()
    assert (int(told[0]), round(Decimal(told[1]), 6)) == (len(wanted), round(lowest, 6)), told
    rows = _output(
        [gpucost(), "offers", "--gpu", ",".join(GPUS), "--tier", "any",
         "--all", "-o", "ndjson"], env,
    ).splitlines()  # fmt: skip
    assert len(rows) == len(wanted), f"gpucost sees {len(rows)} of {len(wanted)} offers"


def _output(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed: {done.stderr.strip()}")
    return done.stdout


def print_report(timings: Sequence[Timing], streams: Sequence[Stream], runs: int) -> None:
    """The table: milliseconds of whole processes, and ratios against the two yardsticks."""
    by_name = {timing.name: timing for timing in timings}
    python, gpuhunt = by_name["python -c pass"], by_name["gpuhunt, same offers and filter"]
    total = sum(len(stream.offers) for stream in streams)
    asked = sum(o.gpu.family in GPUS for stream in streams for o in stream.offers)
    print(
        f"{total:,} live offers of {len(streams)} providers and {len(FAMILIES)} GPU families, "
        f"{asked:,} of them {', '.join(GPUS)}; {runs} processes each, in turns; load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )
    rows = [
        [
            timing.name,
            f"{timing.least_s * 1000:.0f}",
            f"{timing.median_s * 1000:.0f}",
            f"{timing.least_cpu_s * 1000:.0f}",
            f"{timing.least_s / python.least_s:.1f}",
            f"{timing.least_s / gpuhunt.least_s:.2f}",
            f"{timing.median_s / gpuhunt.median_s:.2f}",
            goal(timing),
        ]
        for timing in timings
    ]
    columns = ["process", "least ms", "median ms", "least cpu ms", "x python", "x gpuhunt least",
               "x gpuhunt median", "goal"]  # fmt: skip
    print(table(columns, rows))


def goal(timing: Timing) -> str:
    """The goal of a process and whether it is met; empty for one without a goal."""
    limit_ms = _GOALS_MS.get(timing.name)
    if limit_ms is None:
        return ""
    if timing.median_s * 1000 < limit_ms:
        return f"< {limit_ms} ms: met"
    if timing.least_s * 1000 < limit_ms:
        return f"< {limit_ms} ms: met at best"
    return f"< {limit_ms} ms: missed"


if __name__ == "__main__":
    main()
