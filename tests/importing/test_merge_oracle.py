"""Imports in any pieces come to what all observations together say, by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.store import import_merge, imports
from tracker.store.engine import connect
from tracker.store.imports import StagedMoment, StagedPrice

START = datetime(2026, 3, 29, tzinfo=UTC)  # near the end of a month, on purpose
DAYS = 9
NAMES = ("a", "b")
# day → offer → price: what was seen on that day; a day that is missing was not looked at.
World = dict[int, dict[str, int]]
Window = tuple[int, int]

worlds = st.dictionaries(
    st.integers(0, DAYS - 1), st.dictionaries(st.sampled_from(NAMES), st.integers(1, 2)), max_size=7
)
windows = st.lists(
    st.tuples(st.integers(0, DAYS), st.integers(0, DAYS)).map(lambda w: (min(w), max(w))),
    max_size=3,
)
_slugs = itertools.count()


def day(n: int) -> datetime:
    return START + timedelta(days=n)


def known(world: World, hold: int, *, complete: bool) -> dict[tuple[str, int], int]:
    """The price of each offer on each day (from its beginning on), from the observations alone."""
    prices: dict[tuple[str, int], int] = {}
    for name in NAMES:
        for now in range(DAYS + hold):
            looked = [d for d in world if d <= now and (complete or name in world[d])]
            last = max(looked, default=None)
            if last is not None and name in world[last] and now < last + hold:
                prices[(name, now)] = world[last][name]
    return prices


def bring(url: str, slug: str, world: World, window: Window, hold: int, complete: bool) -> None:
    seen = {d: offers for d, offers in world.items() if window[0] <= d < window[1]}
    numbers = {name: n for n, name in enumerate(NAMES, 1)}
    staged = [
        (n, make_offer(name, "1", source=slug, seller=f"{slug}-s")) for name, n in numbers.items()
    ]
    prices = [
        StagedPrice(numbers[name], day(d), day(d + hold), False, Decimal(usd), usd * 10**6,
                    None, None, None, None, False)
        for d, offers in seen.items() for name, usd in offers.items()
    ]  # fmt: skip
    moments = [StagedMoment(slug, f"{slug}-s", day(d)) for d in seen] if complete else []
    with connect(url, autocommit=True) as connection:
        run = imports.begin(
            connection, format="test", source="world", digest=bytes([*window]), slug=slug,
            hold_seconds=hold * 86400, settled=False, position={},
        )  # fmt: skip
        imports.stage(connection, run, offers=staged, prices=prices, moments=moments, position={},
                      counts={})  # fmt: skip
        with connect(url) as merging:
            import_merge.merge(merging, run, {})


def stored(url: str, slug: str, hold: int) -> dict[tuple[str, int], int]:
    """The price of each offer on each day as stored; spans must neither overlap nor touch alike."""
    with connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT o.native_id, s.valid_from, s.valid_to, s.price_native FROM price_span s"
            " JOIN offer o ON o.id = s.offer_id JOIN provider p ON p.id = s.source_id"
            " WHERE p.slug = %s ORDER BY 1, 2",
            (slug,),
        ).fetchall()
    prices: dict[tuple[str, int], int] = {}
    for (name, start, end, usd), after in itertools.zip_longest(rows, rows[1:]):
        if after and after[0] == name:
            assert end <= after[1], "spans overlap"
            assert end < after[1] or usd != after[3], "spans that touch have one price"
        for now in range(DAYS + hold):
            if start <= day(now) < end:
                prices[(name, now)] = int(usd)
    return prices


@pytest.fixture(scope="module")
def url(database_server: TestServer) -> Iterator[str]:
    with database_server.database(migrated=True) as found:
        yield found


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds, pieces=windows, hold=st.integers(1, 4), complete=st.booleans())
def test_pieces_come_to_the_whole(
    url: str, world: World, pieces: list[Window], hold: int, complete: bool
) -> None:
    slug = f"import-world-{next(_slugs)}"
    for window in [*pieces, (0, DAYS)]:
        bring(url, slug, world, window, hold, complete)
    assert stored(url, slug, hold) == known(world, hold, complete=complete)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    world=worlds, cut=st.integers(0, DAYS), hold=st.integers(1, 4), late=st.booleans(),
    complete=st.booleans(),
)  # fmt: skip
@example(world={0: {"a": 1}, 2: {"a": 2}}, cut=1, hold=4, late=True, complete=False)
@example(world={0: {"a": 1}, 2: {"b": 2}}, cut=1, hold=4, late=True, complete=True)
def test_the_halves_come_to_the_whole_in_either_order(
    url: str, world: World, cut: int, hold: int, late: bool, complete: bool
) -> None:
    """What an earlier half does not know of the later one, the later one has told."""
    slug = f"import-world-{next(_slugs)}"
    halves = [(0, cut), (cut, DAYS)]
    for window in reversed(halves) if late else halves:
        bring(url, slug, world, window, hold, complete)
    assert stored(url, slug, hold) == known(world, hold, complete=complete)
