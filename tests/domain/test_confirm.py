"""Which ask stands for a market, against a reading of the same rules that looks at everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.confirm import RANKS, Quote, figure, host_of, is_sure, needed, seen_twice

NOW = datetime(2026, 3, 30, tzinfo=UTC)


def quote(
    usd: str, host: str = "", *, hub: str | None = None, confirmed: bool = False
) -> Quote[str]:
    """A list price, or with *hub* an ask on that marketplace."""
    name = host or usd
    return Quote(Decimal(usd), name, hub or "acme", name, hub is not None, confirmed)


def picked(quotes: list[Quote[str]], rank: str = "auto") -> tuple[str | None, str | None]:
    """The item of the figure and of the doubtful one."""
    found = figure(quotes, rank)
    return (
        found.quote.item if found.quote else None,
        found.doubtful.item if found.doubtful else None,
    )


def test_auto_takes_the_cheapest_list_price_or_the_second_host() -> None:
    hosts = [quote("1", hub="hub"), quote("2", hub="hub"), quote("3", hub="hub")]
    assert picked(hosts) == ("2", None)
    assert picked([*hosts, quote("1.5")]) == ("1.5", None)
    assert picked([*hosts, quote("2.5")]) == ("2", None)


def test_asks_of_one_host_are_one() -> None:
    parts = [quote("1", "9", hub="hub"), quote("2", "9", hub="hub"), quote("4", "8", hub="hub")]
    assert picked(parts) == ("8", None)


def test_a_sole_host_must_be_confirmed_or_supported() -> None:
    alone = quote("1", hub="hub")
    assert picked([alone]) == (None, "1")
    assert picked([alone, quote("2")]) == ("2", "1")
    assert picked([alone, quote("1.05")]) == ("1", None)
    assert picked([alone, quote("1.051")]) == ("1.051", "1")
    assert picked([alone._replace(confirmed=True), quote("2")]) == ("1", None)
    assert picked([quote("3", hub="hub"), quote("2")]) == ("2", None), "it would not count anyway"


def test_two_marketplaces_do_not_make_each_other_a_crowd() -> None:
    assert picked([quote("1", hub="one"), quote("2", hub="two")]) == (None, "1")


def test_min_needs_confirmation_on_a_marketplace_only() -> None:
    asks = [quote("1", hub="hub"), quote("2", hub="hub"), quote("2.1", hub="hub")]
    assert picked(asks, "min") == ("2", "1")
    assert picked([quote("1"), quote("2")], "min") == ("1", None)


@pytest.mark.parametrize(("rank", "expected"), [("2nd", "2"), ("3rd", "3"), ("median", "3")])
def test_places(rank: str, expected: str) -> None:
    quotes = [quote(str(n)) for n in (5, 3, 1, 4, 2)]
    assert picked(quotes, rank) == (expected, None)
    assert picked(quotes[:1], rank)[0] == (None if needed(rank) > 1 else "5")


def test_nothing_has_no_figure() -> None:
    assert [picked([], rank) for rank in RANKS] == [(None, None)] * len(RANKS)


@pytest.mark.parametrize(
    ("minutes", "twice"), [(0, False), (-5, False), (2.49, False), (2.5, True), (60, True)]
)
def test_polls_within_half_an_interval_are_one(minutes: float, twice: bool) -> None:
    seen_at = NOW + timedelta(minutes=minutes)
    assert seen_twice(NOW, seen_at, timedelta(minutes=5)) is twice
    assert not seen_twice(NOW, NOW, timedelta(0))


def test_the_parts_of_a_machine_have_one_host() -> None:
    assert host_of("1234/8") == host_of("1234/1") == "1234"
    assert host_of("gpu-box") == "gpu-box"
    assert host_of("/8") == "/8"


_quotes = st.lists(
    st.builds(
        lambda usd, host, hub, confirmed: Quote(
            Decimal(usd) / 100, f"{host}:{usd}", hub or "acme", host, hub is not None, confirmed
        ),
        st.integers(1, 400),
        st.sampled_from("abcdef"),
        st.sampled_from([None, None, "hub", "bazaar"]),
        st.booleans(),
    ),
    max_size=9,
)


def _oracle(quotes: list[Quote[str]], rank: str) -> Decimal | None:
    """The amount of the figure: everything tried, nothing sorted cleverly."""
    hosts = [q for q in quotes if not q.marketplace]
    for seller in {q.seller for q in quotes if q.marketplace}:
        for host in {q.host for q in quotes if q.marketplace and q.seller == seller}:
            mine = [q for q in quotes if q.marketplace and (q.seller, q.host) == (seller, host)]
            # Of equal asks of one host the first one stands.
            hosts.append(min(mine, key=lambda q: q.usd))

    def sure(q: Quote[str]) -> bool:
        others = [o for o in hosts if (o.seller, o.host) != (q.seller, q.host)]
        close = [o for o in others if abs(o.usd - q.usd) * 20 <= q.usd]
        return not q.marketplace or q.confirmed or bool(close)

    amounts = sorted(q.usd for q in hosts)
    if rank in ("2nd", "3rd"):
        place = int(rank[0])
        return amounts[place - 1] if len(amounts) >= place else None
    if rank in ("p10", "median"):
        share = {"p10": 10, "median": 2}[rank]
        return amounts[max(1, ceil(Decimal(len(amounts)) / share)) - 1] if amounts else None
    if rank == "min":
        return min((q.usd for q in hosts if sure(q)), default=None)
    usable = [q.usd for q in hosts if not q.marketplace]
    for seller in {q.seller for q in hosts if q.marketplace}:
        crowd = sorted((q for q in hosts if q.marketplace and q.seller == seller), key=_usd)
        if len(crowd) > 1:
            usable.append(crowd[1].usd)
        elif sure(crowd[0]):
            usable.append(crowd[0].usd)
    return min(usable, default=None)


def _usd(q: Quote[str]) -> Decimal:
    return q.usd


@given(_quotes, st.sampled_from(RANKS))
def test_the_figure_is_what_looking_at_everything_gives(
    quotes: list[Quote[str]], rank: str
) -> None:
    found = figure(quotes, rank)
    assert (found.quote.usd if found.quote else None) == _oracle(quotes, rank)
    if found.doubtful is not None:
        assert found.quote is None or found.doubtful.usd <= found.quote.usd
        assert found.doubtful.marketplace
        assert not found.doubtful.confirmed


@given(_quotes.filter(lambda quotes: len({q.host for q in quotes}) > 2), st.integers(1, 400))
def test_one_more_ask_of_a_crowd_never_sets_the_price_by_itself(
    quotes: list[Quote[str]], cents: int
) -> None:
    """Whatever one new host asks, the figure stays between the old one and the cheapest ask."""
    crowd = [q._replace(marketplace=True, seller="hub") for q in quotes]
    new = Quote(Decimal(cents) / 1000, "new", "hub", "new", True, False)
    before, after = figure(crowd, "auto").quote, figure([*crowd, new], "auto").quote
    assert before is not None
    assert after is not None
    assert min(q.usd for q in crowd) <= after.usd <= before.usd


@given(_quotes)
def test_nobody_supports_himself(quotes: list[Quote[str]]) -> None:
    for q in quotes:
        mine = [o for o in quotes if (o.seller, o.host) == (q.seller, q.host)]
        assert is_sure(q, mine) == (not q.marketplace or q.confirmed)
