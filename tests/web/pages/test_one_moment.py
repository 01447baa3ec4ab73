"""A page is of one state of the database, whatever is recorded while it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, filled, polled, record
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.api.served import client
from tracker.app.answers import Answers
from tracker.store.polls import Poll

ASKED = "/break-even?job=bert-large&left=H100&right=A100&since=2d"


def prices(h100: str, minutes_ago: float) -> Poll:
    offers = [make_offer("h", h100, gpu=H100), make_offer("a", "1.50", gpu=A100)]
    return polled("acme", offers, minutes_ago)


def test_a_poll_in_between_does_not_mix_two_prices(
    database_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Answers.versus
    with filled(database_server, prices("3.11", 60)) as url, client(url, tmp_path) as asking:

        def versus(self: Answers, *given: Any) -> Any:
            found = told(self, *given)
            record(url, prices("2.22", 0.01))
            return found

        monkeypatch.setattr(Answers, "versus", versus)
        first = asking.ask(ASKED).text
        monkeypatch.undo()
        second = asking.ask(ASKED).text
    assert "(now $3.1100)" in first
    assert "$2.22" not in first
    assert "(now $2.2200)" in second
