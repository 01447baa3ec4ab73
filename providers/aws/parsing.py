"""From the payloads of a poll, or from files parsed by hand, to offers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from providers.aws import account, bulk, plans, smallfeed, spot, zones
from providers.aws.fetching import ADVISOR_PATH, SPOT_PATH, is_answer
from providers.aws.offers import to_offers
from providers.aws.regions import code_of
from providers.aws.rows import Reading, Source
from tracker.provider import ListedOffer, Parsed, ParseError, Payload, Rejected, load_json


class Kind(StrEnum):
    """The AWS files that are understood."""

    SMALL = "small on-demand feed"
    BULK_CSV = "bulk list (CSV)"
    BULK_JSON = "bulk list (JSON)"
    SPOT = "spot.json"
    ZONES = "spot prices by zone"
    PLANS = "savings plan list"
    ADVISOR = "Spot Advisor"
    INDEX = "index of a list"  # tells versions, no prices


_READERS = {
    Kind.SMALL: smallfeed.read,
    Kind.BULK_CSV: bulk.read_csv,
    Kind.BULK_JSON: bulk.read_json,
    Kind.SPOT: spot.read,
    Kind.ZONES: zones.read,
    Kind.PLANS: plans.read,
}

# What EC2 answers in a region that the account has not switched on, with credentials that are good
# elsewhere.
_NOT_ENABLED = frozenset({
    "AuthFailure", "UnrecognizedClientException", "InvalidClientTokenId", "OptInRequired",
})  # fmt: skip
_WORDS = {
    account.NOT_INSTALLED: "boto3 is not installed: pip install '.[aws]' in gpucost's checkout",
    account.NO_CREDENTIALS: "boto3 finds no credentials",
    account.TIMED_OUT: "not finished in time",
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
                # Without its frames, which hold this list.
                errors.append((error.with_traceback(None), payload.url))
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
    unzoned, zone_problems = _without_zones(readings, missing)
    rejected += unzoned
    problems = [*_problems(readings, missing, errors), *zone_problems]
    reason = "; ".join(problems) or None
    return Parsed(_sorted(offers), tuple(rejected), complete=not reason, incomplete_reason=reason)


def kind_of(payload: Payload) -> Kind:
    """Which file a payload is: by its URL, or by its content when it has none.

    Raises ParseError when it is none of them.
    """
    if zones.asked_region(payload.url):
        return Kind.ZONES
    url = payload.url.partition("?")[0]
    if smallfeed.location_of(url) is not None:
        return Kind.SMALL
    if "/AmazonEC2/" in url or "/AWSComputeSavingsPlan/" in url:
        if url.endswith("region_index.json"):
            return Kind.INDEX
        if "/AWSComputeSavingsPlan/" in url:
            return Kind.PLANS
        return Kind.BULK_CSV if url.endswith(".csv") else Kind.BULK_JSON
    for path, kind in ((SPOT_PATH, Kind.SPOT), (ADVISOR_PATH, Kind.ADVISOR)):
        if url.endswith(path):
            return kind
    start = payload.body.lstrip(b"\xef\xbb\xbf \r\n")
    if start.startswith(b"FormatVersion,"):
        return Kind.PLANS
    if start.startswith(b'"'):
        return Kind.BULK_CSV
    return _kind_of_json(payload)


def _kind_of_json(payload: Payload) -> Kind:
    data = load_json(payload)
    keys = data.keys() if isinstance(data, dict) else set()
    if "config" in keys:
        return Kind.SPOT
    if {"ranges", "spot_advisor"} & keys:
        return Kind.ADVISOR
    if "SpotPriceHistory" in keys:
        return Kind.ZONES
    if {"products", "terms"} & keys:
        if isinstance(data.get("products"), list) and "savingsPlan" in (data.get("terms") or ()):
            raise ParseError("body", "a savings plan list in JSON: read is the one in CSV")
        return Kind.BULK_JSON
    if "offers" in keys or ("regions" in keys and keys & {"formatVersion", "publicationDate"}):
        return Kind.INDEX
    if {"manifest", "regions"} & keys:
        return Kind.SMALL
    raise ParseError(
        "body", "none of AWS's price files (small feed, bulk list, savings plans, spot, advisor)"
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
        elif kind not in (Kind.ADVISOR, Kind.INDEX, Kind.ZONES):
            problems.append(f"{kind} not read: {_failure(payload)}")
    if absent:
        others = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        problems.append(f"on-demand prices not read for {', '.join(absent[:3])}{others}")
    return problems


def _without_zones(
    readings: list[Reading], missing: list[tuple[Kind, Payload]]
) -> tuple[list[Rejected], list[str]]:
    """What is said of regions whose zones could not be asked for, and what makes it a problem.

    Where no region answered at all, the prices of spot.json stand for all of them, as they do
    without credentials. Where others answered, one that is not enabled stays so; any other failure
    may pass, and until then offers of its zones must not be taken for gone.
    """
    failed = [(p, zones.error_code(p)) for kind, p in missing if kind is Kind.ZONES]
    some_answered = any(reading.zoned for reading in readings)
    spot_json = any(row.source is Source.SPOT for reading in readings for row in reading.rows)
    said, problems = [], []
    for payload, code in failed:
        region, words = zones.asked_region(payload.url), _WORDS.get(code, code)
        if some_answered and code in _NOT_ENABLED:
            said.append(Rejected("region not enabled in the account", f"{region} {code}"))
        elif some_answered or not spot_json:
            problems.append(f"{region}: {words}")
        else:
            said.append(Rejected("spot prices by zone could not be read", f"{region} {words}"))
    if len(problems) > 3:
        problems[3:] = [f"and {len(problems) - 3} more"]
    reason = [f"spot prices by zone not read ({', '.join(problems)})"] if problems else []
    return said, reason


def _failure(payload: Payload) -> str:
    return f"{_status(payload)} from {payload.url}"


def _status(payload: Payload) -> str:
    return f"HTTP {payload.status}" if payload.status else "no answer"


def _sorted(offers: list[ListedOffer]) -> tuple[ListedOffer, ...]:
    return tuple(sorted(offers, key=lambda o: (o.region or "", o.source_id, o.market)))
