"""From the payloads of a poll, or from files parsed by hand, to offers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from providers.aws import bulk, smallfeed, spot
from providers.aws.fetching import ADVISOR_PATH, SPOT_PATH, is_answer
from providers.aws.regions import code_of
from providers.aws.rows import Reading, to_offers
from tracker.provider import ListedOffer, Parsed, ParseError, Payload, Rejected, load_json


class Kind(StrEnum):
    """The AWS files that are understood."""

    SMALL = "small on-demand feed"
    BULK_CSV = "bulk list (CSV)"
    BULK_JSON = "bulk list (JSON)"
    SPOT = "spot.json"
    ADVISOR = "Spot Advisor"
    INDEX = "index of the bulk list"  # tells versions, no prices


_READERS = {
    Kind.SMALL: smallfeed.read,
    Kind.BULK_CSV: bulk.read_csv,
    Kind.BULK_JSON: bulk.read_json,
    Kind.SPOT: spot.read,
}


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of all payloads together.

    The answer is incomplete when a request failed, a file is cut off or one of several files is
    of another shape. Raises ParseError (the first one) when no file with prices is understood.
    """
    readings: list[Reading] = []
    missing: list[tuple[Kind, Payload]] = []
    rejected: list[Rejected] = []
    errors: list[tuple[ParseError, str]] = []
    interruption: dict[tuple[str, str], int] = {}
    for payload in payloads:
        kind = None
        try:
            kind = kind_of(payload)
            if not is_answer(payload):
                missing.append((kind, payload))
            elif kind is Kind.ADVISOR:
                interruption |= spot.interruption_percent(payload)
            elif kind is not Kind.INDEX:
                readings.append(_READERS[kind](payload))
        except ParseError as error:
            if kind is Kind.ADVISOR and len(payloads) > 1:
                rejected.append(Rejected("Spot Advisor is not usable", str(error)[:200]))
            else:
                errors.append((error, payload.url))
    if errors and not readings:
        raise errors[0][0]
    offers, more = to_offers(readings, interruption)
    rejected += [reject for reading in readings for reject in reading.rejected]
    rejected += more
    rejected += [
        Rejected("Spot Advisor is not usable", _failure(payload))
        for kind, payload in missing
        if kind is Kind.ADVISOR
    ]
    reason = "; ".join(_problems(readings, missing, errors)) or None
    return Parsed(_sorted(offers), tuple(rejected), complete=not reason, incomplete_reason=reason)


def kind_of(payload: Payload) -> Kind:
    """Which file a payload is: by its URL, or by its content when it has none.

    Raises ParseError when it is none of them.
    """
    url = payload.url.partition("?")[0]
    if smallfeed.location_of(url) is not None:
        return Kind.SMALL
    if "/AmazonEC2/" in url:
        if url.endswith("region_index.json"):
            return Kind.INDEX
        return Kind.BULK_CSV if url.endswith(".csv") else Kind.BULK_JSON
    for path, kind in ((SPOT_PATH, Kind.SPOT), (ADVISOR_PATH, Kind.ADVISOR)):
        if url.endswith(path):
            return kind
    if payload.body.lstrip(b"\xef\xbb\xbf \r\n").startswith(b'"'):
        return Kind.BULK_CSV
    return _kind_of_json(payload)


def _kind_of_json(payload: Payload) -> Kind:
    data = load_json(payload)
    keys = data.keys() if isinstance(data, dict) else set()
    if "config" in keys:
        return Kind.SPOT
    if {"ranges", "spot_advisor"} & keys:
        return Kind.ADVISOR
    if {"products", "terms"} & keys:
        return Kind.BULK_JSON
    if "offers" in keys or ("formatVersion" in keys and "regions" in keys):
        return Kind.INDEX
    if {"manifest", "regions"} & keys:
        return Kind.SMALL
    raise ParseError(
        "body", "none of AWS's price files (small feed, bulk list, spot.json, advisor)"
    )


def _problems(
    readings: list[Reading],
    missing: list[tuple[Kind, Payload]],
    errors: list[tuple[ParseError, str]],
) -> list[str]:
    """Why not all prices are here; nothing when all are."""
    if not readings and not missing:
        return ["no file with prices"]
    problems = [reading.problem for reading in readings if reading.problem]
    problems += [f"{error} in {url or 'a file'}" for error, url in errors]
    covered = {region for reading in readings for region in reading.regions}
    absent = []
    for kind, payload in missing:
        if kind is Kind.SMALL:
            location = smallfeed.location_of(payload.url) or ""
            if code_of(location) not in covered:
                absent.append(f"{location} ({_status(payload)})")
        elif kind not in (Kind.ADVISOR, Kind.INDEX):
            problems.append(f"{kind} not read: {_failure(payload)}")
    if absent:
        others = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        problems.append(f"on-demand prices not read for {', '.join(absent[:3])}{others}")
    return problems


def _failure(payload: Payload) -> str:
    return f"{_status(payload)} from {payload.url}"


def _status(payload: Payload) -> str:
    return f"HTTP {payload.status}" if payload.status else "no answer"


def _sorted(offers: list[ListedOffer]) -> tuple[ListedOffer, ...]:
    return tuple(sorted(offers, key=lambda o: (o.region or "", o.source_id, o.market)))
