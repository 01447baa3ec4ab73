"""For how long somebody was the cheapest is said together with the time that it is a share of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.harness import A100, H100, RTX4090, filled, run
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.domain.offer import Offer
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
WINDOW = ("--since", "2026-03-02", "--until", "2026-03-12")


def told(hours: float, source: str, *offers: Offer) -> Poll:
    """A complete poll so many hours after the start; its prices hold for six hours."""
    moment = START + timedelta(hours=hours)
    return make_poll(0, offers, source=source, started_at=moment, polled_at=moment,
                     every_seconds=7200)  # fmt: skip


def offers(source: str, **prices: str) -> list[Offer]:
    gpus = {"h": H100, "a": A100, "r": RTX4090}
    return [
        make_offer(name, price, source=source, gpu=gpus[name]) for name, price in prices.items()
    ]


@pytest.fixture(scope="module")
def world(database_server: TestServer) -> Iterator[str]:
    """Ten days of the hub's H100 and A100; of the shop's RTX 4090 the last six hours."""
    polls = [told(hours, "hub", *offers("hub", h="4", a="1")) for hours in range(0, 240, 3)]
    polls.append(told(234, "shop", *offers("shop", r="0.1")))
    with filled(database_server, *polls) as url:
        yield url


@pytest.fixture(autouse=True)
def _in_world(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", world)


SHORT = "Compared are the 10 days for which two or more are known: RTX4090 only for 6 h."


def test_a_share_names_the_time_that_it_is_of() -> None:
    two = run("history", "--hours", "H100=4,A100=12", *WINDOW)
    assert "A100 was the cheapest for 100 % of the 10 days for which both are known;" in two.out
    assert "Compared are" not in two.out


def test_who_is_known_for_hours_only_is_named() -> None:
    three = run("history", "--hours", "H100=4,A100=12,RTX4090=48", *WINDOW)
    assert "A100 was the cheapest for 97.5 % of the 10 days for which two or more are" in three.out
    assert SHORT in three.lines
    document = run("history", "--hours", "H100=4,A100=12,RTX4090=48", *WINDOW, "-o", "json").json()
    assert SHORT in document["remarks"]
    known = {one["name"]: one["compared_seconds"] for one in document["series"]}
    assert (known["RTX4090"], known["A100"]) == (6 * 3600, 240 * 3600)


def test_who_is_not_known_at_all_was_never_compared() -> None:
    window = ("--since", "2026-03-02", "--until", "2026-03-08")
    answer = run("history", "--hours", "H100=4,A100=12,RTX4090=48", *window)
    said = "Compared are the 6 days for which two or more are known: RTX4090 never."
    assert said in answer.lines


def test_of_providers_the_same_is_said() -> None:
    answer = run("history", "--hours", "A100=12,RTX4090=48", "--per", "provider", *WINDOW)
    assert "of the 6 h for which both are known" in answer.out


def test_a_gpu_within_another_is_no_series_of_its_own() -> None:
    """It was, and tied with the family at every moment: the share was that of neither."""
    hours = "H100=4,A100=24,H100-SXM-80GB=4"
    answer = run("history", "--hours", hours, *WINDOW)
    assert "H100 was the cheapest for 100 % of the 10 days for which both are known;" in answer.out
    document = run("history", "--hours", hours, *WINDOW, "-o", "json").json()
    assert [one["name"] for one in document["series"][:-1]] == ["H100", "A100"]
    named = run("history", "--hours", hours, "--gpu", "H100,H100-SXM-80GB", *WINDOW, "-o", "json")
    assert [one["name"] for one in named.json()["series"][:-1]] == ["H100", "H100-SXM-80GB"]
