"""The contract a provider fulfils, and all that a provider module may import of gpucost.

A provider module holds a configuration model, ``fetch`` (I/O only: which requests to make, never
what a price means), ``parse`` (pure: recorded bytes in, offers and rejects out) and one
``provider = Provider(...)``. See docs/adding-a-provider.md.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from tracker.domain.money import HOURS_PER_MONTH, parse_decimal
from tracker.domain.offer import (
    Availability,
    Discount,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    PriceKind,
    PriceUnit,
    Terms,
)

__all__ = [
    "HOURS_PER_MONTH",
    "Availability",
    "Discount",
    "Extras",
    "Facts",
    "FetchError",
    "HttpClient",
    "ListedOffer",
    "Market",
    "NativePrice",
    "ParseError",
    "Parsed",
    "Payload",
    "PriceKind",
    "PriceUnit",
    "Provider",
    "ProviderConfig",
    "Rejected",
    "SecretStr",
    "Terms",
    "load_json",
    "parse_decimal",
    "payload_from_dict",
    "payload_to_dict",
]


class FetchError(Exception):
    """A request that did not give a usable answer. The message is one line, without secrets."""

    def __init__(
        self, reason: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after_s = retry_after_s


class ParseError(Exception):
    """An answer whose shape is not the documented one.

    ``field`` names what is missing or of another type (``data.gpuTypes[].memoryInGb``), so that
    one line tells what changed and which recording to send.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Payload:
    """One answer of a provider, as archived and as a fixture holds it.

    ``fetched_at`` (aware UTC) is the only *now* that ``parse`` knows. ``url`` may be empty when a
    bare file is parsed by hand: a parser then goes by the content.
    """

    url: str
    body: bytes
    fetched_at: datetime
    method: str = "GET"
    request_body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The body as UTF-8 text; undecodable bytes become U+FFFD."""
        return self.body.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that became no offer: why (a short stable phrase), and a sample of it to look at."""

    reason: str
    sample: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser made of an answer.

    ``complete=False`` (with ``incomplete_reason``) means that the answer is known not to hold all
    offers (truncated census, a page or region missing): such a poll closes no offer.
    """

    offers: tuple[ListedOffer, ...]
    rejected: tuple[Rejected, ...] = ()
    complete: bool = True
    incomplete_reason: str | None = None
    discounts: tuple[Discount, ...] = ()


class ProviderConfig(BaseModel):
    """Base of every provider's configuration (``[providers.NAME]`` in gpucost.toml).

    A subclass adds its base URLs (so that they can be pointed elsewhere), its key as
    ``api_key: SecretStr | None`` and what else it needs. Unknown keys are refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    # Overrides the provider's interval; floor: facts.min_every.
    every_seconds: int | None = Field(default=None, ge=1, le=366 * 24 * 3600)


