"""Every provider of this project on a local server of its own, each with a fixture, and gpucost
pointed at all of them.

A new provider needs nothing here when its fixture ``normal`` (or else the first complete one) is
what its ``fetch`` asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from tests.support import clouds
from tests.support.fixtures import Case, cases
from tests.support.providers import OURS
from tests.support.replay import ReplayServer
from tracker import registry
from tracker.domain.normalize import FxRate

# Of the others the fixture is called normal, or it is the first.
FIXTURE_OF = {
    **clouds.FIXTURE_OF,
    "cloudrift": "variants_by_data_centre",
    "crusoe": "page",
    "cudo": "parts_put_together",
    "digitalocean": "price_page",
    "gcp": "open_data",
    "hyperbolic": "options",
    "jarvislabs": "usd",
    "lambda": "page",
    "lium": "hosts_whole_and_in_part",
    "ovh": "hours_and_months_of_two_entities",
    "pricebook": "shipped",
    "salad": "priorities",
    "scaleway": "prices_and_stock_of_two_zones",
    "thundercompute": "two_modes",
    "verda": "list",
}

# What a provider must be told for its fetch to ask what the fixture answers.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "aws": {"regions": ["us-east-1", "eu-central-1"], "bulk_regions": []},
    "azure": {"reservations": False},
    "databasemart": {"paths_databasemart": ["/gpu-server"]},
    "salad": {"organization": "acme"},
    "scaleway": {"zones": ["fr-par-2", "pl-waw-2"]},
    "vastai": {
        "gpus": [["A100 PCIE", "A100 SXM4"], ["H100 PCIE", "H100 SXM", "H100 NVL"]],
    },
}

# USD per unit, as tests/providers/test_contract.py has them.
USD_PER = {"EUR": "1.10", "INR": "0.012", "CNY": "0.14"}


@dataclass(frozen=True)
class Cloud:
    """One provider, the fixture that it answers with, and the server that does so."""

    name: str
    case: Case
    server: ReplayServer


def case(provider: str) -> Case:
    """The provider's ordinary fixture."""
    found = [case for case in cases() if case.provider == provider]
    wanted = FIXTURE_OF.get(provider, "normal")
    named = [case for case in found if case.name == wanted]
    whole = (case for case in found if case.expected().get("complete"))
    return named[0] if named else next(case for case in whole if case.expected()["offers"])


async def fetch_rates(http: object) -> Mapping[str, FxRate]:
    """In the place of the bank: the same rates every day."""
    today = datetime.now(UTC).date()
    return {currency: FxRate(Decimal(usd), today) for currency, usd in USD_PER.items()}


@contextmanager
def running() -> Iterator[tuple[list[Cloud], dict[str, str]]]:
    """The clouds, and the variables that point gpucost at them and nowhere else."""
    with ExitStack() as stack:
        found = []
        variables = {"GPUCOST_HTTP__ATTEMPTS": "1"}
        for name in OURS:
            cloud = Cloud(name, case(name), stack.enter_context(ReplayServer()))
            clouds.serve(cloud.server, name, cloud.case.payloads())
            found.append(cloud)
            for setting, value in _settings(cloud).items():
                text = value if isinstance(value, str) else json.dumps(value)
                variables[f"GPUCOST_PROVIDERS__{name}__{setting}".upper()] = text
        yield found, variables


def _settings(cloud: Cloud) -> dict[str, Any]:
    """Every address of the provider's configuration, moved to the local server; a key, where
    none means not to be asked; and what ``SETTINGS`` says."""
    provider = registry.load(cloud.name)
    settings: dict[str, Any] = {"enabled": True}
    for name, field in provider.config.model_fields.items():
        if isinstance(field.default, str) and field.default.startswith("https://"):
            settings[name] = cloud.server.url + urlsplit(field.default).path
    if provider.facts.key == "required":
        settings["api_key"] = f"key-of-{cloud.name}"
    return settings | dict(SETTINGS.get(cloud.name, {}))
