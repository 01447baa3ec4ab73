"""The five providers on one local server, each with its own fixture, and gpucost pointed at it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.support.command import Cli
from tests.support.fixtures import FIXTURES, Case
from tests.support.providers import OURS
from tests.support.replay import Answer, ReplayServer, Request
from tracker.domain.money import to_micro_usd
from tracker.provider import Payload, parse_decimal
from tracker.store.schema import offer_now

FIXTURE_OF = {
    "aws": "on_demand_and_spot",
    "azure": "two_chains_three_pages",
    "databasemart": "cards_on_three_pages",
    "runpod": "normal",
    "vastai": "normal",
}
FIVE = tuple(FIXTURE_OF)

# Columns by the names of expected.json, where these are others.
_RENAMED = {"source_id": "native_id", "gpu": "gpu_key"}


def case(provider: str) -> Case:
    """The provider's ordinary fixture."""
    name = FIXTURE_OF[provider]
    return Case(provider, name, FIXTURES / provider / name)


def serve(server: ReplayServer, provider: str, payloads: Iterable[Payload] | None = None) -> None:
    """Let *server* answer as *provider* recorded it (its ordinary fixture), from now on."""
    payloads = case(provider).payloads() if payloads is None else list(payloads)
    if provider == "runpod":  # one question, whose exact words are of no interest here
        payloads = [replace(p, request_body=b"") for p in payloads]
    server.replay(payloads)


def edited(provider: str, edit: Callable[[Any], Any]) -> list[Payload]:
    """The provider's JSON answers, each as *edit* (which may work in place) leaves it."""
    changed = []
    for payload in case(provider).payloads():
        value = json.loads(payload.body)
        result = edit(value)
        body = json.dumps(value if result is None else result).encode()
        changed.append(replace(payload, body=body))
    return changed


def refuse(server: ReplayServer, provider: str, answer: Answer) -> None:
    """Let every request of *provider* be answered with *answer*."""

    def always(request: Request) -> Answer:
        return answer

    for payload in case(provider).payloads():
        server.handle(payload.method, _path(payload), always)


def forgive(server: ReplayServer, provider: str) -> None:
    """Undo ``refuse``."""
    for payload in case(provider).payloads():
        server.unhandle(payload.method, _path(payload))


def _path(payload: Payload) -> str:
    return urlsplit(payload.url).path


def environment(server: ReplayServer, providers: Iterable[str] = FIVE) -> dict[str, str]:
    """The variables that point gpucost's providers at *server*, asking what the fixtures answer.

    Only *providers* are enabled: no other may go out to the network.
    """
    url = server.url
    settings: Mapping[str, Any] = {
        "AWS__REGIONS": ["us-east-1", "eu-central-1"],
        "AWS__BULK_REGIONS": [],
        **{f"AWS__{name}_URL": url for name in ("SMALL_FEED", "BULK", "SPOT", "ADVISOR")},
        "AZURE__BASE_URL": url,
        "AZURE__RESERVATIONS": "false",  # the fixtures were recorded without
        "DATABASEMART__BASE_URL_GPU_MART": url,
        "DATABASEMART__BASE_URL_DATABASEMART": url,
        "DATABASEMART__PATHS_DATABASEMART": ["/gpu-server"],
        "RUNPOD__BASE_URL": url,
        "VASTAI__BASE_URL": url,
        "VASTAI__GPUS": [["A100 PCIE", "A100 SXM4"], ["H100 PCIE", "H100 SXM", "H100 NVL"]],
        **{f"{name.upper()}__ENABLED": "true" if name in providers else "false"
           for name in OURS},
    }  # fmt: skip
    return {
        f"GPUCOST_PROVIDERS__{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    } | {"GPUCOST_HTTP__ATTEMPTS": "1"}


def expected_rows(of: Case) -> list[dict[str, str]]:
    """The fixture's offers as ``recorded_rows`` gives them."""
    return _sorted(
        {
            "micro_usd": str(to_micro_usd(parse_decimal(row["price_usd_per_machine_hour"]))),
            **{name: _text(row[name]) for name in _columns(of)},
        }
        for row in of.expected()["offers"]
    )


def recorded_rows(url: str, of: Case) -> list[dict[str, str]]:
    """The live offers of the fixture's provider, with the columns that its expected.json has."""
    names = _columns(of)
    columns = ", ".join(f"n.{column}" for column in names.values())
    found = query(
        url,
        f"SELECT n.price_micro_usd, {columns} FROM offer_now n"  # noqa: S608 - names from above
        " JOIN provider p ON p.id = n.source_id WHERE p.slug = %s",
        of.provider,
    )
    return _sorted(dict(zip(("micro_usd", *names), map(_text, row), strict=True)) for row in found)


def _columns(of: Case) -> dict[str, str]:
    """What expected.json says of its offers that the table of live offers has as well."""
    named = {name: _RENAMED.get(name, name) for name in of.expected()["offers"][0]}
    return {name: column for name, column in named.items() if column in offer_now.c}


def _text(value: Any) -> str:
    try:
        return format(round(parse_decimal(value), 6).normalize(), "f")
    except ValueError:
        return str(value)


def _sorted(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(rows, key=lambda row: sorted(row.items()))


def query(url: str, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """What one statement returns."""
    with psycopg.connect(url) as connection:
        return connection.execute(sql.encode(), values or None).fetchall()


def poll(cli: Cli, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Poll, and the outcomes by provider."""
    result = cli("poll", "-o", "json", *arguments)
    assert result.code == code, result.err
    return {row["provider"]: row for row in result.json()["rows"]}


def statuses(outcomes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """How each poll went."""
    return {name: outcome["status"] for name, outcome in outcomes.items()}


def live_rows(url: str, provider: str | None = None) -> list[tuple[Any, ...]]:
    """The live offers, whole rows, with the place and the transaction that wrote them."""
    return query(
        url,
        "SELECT n.xmin, n.ctid, n.* FROM offer_now n JOIN provider p ON p.id = n.source_id"
        " WHERE coalesce(p.slug = %s, true) ORDER BY offer_id",
        provider,
    )


def spans(url: str) -> list[tuple[Any, ...]]:
    """The closed spans: id, market and price."""
    return query(
        url,
        "SELECT o.native_id, o.market, s.price_micro_usd FROM price_span s"
        " JOIN offer o ON o.id = s.offer_id ORDER BY 1, 2, 3",
    )
