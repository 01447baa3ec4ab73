"""What is not an answer although it looks like one: error pages, half answers, other hosts."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import unicodedata
from collections.abc import Mapping
from typing import Literal, NoReturn
from urllib.parse import unquote, urljoin, urlsplit

from tracker.http.retry import RETRIED_STATUSES, Retryable
from tracker.provider import FetchError
from tracker.telemetry import Redactor, one_line

Expect = Literal["json", "html", "text", "any"]

NOT_AN_ADDRESS = "not a http(s) address: check the provider's base URL"

_SNIPPET_CHARACTERS = 120
_CLOUDFLARE = re.compile(rb"error code:?\s*(1\d{3})", re.IGNORECASE)
# A comment ends at its first "-->": one that may run on beyond it can be read in 2^n ways among n.
_HTML = re.compile(
    rb"\s*(?:<!--(?:(?!-->).){0,500}-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_BOM = b"\xef\xbb\xbf"
_PRIVATE_DOMAINS = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa")
# IPv6 addresses whose last 32 bits are an IPv4 address: compatible, and NAT64 (RFC 6052, 8215).
_WITH_IPV4 = tuple(map(ipaddress.ip_network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")))


def status_error(
    status: int,
    body: bytes,
    *,
    retry_after_s: float | None,
    credential_sent: bool,
    redactor: Redactor,
) -> FetchError:
    """The error for an answer that is no 2xx: what happened, and what to do where that is known."""
    blocked = _CLOUDFLARE.search(body) if status in (403, 429, 503) else None
    if blocked and status == 403:
        reason = f"blocked by Cloudflare (HTTP 403, error code: {blocked[1].decode()})"
        if blocked[1] == b"1010":
            reason += ": set http.user_agent_contact, so that requests say whose they are"
    elif status in (401, 403) and credential_sent:
        reason = f"credential refused (HTTP {status}): check the provider's key"
    elif status in (401, 403):
        reason = f"access refused without a credential (HTTP {status}): a key may be needed"
    elif status == 429:
        asks = "" if retry_after_s is None else f", asks to wait {retry_after_s:.0f} s"
        reason = f"too many requests (HTTP 429){asks}"
    elif status in RETRIED_STATUSES:
        reason = f"server not available (HTTP {status})"
    else:
        snippet = _snippet(body, redactor)
        reason = f"HTTP {status}" + (f": {snippet}" if snippet else "")
    kind = Retryable if status in RETRIED_STATUSES else FetchError
    return kind(reason, status=status, retry_after_s=retry_after_s)


def _snippet(body: bytes, redactor: Redactor) -> str:
    text = body.decode("utf-8", errors="replace")
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        return ""  # markup says nothing in one line
    return one_line(redactor(one_line(redactor(text))), _SNIPPET_CHARACTERS)


def check_body(body: bytes, content_type: str, expect: Expect) -> None:
    """Raises FetchError when *body* is not the kind of document that was expected."""
    if not body.removeprefix(_BOM).strip():
        raise FetchError("empty answer")
    check_start(body, content_type, expect)
    if expect == "json":
        _check_json(body)


def check_start(start: bytes, content_type: str, expect: Expect) -> None:
    """As ``check_body`` but from the first bytes alone."""
    start = start.removeprefix(_BOM)
    kind = content_type.partition(";")[0].strip().lower()
    is_html = kind in ("text/html", "application/xhtml+xml")
    markup = start.lstrip().startswith(b"<")
    if expect == "json" and (is_html or markup):
        what = "HTML page" if is_html or _HTML.match(start) else "XML document"
        raise FetchError(f"{what} where JSON was due")
    if expect == "text" and _HTML.match(start):
        raise FetchError("HTML page where text was due")
    if expect == "html" and not is_html and not markup:
        raise FetchError("no HTML page where one was due")


def _check_json(body: bytes) -> None:
    def refuse(token: str) -> NoReturn:
        raise FetchError(f"{token} in the answer, which is not JSON")

    try:
        json.loads(body, parse_constant=refuse)
    except RecursionError:
        raise FetchError("JSON nested too deeply") from None
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        raise FetchError("truncated JSON" if at_end else "not JSON") from None
    except ValueError:  # not UTF-8, or a number of thousands of digits
        raise FetchError("not JSON") from None


def check_address(url: str) -> None:
    """Raises FetchError when *url* is no complete http(s) URL."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        raise FetchError(f"{host_of(url)}: {NOT_AN_ADDRESS}")


def redirect_target(current: str, location: str, method: str, status: int) -> str:
    """The URL that a redirect leads to.

    Raises FetchError when it leaves http(s), leads from a public host into a private network, or
    would turn a search into another request.
    """
    try:
        target = urljoin(current, location)
        new, old = urlsplit(target), urlsplit(current)
        host = new.hostname
    except ValueError:
        raise FetchError(f"HTTP {status} with a broken address") from None
    if new.scheme not in ("http", "https") or not host:
        raise FetchError(f"redirected to something that is not http (HTTP {status})")
    if method != "GET" and status not in (307, 308):
        raise FetchError(f"moved to {host} (HTTP {status}): change the provider's base URL")
    if host != old.hostname and is_private(host) and not is_private(old.hostname or ""):
        raise FetchError(f"redirected into a private network (HTTP {status})")
    return target


def same_origin(one: str, other: str) -> bool:
    """Whether credentials for *one* URL may be sent to the *other*: same scheme, host and port."""
    return _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def is_private(host: str) -> bool:
    """Whether *host* is in no public network, as far as its name or number says.

    Read as a resolver reads it: other digits and dots, "0x7f.1" and "2130706433" for 127.0.0.1,
    IPv4 addresses inside IPv6 ones. What a public name resolves to is not looked up.
    """
    name = _resolved_name(host)
    try:
        # inet_aton: one to four numbers, decimal, octal or hexadecimal.
        address = ipaddress.ip_address(name if ":" in name else socket.inet_aton(name))
    except ValueError:
        return True  # a colon, but no address: nothing to go to
    except OSError:
        # A name without a dot is only known inside a network.
        return "." not in name or name.endswith(_PRIVATE_DOMAINS)
    return not is_public(address)


def _resolved_name(host: str) -> str:
    name = unquote(host).lower()
    if ":" not in name:
        try:
            name = name.encode("idna").decode()  # NFKC among others
        except UnicodeError:
            name = unicodedata.normalize("NFKC", name).replace("\u3002", ".")
    return name.rstrip(".")


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether *address* is in the public network, IPv4 addresses inside IPv6 ones included."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if any(address in network for network in _WITH_IPV4):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers by name in small letters."""
    return {name.lower(): value for name, value in headers.items()}


def host_of(url: str) -> str:
    """The host (and port, if it is given) of a URL, to name it by."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "(no host)"
    return f"{parts.hostname}:{port}" if port else parts.hostname or "(no host)"
