"""httpx's exceptions in our words: one line that says what happened, without URL or secret."""

from __future__ import annotations

import re

import httpx

from tracker.http.guard import NOT_AN_ADDRESS
from tracker.http.limits import Limits
from tracker.http.retry import Retryable, Unreachable
from tracker.provider import FetchError
from tracker.telemetry import one_line

_ERRNO = re.compile(r"^\[Errno -?\d+\]\s*")


def translate(error: Exception, limits: Limits) -> FetchError:
    """The FetchError for what httpx raised; Retryable when another attempt may help."""
    match error:
        case httpx.ConnectTimeout():
            return Unreachable(f"no connection within {limits.connect_s:g} s")
        case httpx.ReadTimeout():
            return Retryable(f"no data for {limits.read_s:g} s")
        case httpx.TimeoutException():
            return Retryable("time-out while sending")
        case httpx.ConnectError():
            return _connect(str(error))
        case httpx.ProxyError():
            return Retryable("the proxy refused the connection: check HTTPS_PROXY")
        case httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError():
            return _broken(str(error))
        case httpx.LocalProtocolError() | UnicodeError() | ValueError() | TypeError():
            # The text of these errors repeats the header, so it is not shown.
            return FetchError("the request cannot be sent: check the key for stray characters")
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return FetchError(NOT_AN_ADDRESS)
        case _:
            return FetchError(f"request failed ({type(error).__name__})")


def _connect(text: str) -> FetchError:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return FetchError("its TLS certificate cannot be verified")
    detail = one_line(_ERRNO.sub("", text), 100)
    return Unreachable(f"cannot connect ({detail})" if detail else "cannot connect")


def _broken(text: str) -> FetchError:
    if "incomplete" in text or "without sending complete" in text:
        return Retryable("truncated answer")
    if "without sending a response" in text:
        return Retryable("connection closed without an answer")
    return Retryable("connection broken")
