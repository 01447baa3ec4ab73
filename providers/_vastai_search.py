"""How Vast.ai is searched: which queries to make, and whether their answers are a whole census.

A part of providers/vastai.py in a file of its own. The endpoint answers at most 64 rows and has
no page token. A cut off answer is followed by finer queries; which ones is a pure function of the
query and its answer (``finer``), so the same function tells from a recording whether they were
all made (``cut_off``).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from tracker.provider import (
    FetchError,
    HttpClient,
    ParseError,
    Payload,
    ProviderConfig,
    SecretStr,
    load_json,
    parse_decimal,
)

Body = dict[str, Any]

MAX_ROWS = 64  # whatever limit is asked for
SIZES = (1, 2, 4, 8)
STEP = Decimal("0.000001")  # USD; paging goes on this far below the last price seen

# Cards of one name with two memory sizes: MiB that lie between them.
RAM_BOUNDARIES = {"A100 PCIE": 60_000, "A100 SXM4": 60_000, "RTX 4090": 36_000}
VERIFICATIONS = ("verified", "unverified", "deverified")


class VastaiConfig(ProviderConfig):
    """``[providers.vastai]``. Search answers without a key; one is sent when set.

    ``gpus`` are the names to look for, each inner list asked for together, the most important
    first. ``max_requests`` bounds a poll: at 3.5 s a request the default takes about 90 s; what
    is left unasked makes the poll a partial one.
    """

    base_url: str = "https://console.vast.ai"
    api_key: SecretStr | None = None
    max_requests: int = 24
    gpus: tuple[tuple[str, ...], ...] = (
        ("A100 PCIE", "A100 SXM4", "A100X", "A800 PCIE"),
        ("H100 PCIE", "H100 SXM", "H100 NVL"),
        ("RTX 4090", "RTX 4090D", "RTX 4090 D"),  # which spelling of the D is in use is not known
        ("H200", "H200 NVL", "B200", "B300", "RTX PRO 6000 WS", "RTX PRO 6000 S"),
        ("L40S", "L40", "RTX 6000Ada", "RTX A6000", "A40"),
        ("RTX 5090",),
        ("RTX 3090",),
    )


def first_queries(config: VastaiConfig) -> Iterator[Body]:
    """One card and larger machines apart: ascending by total price, small ones hide large ones."""
    for names in filter(None, config.gpus):
        for sizes in (SIZES[:1], SIZES[1:]):
            yield {
                "gpu_name": {"in": list(names)},
                "num_gpus": {"in": list(sizes)},
                "rentable": {"eq": True},
                "type": "on-demand",
                "order": [["dph_total", "asc"]],
                "limit": MAX_ROWS,
                "allocated_storage": 8,
            }


def finer(body: Body, rows: Sequence[Any]) -> list[Body]:
    """The queries that together hold all that *body* asks for, once its answer was cut off.

    Split by machine size, then by memory, then page on by price (asking again from just below
    the last price seen, so that nothing between two pages is lost), and where one price fills a
    whole answer, by verification. Empty when nothing finer is known.
    """
    sizes = _condition(body, "num_gpus", "in")
    if isinstance(sizes, list) and len(sizes) > 1:
        return [body | {"num_gpus": {"eq": size}} for size in sizes]
    names = _condition(body, "gpu_name", "in")
    boundaries = {RAM_BOUNDARIES.get(str(n)) for n in names} if isinstance(names, list) else set()
    boundary = max(filter(None, boundaries), default=None)
    if boundary is not None and "gpu_ram" not in body:
        return [body | {"gpu_ram": {op: boundary}} for op in ("lt", "gte")]
    if body.get("order") != [["dph_total", "asc"]]:
        return []
    prices = [p for row in rows if (p := _dph_total(row)) is not None]
    if prices:
        start = float(max(prices).quantize(STEP, ROUND_FLOOR) - STEP)
        before = _condition(body, "dph_total", "gte")
        if before is None or (isinstance(before, int | float) and start > before):
            return [body | {"dph_total": {"gte": start}}]
    if "verification" not in body:
        return [body | {"verification": {"eq": v}} for v in VERIFICATIONS]
    return []


def _condition(body: Body, field: str, op: str) -> Any:
    value = body.get(field)
    return value.get(op) if isinstance(value, dict) else None


def _dph_total(row: Any) -> Decimal | None:
    try:
        price = parse_decimal(row["dph_total"]) if isinstance(row, dict) else None
    except (KeyError, ValueError):
        return None
    return price if price is not None and 0 <= price < 10**6 else None


def is_full(body: Body | None, rows: Sequence[Any]) -> bool:
    """Whether an answer has as many rows as there can be, and so may have been cut off."""
    limit = (body or {}).get("limit")
    return len(rows) >= (min(limit, MAX_ROWS) if type(limit) is int and limit > 0 else MAX_ROWS)


async def fetch(http: HttpClient, config: VastaiConfig) -> Sequence[Payload]:
    """Ask the first queries, then the finer ones for those whose answer was cut off.

    A query that was refused (429 above all) or not asked any more is recorded as a payload with
    the status it got (0: not asked), so that parse knows of the hole. Raises FetchError when the
    first query fails, and when the key is refused.
    """
    url = f"{config.base_url.rstrip('/')}/api/v0/bundles/"
    headers = {}
    if config.api_key is not None:
        headers["Authorization"] = f"Bearer {config.api_key.get_secret_value()}"
    first = list(first_queries(config))
    queue = deque(first)
    answers: list[Payload] = []
    holes: list[Payload] = []
    reason = "not asked: the poll's max_requests are used up"
    while queue and len(answers) + len(holes) < max(1, config.max_requests):
        body = queue.popleft()
        try:
            answer = await http.post(url, json_body=body, headers=headers)
        except FetchError as error:
            if not answers or error.status in {401, 403, 404}:
                raise
            holes.append(_hole(url, body, answers[-1], str(error), error.status or 0))
            if error.status == 400:
                continue  # this query only
            reason = f"not asked after: {error}"
            break
        answers.append(answer)
        rows = _rows_or_none(answer)
        if rows is not None and is_full(body, rows):
            queue.extend(finer(body, rows))
    # Finer queries left over need no record: the cut off answer itself tells that they are missing.
    holes += [_hole(url, body, answers[-1], reason, 0) for body in queue if body in first]
    return answers + holes


def _hole(url: str, body: Body, last: Payload, reason: str, status: int) -> Payload:
    request = json.dumps(body).encode()
    return Payload(url, reason.encode(), last.fetched_at, "POST", request, status)


def _rows_or_none(payload: Payload) -> list[Any] | None:
    try:
        return rows_of(load_json(payload))
    except ParseError:
        return None  # parse() says what is wrong with it


def rows_of(answer: Any) -> list[Any]:
    """The rows of an answer; raises ParseError when it is neither ``{"offers": []}`` nor a list."""
    if isinstance(answer, dict):
        if "offers" not in answer:
            said = " ".join(str(answer.get("error") or answer.get("msg") or "").split())[:80]
            raise ParseError("offers", f"missing (the answer says: {said})" if said else "missing")
        answer = answer["offers"]
    if not isinstance(answer, list):
        raise ParseError("offers", f"a list was due, not {type(answer).__name__}")
    return answer


def require_fields(rows: Sequence[Any]) -> None:
    """Raise ParseError when what no offer can do without is missing in every row of a poll."""
    objects = [row for row in rows if isinstance(row, dict)]
    if rows and not objects:
        raise ParseError("offers[]", "an object was due")
    for name in ("machine_id", "num_gpus", "gpu_name", "dph_base"):
        if objects and all(name not in row for row in objects):
            raise ParseError(f"offers[].{name}", f"missing in all {len(objects)} rows")


def request_body(payload: Payload) -> Body | None:
    """The query of an answer; None for a file of unknown origin."""
    try:
        body = json.loads(payload.request_body)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def describe(body: Body | None) -> str:
    """A query in a few words: the GPUs and machine sizes that it asks for."""
    if body is None:
        return "an unknown query"
    names = _condition(body, "gpu_name", "in") or [_condition(body, "gpu_name", "eq") or "any GPU"]
    sizes = _condition(body, "num_gpus", "in") or [_condition(body, "num_gpus", "eq") or "any"]
    return f"{', '.join(map(str, names))} x {', '.join(map(str, sizes))}"[:120]


def cut_off(answers: Sequence[tuple[Body | None, list[Any]]]) -> list[str]:
    """The full answers whose finer queries are not all among *answers*."""
    asked = {json.dumps(body, sort_keys=True) for body, _ in answers}
    found = []
    for body, rows in answers:
        if not is_full(body, rows):
            continue
        rest = finer(body, rows) if body is not None else []
        if not rest or any(json.dumps(b, sort_keys=True) not in asked for b in rest):
            found.append(f"{len(rows)} rows came back for {describe(body)}, the most there can be")
    return found
