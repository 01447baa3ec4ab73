"""Answers that are kept: never more of them, nor more bytes of them, than the bounds say."""

from __future__ import annotations

import asyncio

import pytest

from tracker.app.weight import text_in
from tracker.web.api import kept
from tracker.web.api.kept import Keeper


async def _nothing() -> tuple[bytes, dict[str, str]]:
    return b"", {}


def _ask(keeper: Keeper, count: int, text: str = "") -> None:
    async def all_of_them() -> None:
        for number in range(count):
            await keeper.answer(("offers", (("region", f"{number}{text}"),)), 1, _nothing)

    asyncio.run(all_of_them())


def test_questions_weigh_as_much_as_their_answers() -> None:
    keeper = Keeper(most_bytes=100_000)
    _ask(keeper, 500, "x" * 8000)  # all answered by nothing
    assert 0 < len(keeper._kept) <= 12
    assert keeper._bytes == sum(one.weight for one in keeper._kept.values()) <= 100_000


def test_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_ANSWERS", 9)
    keeper = Keeper()
    _ask(keeper, 50)
    assert len(keeper._kept) == 9


def test_what_does_not_hold_any_more_is_let_go() -> None:
    now = [0.0]
    keeper = Keeper(holds_s=10, clock=lambda: now[0])
    _ask(keeper, 50)
    now[0] = 11.0
    _ask(keeper, 1)
    assert len(keeper._kept) == 1
    assert keeper._bytes == sum(one.weight for one in keeper._kept.values())


def test_the_texts_of_a_question() -> None:
    assert text_in(("abc", frozenset(("de", "f")), None, 7)) == 6 + 2 * 16
    assert text_in(object()) == 100
