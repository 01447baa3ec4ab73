"""A market whose prices change between polls, and gpucost as processes that poll it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from tests.support import clouds
from tests.support.catalogue import catalogue
from tests.support.clouds import FIVE, case
from tests.support.fixtures import ROOT
from tests.support.replay import ReplayServer
from tracker import registry
from tracker.collect import digest
from tracker.domain.money import to_micro_usd
from tracker.domain.quality import Known, Rules
from tracker.provider import Payload
from tracker.store.embedded import Embedded

State = frozenset[tuple[Any, ...]]

_PRICES = {"dph_base", "dph_total", "min_bid", "retailPrice", "price", "USD",
           "securePrice", "communityPrice", "secureSpotPrice", "communitySpotPrice"}  # fmt: skip


def generation(provider: str, number: int) -> list[Payload]:
    """The provider's answers of one moment: other prices each time, and every other one a row
    short."""
    factor = 1 + number % 7 / 100
    return [replace(p, body=_changed(p.body, factor, number)) for p in case(provider).payloads()]


def _changed(body: bytes, factor: float, number: int) -> bytes:
    if body.lstrip()[:1] not in (b"{", b"["):
        dollars = re.compile(rb"\$(\d+\.\d\d)")
        return dollars.sub(lambda m: b"$%.2f" % (float(m[1]) * factor), body)
    value = json.loads(body)
    _scale(value, factor)
    if number % 2:
        for rows in (value.get("Items"), value.get("offers")):
            if rows and len(rows) > 1:
                del rows[-1]
    return json.dumps(value).encode()


def _scale(value: Any, factor: float) -> None:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in list(pairs):
        if isinstance(inner, dict | list):
            _scale(inner, factor)
        elif name in _PRICES and inner is not None:
            try:
                scaled = round(float(inner) * factor, 6)
            except ValueError:
                continue  # N/A*
            value[name] = str(scaled) if isinstance(inner, str) else scaled


def expected(provider: str, number: int) -> State:
    """The live offers that a whole poll of that moment leaves."""
    it = registry.load(provider)
    found = digest(
        it, generation(provider, number), catalogue(), fx={}, known=Known(), rules=Rules()
    )
    assert not found.held
    return frozenset(
        (o.listed.source_id, str(o.listed.market), o.listed.tier, int(o.listed.gpu_count * 1000),
         o.listed.region, to_micro_usd(o.price.usd))
        for o in found.accepted
    )  # fmt: skip


class World:
    """The server, the data folder, and what every generation must look like."""

    def __init__(self, server: ReplayServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.embedded = Embedded(folder)
        self._expected: dict[tuple[str, int], State] = {}

    def turn(self, number: int) -> None:
        """Let all providers answer with another generation."""
        for provider in FIVE:
            clouds.serve(self.server, provider, generation(provider, number))

    def expected(self, provider: str, number: int) -> State:
        """See the function; remembered."""
        key = provider, number % 14  # the prices repeat after 7, the missing row after 2
        if key not in self._expected:
            self._expected[key] = expected(*key)
        return self._expected[key]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a gpucost command."""
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1", "GPUCOST_DATA_DIR": str(self.folder),
            **clouds.environment(self.server),
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.unpaced", *arguments],
            cwd=self.folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Any:
        """Run a gpucost command to its end; its JSON."""
        process = self.start(*arguments, "-o", "json")
        out, err = process.communicate(timeout=120)
        assert process.returncode in codes, err
        return json.loads(out) if out else None

    def states(self) -> Mapping[str, State]:
        """What is live of each provider."""
        with self.embedded.running() as url, psycopg.connect(url) as connection:
            if connection.execute("SELECT to_regclass('offer_now')").fetchall() == [(None,)]:
                return {}
            rows = connection.execute(
                "SELECT p.slug, n.native_id, n.market, n.tier, (n.gpu_count * 1000)::int,"
                " n.region, n.price_micro_usd"
                " FROM offer_now n JOIN provider p ON p.id = n.source_id"
            ).fetchall()
            assert_sound(connection)
        return {
            name: frozenset(tuple(row[1:]) for row in rows if row[0] == name)
            for name in {row[0] for row in rows}
        }

    def servers(self) -> list[str]:
        """The command lines of the PostgreSQL processes of this folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has just ended
            if str(self.folder) in command and "postgres" in command:
                found.append(command)
        return found


def assert_sound(connection: psycopg.Connection[Any]) -> None:
    """No span is empty or turned round, none overlaps the next or the open one; polls add up."""
    problems = connection.execute(
        "WITH s AS (SELECT offer_id, valid_from, valid_to FROM price_span UNION ALL"
        "           SELECT offer_id, valid_from, 'infinity' FROM offer_now),"
        " n AS (SELECT *, lead(valid_from) OVER (PARTITION BY offer_id ORDER BY valid_from) AS next"
        "       FROM s)"
        " SELECT * FROM n WHERE valid_from >= valid_to OR next < valid_to OR next = valid_from"
    ).fetchall()
    assert problems == []
    counts = connection.execute(
        "SELECT p.slug, p.seq, count(l.id) FROM provider p LEFT JOIN poll l ON l.provider_id = p.id"
        " AND l.status IN ('complete', 'partial') GROUP BY 1, 2"
    ).fetchall()
    assert all(seq == polls for _, seq, polls in counts), counts
    doubled = connection.execute(
        "SELECT key FROM offer_now GROUP BY key HAVING count(*) > 1"
    ).fetchall()
    assert doubled == []
