"""Google Cloud, Compute Engine: GPU machines, made up from the prices of their parts.

With an API key: the SKUs of the Cloud Billing Catalog API
(https://cloud.google.com/billing/v1/how-tos/catalog-api), which prices a vCPU, a GiB, a GPU and a
GiB of local SSD, never a machine. What a machine is made of: ``machines.py``; which SKUs are what
they seem: ``skus.py``. Without a key: whole machines from Cyclenerd's open data (``opendata.py``),
which is made up of the same catalogue about daily.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from providers.gcp import opendata
from providers.gcp.offers import (
    BILLING_INCREMENT_SECONDS,
    MINIMUM_SECONDS,
    Priced,
    assembled,
    to_offers,
)
from providers.gcp.skus import prices
from tracker.provider import (
    Facts,
    FetchError,
    HttpClient,
    Parsed,
    ParseError,
    Payload,
    Provider,
    ProviderConfig,
    Rejected,
    SecretStr,
    load_json,
)

PATH = "/v1/services/6F81-5844-456A/skus"  # the service "Compute Engine"
PAGE_SIZE = 5000  # the largest that the API gives
MAX_PAGES = 40


class GcpConfig(ProviderConfig):
    """``[providers.gcp]``. The key needs nothing but the Cloud Billing API enabled in a project.

    ``open_data = false`` leaves the provider without prices while there is no key.
    """

    base_url: str = "https://cloudbilling.googleapis.com"
    api_key: SecretStr | None = None
    open_data: bool = True
    open_data_url: str = "https://github.com"


async def fetch(http: HttpClient, config: GcpConfig) -> Sequence[Payload]:
    """All pages of the catalogue; without a key, the open data.

    The failure of the first page fails the poll; that of a later one leaves a gap that ``parse``
    notices. Raises FetchError.
    """
    if config.api_key is None:
        if not config.open_data:
            raise FetchError("no API key: set GCP_API_KEY, or allow open_data")
        url = config.open_data_url.rstrip("/") + opendata.PATH
        return [await http.get(url, expect="text")]
    url = config.base_url.rstrip("/") + PATH
    headers = {"x-goog-api-key": config.api_key.get_secret_value()}
    pages: list[Payload] = []
    token, asked = "", set[str]()
    while len(pages) < MAX_PAGES:
        params = {"currencyCode": "USD", "pageSize": str(PAGE_SIZE)}
        if token:
            params["pageToken"] = token
        try:
            pages.append(await http.get(url, params=params, headers=headers))
        except FetchError:
            if not pages:
                raise
            break
        asked.add(token)
        token = _next_token(pages[-1])
        if not token or token in asked:
            break
    return pages


def _next_token(page: Payload) -> str:
    try:
        body = load_json(page)
    except ParseError:
        return ""  # parse() will say so
    token = body.get("nextPageToken") if isinstance(body, dict) else None
    return token if isinstance(token, str) else ""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Pages of the Billing Catalog, or the open data, to offers of machines.

    Raises ParseError when an answer is neither.
    """
    if not payloads:
        raise ParseError("skus", "no answer to read")
    rejected: list[Rejected] = []
    priced: list[Priced] = []
    pages: list[tuple[Payload, dict[str, Any]]] = []
    for payload in payloads:
        if opendata.is_open_data(payload):
            priced += opendata.read(payload, rejected)
        else:
            pages.append((payload, _page(payload)))
    if pages:
        skus = [sku for _, page in pages for sku in page["skus"]]
        parts, refused = prices(skus, max(payload.fetched_at for payload in payloads))
        rejected += refused
        priced += assembled(parts, rejected)
    offers = tuple(to_offers(priced, rejected))
    missing = _page_not_read(pages)
    return Parsed(
        offers=offers,
        rejected=tuple(rejected),
        complete=not missing,
        incomplete_reason="a further page (nextPageToken) was not read" if missing else None,
    )


def _page(payload: Payload) -> dict[str, Any]:
    body = load_json(payload)
    if not isinstance(body, dict):
        raise ParseError("body", "not a JSON object with skus")
    if not isinstance(body.get("skus"), list):
        error = body.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        said = " ".join(str(message).split())[:100] if message else ""
        raise ParseError(
            "skus", f"missing or not a list{f' (Google says: {said})' if said else ''}"
        )
    return body


def _page_not_read(pages: Sequence[tuple[Payload, dict[str, Any]]]) -> bool:
    read: set[str] = set()
    for payload, _ in pages:
        read.update(parse_qs(_query(payload.url)).get("pageToken", []))
    tokens = [page.get("nextPageToken") for _, page in pages]
    return any(not isinstance(token, str) or token not in read for token in tokens if token)


def _query(url: str) -> str:
    try:
        return urlsplit(url).query
    except ValueError:
        return ""


provider = Provider(
    name="gcp",
    every=timedelta(hours=6),
    config=GcpConfig,
    facts=Facts(
        title="Google Cloud",
        website="https://cloud.google.com/compute/all-pricing",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=BILLING_INCREMENT_SECONDS,
        minimum_seconds=MINIMUM_SECONDS,
        spot="list price of Spot VMs, one for a region; a machine may be taken away at any time, "
        "and the price may change once a day",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="GCP_API_KEY",
        key_adds="Google's own catalogue, for all regions, instead of a third party's open data, "
        "and with it T4, V100 and P100",
        terms="with a key: a documented public API, made for programs; without: open data of a "
        "third party under the Apache-2.0 licence, believed for 14 days after it was made "
        "(open_data = false leaves it out)",
        verified="sums checked to the last digit against Google's price page for a2-highgpu-1g, "
        "a2-ultragpu-1g and a3-highgpu-8g, and against open data recorded in 2025-03; most SKUs "
        "were seen in documentation and other programs only, and neither source has been called "
        "live, because no live call was possible when this was written. a3-highgpu-1g, 2g and 4g "
        "are listed as spot only, a3-ultragpu and a4 as spot or committed to with a reservation, "
        "a4x so alone (the name of its price item is taken after that of a4), and a3-edgegpu only "
        "where the open data prices the whole machine. T4, V100 and P100 come with an "
        "n1-standard-8 for each GPU, before the sustained-use discount of N1. Which GPU is in "
        "which region is a hand-kept table",
        min_every=timedelta(hours=1),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=1.0,
    poll_deadline=timedelta(minutes=6),
)
