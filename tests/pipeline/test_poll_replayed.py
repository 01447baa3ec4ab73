"""``gpucost poll`` against a server that replays the five providers' fixtures, into PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import clouds
from tests.support.clouds import (
    FIVE,
    case,
    edited,
    expected_rows,
    live_rows,
    poll,
    query,
    recorded_rows,
    serve,
    spans,
    statuses,
)
from tests.support.command import Cli
from tests.support.replay import Answer, ReplayServer

HTML = Answer(b"<html><body>Down for maintenance</body></html>", 200, {"content-type": "text/html"})
GONE = Answer(b'{"error": "gone"}', 404)
CUT = Answer(b'{"data": {"gpuTypes": [', 200)


def test_a_poll_records_what_the_fixtures_expect(cli: Cli, database_url: str) -> None:
    outcomes = poll(cli)
    assert statuses(outcomes) == dict.fromkeys(FIVE, "complete")
    for provider in FIVE:
        expected = expected_rows(case(provider))
        assert recorded_rows(database_url, case(provider)) == expected
        outcome = outcomes[provider]
        assert (outcome["offers"], outcome["opened"]) == (len(expected), len(expected))
        assert outcome["rejected"] == case(provider).expected()["rejected"]
        assert (outcome["changed"], outcome["closed"], outcome["quarantined"]) == (0, 0, 0)
    assert query(database_url, "SELECT count(*) FROM price_span") == [(0,)]


def test_what_a_provider_said_is_kept_word_for_word(cli: Cli, database_url: str) -> None:
    poll(cli)
    kept = query(
        database_url,
        "SELECT p.slug, sum(b.bytes_raw) FROM payload a JOIN poll l ON l.id = a.poll_id"
        " JOIN provider p ON p.id = l.provider_id"
        " JOIN payload_body b ON b.sha256 = a.body_sha256 GROUP BY 1 ORDER BY 1",
    )
    assert kept == [(name, sum(len(a.body) for a in case(name).payloads())) for name in FIVE]


def test_the_same_answers_again_write_no_span_and_touch_no_offer(
    cli: Cli, database_url: str
) -> None:
    poll(cli)
    before = live_rows(database_url)
    for _ in range(2):
        again = poll(cli)
        assert statuses(again) == dict.fromkeys(FIVE, "complete")
        assert {(o["opened"], o["changed"], o["closed"]) for o in again.values()} == {(0, 0, 0)}
    assert live_rows(database_url) == before
    assert spans(database_url) == []
    assert query(database_url, "SELECT DISTINCT seq FROM provider WHERE seq > 0") == [(3,)]


def test_what_changes_is_written_and_nothing_else(
    cli: Cli, server: ReplayServer, database_url: str
) -> None:
    poll(cli)
    before = {row[2]: row for row in live_rows(database_url)}

    def next_day(page: dict[str, Any]) -> None:
        for row in page["Items"]:
            if row["retailPrice"] == 3.71:
                row["retailPrice"] = 3.6
        page["Items"] = [row for row in page["Items"] if row["retailPrice"] != 0.81]

    serve(server, "azure", edited("azure", next_day))
    outcomes = poll(cli)
    azure = outcomes.pop("azure")
    assert (azure["changed"], azure["closed"], azure["opened"]) == (1, 1, 0)
    assert all(o["changed"] + o["closed"] + o["opened"] == 0 for o in outcomes.values())
    name = "Standard_NC24ads_A100_v4"
    assert spans(database_url) == [(name, "on_demand", 3_710_000), (name, "spot", 810_000)]
    after = {row[2]: row for row in live_rows(database_url)}
    changed = [offer for offer in before if after.get(offer) != before[offer]]
    assert len(changed) == 2
    assert len(before) - len(after) == 1


def test_an_unchanged_answer_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, cli: Cli, database_url: str
) -> None:
    with ReplayServer(etags=True) as server:
        for provider in FIVE:
            serve(server, provider)
        cli.environment |= clouds.environment(server)
        poll(cli)
        before, asked = live_rows(database_url), len(server.requests)
        again = poll(cli)
        conditional = [r for r in server.requests[asked:] if "if-none-match" in r.headers]
    # Searches (POST) are always asked in full; AWS, Azure and the pages are not.
    assert len(conditional) == sum(len(case(p).payloads()) for p in ("aws", "azure",
                                                                     "databasemart"))  # fmt: skip
    assert statuses(again) == dict.fromkeys(FIVE, "complete")
    assert {again[name]["bytes"] for name in ("aws", "azure", "databasemart")} == {0}
    assert live_rows(database_url) == before
    assert spans(database_url) == []
    assert [recorded_rows(database_url, case(p)) for p in FIVE] == [
        expected_rows(case(p)) for p in FIVE
    ]


@pytest.mark.parametrize("broken", FIVE)
def test_one_providers_trouble_is_never_anothers(
    cli: Cli, server: ReplayServer, database_url: str, broken: str
) -> None:
    poll(cli)
    before = live_rows(database_url)
    for answer in (HTML, GONE, CUT):
        clouds.refuse(server, broken, answer)
        outcomes = poll(cli)
        assert statuses(outcomes) == {**dict.fromkeys(FIVE, "complete"), broken: "failed"}
        assert outcomes[broken]["reason"]
        assert "\n" not in outcomes[broken]["reason"]
        assert live_rows(database_url) == before
    clouds.forgive(server, broken)
    assert statuses(poll(cli)) == dict.fromkeys(FIVE, "complete")
    assert live_rows(database_url) == before
    assert spans(database_url) == []


def test_all_failed_is_exit_code_6_and_changes_nothing(
    cli: Cli, server: ReplayServer, database_url: str
) -> None:
    cli.environment["GPUCOST_PROVIDERS__PRICEBOOK__ENABLED"] = "true"  # is no provider's answer
    poll(cli)
    before = live_rows(database_url)
    for provider in FIVE:
        clouds.refuse(server, provider, GONE)
    outcomes = poll(cli, code=6)
    assert statuses(outcomes) == {**dict.fromkeys(FIVE, "failed"), "pricebook": "complete"}
    assert live_rows(database_url) == before
    assert query(
        database_url,
        "SELECT slug, consecutive_failures, last_status FROM provider WHERE slug = ANY (%s)"
        " ORDER BY slug",
        list(FIVE),
    ) == [(name, 1, "failed") for name in FIVE]


def test_one_that_works_is_exit_code_0(cli: Cli, server: ReplayServer) -> None:
    for provider in FIVE[1:]:
        clouds.refuse(server, provider, GONE)
    assert statuses(poll(cli)) == {**dict.fromkeys(FIVE, "failed"), "aws": "complete"}
    assert set(poll(cli, "--provider", "azure", code=6)) == {"azure"}


def _no_rows(answer: Any) -> None:
    answer["data"]["gpuTypes"] = []


def _one_row(answer: Any) -> None:
    del answer["data"]["gpuTypes"][:-1]


def _other_shape(answer: Any) -> Any:
    return {"data": {"gpus": answer["data"]["gpuTypes"]}}


def _closed(answer: Any) -> None:
    for row in answer["data"]["gpuTypes"]:
        row["secureCloud"] = row["communityCloud"] = False


@pytest.mark.parametrize(
    ("edit", "status"),
    [(_no_rows, "empty"), (_closed, "empty"), (_one_row, "shrunk"), (_other_shape, "failed")],
)
def test_a_poll_that_cannot_be_true_leaves_the_previous_state(
    cli: Cli, server: ReplayServer, database_url: str, edit: Callable[[Any], Any], status: str
) -> None:
    poll(cli, "--provider", "runpod")
    before = live_rows(database_url)
    serve(server, "runpod", edited("runpod", edit))
    outcomes = poll(cli, "--provider", "runpod", code=6)
    assert statuses(outcomes) == {"runpod": status}
    assert live_rows(database_url) == before
    assert spans(database_url) == []
    [(seq, ok, attempt)] = query(
        database_url, "SELECT seq, last_ok_at, last_attempt_at FROM provider WHERE slug = 'runpod'"
    )
    assert seq == 1
    assert attempt > ok, "the price ages from the last poll that was believed"


def test_a_market_that_stays_small_is_believed_in_the_end(
    cli: Cli, server: ReplayServer, database_url: str
) -> None:
    poll(cli, "--provider", "runpod")
    offers = len(live_rows(database_url))
    serve(server, "runpod", edited("runpod", _one_row))
    for _ in range(3):
        assert statuses(poll(cli, "--provider", "runpod", code=6)) == {"runpod": "shrunk"}
        assert len(live_rows(database_url)) == offers
        query(  # polls within seconds of each other prove nothing
            database_url,
            "UPDATE poll SET polled_at = polled_at - interval '10 minutes' RETURNING id",
        )
    outcome = poll(cli, "--provider", "runpod")["runpod"]
    assert outcome["status"] == "complete"
    assert outcome["closed"] == offers - len(live_rows(database_url)) > 0


def test_a_partial_poll_closes_nothing(cli: Cli, server: ReplayServer, database_url: str) -> None:
    poll(cli)
    before = live_rows(database_url, "aws")
    frankfurt = case("aws").payloads()[1]
    server.replay([frankfurt.__class__(frankfurt.url, b"{}", frankfurt.fetched_at, status=404)])
    outcome = poll(cli)["aws"]
    assert outcome["status"] == "partial"
    assert "EU (Frankfurt)" in outcome["reason"]
    assert (outcome["closed"], outcome["changed"]) == (0, 0)
    after = live_rows(database_url, "aws")
    assert len(after) == len(before)
    assert spans(database_url) == []
    unseen = query(
        database_url,
        "SELECT DISTINCT n.region, n.market FROM offer_now n JOIN provider p ON p.id = n.source_id"
        " WHERE p.slug = 'aws' AND n.seen_until IS NOT NULL",
    )
    assert unseen == [("eu-central-1", "on_demand")], "these go stale on their own"
    serve(server, "aws")
    assert poll(cli)["aws"]["status"] == "complete"
    assert query(database_url, "SELECT count(*) FROM offer_now WHERE seen_until IS NOT NULL") == [
        (0,)
    ]


def test_a_dry_run_writes_nothing(cli: Cli, database_url: str) -> None:
    outcomes = poll(cli, "--dry-run")
    assert statuses(outcomes) == dict.fromkeys(FIVE, "complete")
    assert query(database_url, "SELECT (SELECT count(*) FROM provider),"
                               " (SELECT count(*) FROM poll)") == [(0, 0)]  # fmt: skip


def test_a_key_is_sent_and_never_kept(cli: Cli, server: ReplayServer, database_url: str) -> None:
    secret = "rpa_0123456789abcdefghijklmnop"
    cli.environment["RUNPOD_API_KEY"] = secret
    result = cli("poll", "-o", "json", "--provider", "runpod")
    assert result.code == 0
    assert any(secret in r.headers.get("authorization", "") for r in server.requests)
    assert secret not in result.out + result.err
    kept = query(database_url, "SELECT to_jsonb(a)::text FROM payload a")
    kept += query(database_url, "SELECT to_jsonb(l)::text FROM poll l")
    kept += query(database_url, "SELECT to_jsonb(p)::text FROM provider p")
    assert not any(secret in json.dumps(row) for row in kept)
