"""The daemon answers programs, and browsers, while it polls."""

from __future__ import annotations

import json

from tests.daemon.fleet import sell
from tests.daemon.world import World, polls, until


def test_it_answers_questions(world: World, database_url: str) -> None:
    sell(world.server, "alpha", h100="0.90", a100="1.20")
    settings = {"GPUCOST_DAEMON__API_TOKEN": "planted-token-of-letters",
                "GPUCOST_DAEMON__ALLOW_HOSTS": '["prices.example"]'}  # fmt: skip
    with world.daemon(**settings) as running:
        until(lambda: polls(database_url, "alpha"))
        found = until(lambda: _rows(running.get("/api/v1/cheapest?job=bert-large&provider=alpha")))
        assert found[0]["total_usd"] == "3.6"  # 4 h on the H100 at 0.90
        assert running.get("/api/v1/jobs", Host="prices.example")[0] == 200
        assert running.get("/api/v1/jobs", Host="evil.example")[0] == 421
        status, text = running.get("/?job=bert-large")
        assert (status, "BERT-Large" in text) == (200, True)
        assert running.stop() == 0
        assert "planted-token" not in "\n".join(running.log)


def _rows(answer: tuple[int, str]) -> list[dict[str, str]]:
    status, text = answer
    assert status == 200, text
    rows: list[dict[str, str]] = json.loads(text)["rows"]
    return rows
