"""A made-up cloud under several names, installed as a package of its own, that may be polled every
second: ``install(folder, names)`` gives what goes on PYTHONPATH."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.replay import Answer, ReplayServer, json_answer

_MODULE = """
from datetime import timedelta
from decimal import Decimal

from tracker.provider import (
    Facts, ListedOffer, Market, NativePrice, Parsed, PriceUnit, Provider, ProviderConfig,
    SecretStr, Terms, load_json, parse_decimal,
)


class Config(ProviderConfig):
    base_url: str = "http://127.0.0.1:9"
    api_key: SecretStr | None = None


def fetcher(name):
    async def fetch(http, config):
        key = {} if config.api_key is None else {
            "authorization": f"Bearer {config.api_key.get_secret_value()}"}
        return [await http.get(f"{config.base_url}/{name}", headers=key)]
    return fetch


def parse(payloads):
    return Parsed(tuple(
        ListedOffer(
            source_id=row["id"], gpu_name=row["gpu"], gpu_count=Decimal(1),
            vram_gb=Decimal(row["vram_gb"]),
            price=NativePrice(parse_decimal(row["usd"]), "USD", PriceUnit.MACHINE_HOUR),
            market=Market.ON_DEMAND, tier="standard", terms=Terms(billing_increment_seconds=1),
        )
        for payload in payloads for row in load_json(payload)
    ))


def make(name):
    return Provider(
        name=name, every=timedelta(seconds=1), config=Config,
        facts=Facts(
            title=name, website="https://example.org", price_per="machine", currency="USD",
            billing_increment_seconds=1, minimum_seconds=None, spot="none", tiers=("standard",),
            default_tiers=("standard",), key="optional", key_variable=f"{name.upper()}_API_KEY",
            terms="made up", verified="made up", min_every=timedelta(seconds=1),
        ),
        fetch=fetcher(name), parse=parse, poll_deadline=timedelta(seconds=20),
    )

"""


def install(folder: Path, names: Iterable[str]) -> Path:
    """Lay a package with the providers *names* into *folder*, as an installer would."""
    folder.mkdir(parents=True, exist_ok=True)
    info = folder / "fleet-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet\nVersion: 1.0\n")
    lines = [f"{name} = fleet:{name}\n" for name in names]
    (info / "entry_points.txt").write_text("[gpucost.providers]\n" + "".join(lines))
    made = "".join(f"{name} = make({name!r})\n" for name in names)
    (folder / "fleet.py").write_text(_MODULE + made)
    return folder


def machines(h100: str = "2.50", a100: str = "1.20") -> list[dict[str, Any]]:
    """One H100 and one A100 at these prices per hour."""
    return [
        {"id": "h", "gpu": "H100 SXM", "vram_gb": 80, "usd": h100},
        {"id": "a", "gpu": "A100 SXM4", "vram_gb": 80, "usd": a100},
    ]


def sell(server: ReplayServer, name: str, h100: str = "2.50", a100: str = "1.20") -> None:
    """Let *server* answer as the provider *name* that asks these prices."""
    answer = json_answer(machines(h100, a100))
    server.handle("GET", f"/{name}", lambda _: answer)


def fail(server: ReplayServer, name: str, status: int = 500, **headers: str) -> None:
    """Let the provider *name* answer with an error."""
    answer: Answer = json_answer({"error": "no"}, status, **headers)
    server.handle("GET", f"/{name}", lambda _: answer)