class HttpClient(Protocol):
    """What ``fetch`` gets to make requests with: bounded in time, size and rate, with retries.

    Every method raises FetchError for anything but a 2xx answer, a body over *max_bytes* (after
    decompression), an HTML page where JSON was due, or a time-out. ``headers`` may carry
    credentials: they are never archived, logged or shown.
    """

    async def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        expect: Literal["json", "html", "text", "any"] = "json",
        max_bytes: int = 32 * 2**20,
    ) -> Payload: ...

    async def post(
        self,
        url: str,
        *,
        json_body: Any,
        headers: Mapping[str, str] | None = None,
        expect: Literal["json", "html", "text", "any"] = "json",
        max_bytes: int = 32 * 2**20,
    ) -> Payload:
        """POST a JSON body to a search endpoint (idempotent: it may be retried)."""
        ...

    async def stream_lines(
        self,
        url: str,
        keep: Callable[[bytes], bool],
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 2 * 2**30,
        max_kept_bytes: int = 64 * 2**20,
        cache_variant: str | None = None,
    ) -> Payload:
        """Stream a large text file and return a Payload of only the lines that *keep* accepts.

        *cache_variant* names what *keep* keeps (and a version of it): given, an unchanged file is
        not sent again.
        """
        ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a provider whatever it answers. Shown in docs and by ``gpucost provider``."""

    title: str
    website: str
    price_per: Literal["gpu", "machine"]  # what its own price list counts
    currency: str
    billing_increment_seconds: int | None
    minimum_seconds: int | None
    spot: str  # what its interruptible price means, or "none"
    tiers: tuple[str, ...]
    default_tiers: tuple[str, ...]  # ranked unless the user asks for others
    key: Literal["none", "optional", "required"]
    key_variable: str | None  # conventional name of the environment variable
    terms: str  # what the provider's terms say of automated reading, as far as known
    verified: str  # what has been checked live, what not, and why
    marketplace: bool = False  # many independent hosts: one bogus ask of many is likely
    min_every: timedelta = timedelta(minutes=5)
    key_adds: str = ""  # what is known, or asked for, only with the key, where it is optional


C = TypeVar("C", bound=ProviderConfig)


@dataclass(frozen=True, slots=True)
class Provider(Generic[C]):
    """One provider: its name (slug), how often to poll, its facts and its two functions.

    ``min_seconds_between_requests`` holds per host. ``poll_deadline`` bounds the whole poll.
    ``patience`` is how long one answer may take where a service needs longer than ``[http]`` says.
    ``key_set`` tells whether there is a key that is not ``api_key`` of the configuration, and asks
    nobody.
    """

    name: str
    every: timedelta
    config: type[C]
    facts: Facts
    fetch: Callable[[HttpClient, C], Awaitable[Sequence[Payload]]]
    parse: Callable[[Sequence[Payload]], Parsed]
    min_seconds_between_requests: float = 0.0
    poll_deadline: timedelta = timedelta(seconds=120)
    patience: timedelta = timedelta(0)
    key_set: Callable[[C], bool] | None = None


def load_json(payload: Payload) -> Any:
    """The body as JSON, numbers with a fraction as Decimal.

    Raises ParseError on truncated or other text, and on the NaN and Infinity that JSON forbids.
    """

    def refuse(token: str) -> Any:
        raise ParseError("body", f"{token} is not a JSON number")

    try:
        return json.loads(payload.body, parse_float=Decimal, parse_constant=refuse)
    except (ValueError, ArithmeticError, RecursionError) as error:
        # ArithmeticError: a number whose exponent no Decimal can hold.
        raise ParseError("body", f"not JSON ({str(error)[:80]})") from None


def payload_to_dict(payload: Payload) -> dict[str, Any]:
    """A payload as plain JSON types: the format of recordings and fixtures."""
    out: dict[str, Any] = {
        "url": payload.url,
        "method": payload.method,
        "request_body": payload.request_body.decode("utf-8", errors="replace"),
        "status": payload.status,
        "headers": dict(payload.headers),
        "fetched_at": payload.fetched_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }
    try:
        out["body"] = payload.body.decode("utf-8")
    except UnicodeDecodeError:
        out["body_base64"] = base64.b64encode(payload.body).decode()
    return out


def payload_from_dict(data: Mapping[str, Any]) -> Payload:
    """The inverse of payload_to_dict. ``body`` may also be a JSON value, for fixtures by hand.

    Raises ValueError when a field is missing or of another type.
    """
    try:
        if "body_base64" in data:
            body = base64.b64decode(data["body_base64"])
        elif isinstance(data["body"], str):
            body = data["body"].encode()
        else:
            body = json.dumps(data["body"]).encode()
        fetched_at = datetime.fromisoformat(data["fetched_at"])
        if fetched_at.tzinfo is None:
            raise ValueError("fetched_at has no time zone")
        request = data.get("request_body", "")
        return Payload(
            url=data.get("url", ""),
            body=body,
            fetched_at=fetched_at.astimezone(UTC),
            method=data.get("method", "GET"),
            request_body=(request if isinstance(request, str) else json.dumps(request)).encode(),
            status=int(data.get("status", 200)),
            headers=dict(data.get("headers", {})),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a recorded payload: {error!r}") from None
