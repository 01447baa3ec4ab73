"""What gpucost says about itself: log set-up, and the one redactor that every text goes through.

Standard library only: commands that merely read load this module within their start-up budget.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TextIO
from urllib.parse import quote, quote_plus, unquote, urlsplit

__all__ = [
    "HIDDEN",
    "SHORTEST_SECRET",
    "RedactingFilter",
    "Redactor",
    "one_line",
    "setup_logging",
]

HIDDEN = "***"
SHORTEST_SURE = 8  # characters; what is shorter may well be part of an ordinary word
SHORTEST_SECRET = 4  # characters; replacing a shorter value everywhere would garble every line

_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s&,;"'}\])]+)"""
_NAMED = (
    r"api[_-]?key|access[_-]?key(?:[_-]?id)?|(?:access|refresh|auth|id|session)[_-]?token|token"
    r"|signature|sig|(?:ssl)?password|passwd|pwd|passphrase|(?:client[_-]?)?secret|x-amz-credential"
)
# Each pattern keeps its first group and hides the rest. A pattern may hide too much (the rest of a
# word); it may not hide too little.
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        # scheme://user:password@host, also with an unescaped "@" or "/" in the password
        r"(\b[a-z][a-z0-9+.\-]{0,20}://[^\s:/?#@]{0,256}:)\S{0,4096}(?=@)",
        # https://token@host
        r"(\bhttps?://)[^\s/?#@:]{1,1024}(?=@)",
        r"""(\b(?:proxy-)?authorization["']?\s{0,4}[:=]\s{0,4})"""
        r"""(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\r\n]+)""",
        r"""(\b(?:set-)?cookie["']?\s{0,4}[:=]\s{0,4})(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\r\n]+)""",
        rf"""((?<![a-z0-9])(?:{_NAMED})["']?\s{{0,4}}[:=]\s{{0,4}}){_VALUE}""",
        r"([?&]key=)[^\s&#\"']+",
        r"(\bbearer\s{1,4})[^\s\"',;]+",
        r"(\bbasic\s{1,4})[a-z0-9+/=_\-]{8,}",
        r"()\beyj[a-z0-9_\-]{10,}\.[a-z0-9_\-]+\.[a-z0-9_\-]*",  # JSON web token
    )
)


def one_line(text: str, limit: int | None = None) -> str:
    """*text* as one printable line: control characters become spaces, runs of blanks one blank.

    Cut to *limit* characters, with an ellipsis, when given.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if limit is None or len(line) <= limit else line[: max(limit - 1, 0)] + "…"


class Redactor:
    """Hides secrets in any text: registered values in every usual spelling, and known patterns.

    Registered values are found as they are, percent-encoded, in base64, and as JSON or ``repr``
    would escape them. Values shorter than SHORTEST_SECRET are left to the patterns. Safe to use
    and to extend from several threads.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._known: frozenset[str] = frozenset()
        self._regex: re.Pattern[str] | None = None
        self.register(*secrets)

    def register(self, *secrets: str | None) -> None:
        """Add secret values; None, empty and too short ones are passed over."""
        spellings = {s for secret in secrets if secret for s in _spellings(secret)}
        with self._lock:
            known = self._known | {s for s in spellings if len(s) >= SHORTEST_SECRET}
            if known == self._known:
                return
            self._known = known
            self._compile()

    def _compile(self) -> None:
        # Longest first: a secret that is part of another must not leave the other's tail.
        ordered = sorted(self._known, key=lambda s: (-len(s), s))
        self._regex = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def register_url(self, url: str | None) -> None:
        """Add the password of a URL's user part, if it has one."""
        try:
            password = urlsplit(url or "").password
        except ValueError:
            password = None
        if password:
            self.register(password, unquote(password))

    def __call__(self, text: str) -> str:
        """*text* with every secret replaced by ``***``."""
        known, regex = self._known, self._regex
        out = text if regex is None else regex.sub(HIDDEN, text)
        for pattern in _PATTERNS:
            out = pattern.sub(rf"\1{HIDDEN}", out)
        # A replacement may join its neighbours into another secret; then nothing is shown.
        return HIDDEN if any(secret in out for secret in known) else out

    def sparing(self, words: Iterable[str]) -> Redactor:
        """The same, but for secrets that are ordinary: one of *words*, or a short part of one.

        What is hidden of a text that has these words in it anyway would tell the secret, and
        nobody could read the rest.
        """
        ordinary = set(words)
        spared = Redactor()
        for secret in self._known:
            short = len(secret) < SHORTEST_SURE
            if secret not in ordinary and not (short and any(secret in word for word in ordinary)):
                spared._known |= {secret}
        spared._compile()
        return spared

    def exact(self, text: str, replacement: str) -> str:
        """*text* with only the registered values replaced: for data, where patterns may err."""
        return text if self._regex is None else self._regex.sub(lambda _: replacement, text)

    def error(self, error: BaseException, limit: int = 300) -> str:
        """One redacted line for an exception: its message, or its kind when it has none."""
        # Twice: taking out line breaks may have put a secret together.
        return one_line(self(one_line(self(str(error)))), limit) or type(error).__name__

    def traceback(self, error: BaseException) -> str:
        """The whole traceback with causes, redacted: for debug logs only."""
        return self("".join(traceback.format_exception(error)))


def _spellings(secret: str) -> set[str]:
    raw = secret.encode("utf-8", errors="surrogatepass")
    percent = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    return {
        secret,
        secret.strip(),
        *percent,
        *(re.sub(r"%[0-9A-F]{2}", lambda m: m.group().lower(), p) for p in percent),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        base64.b64encode(raw).decode(),
    }


class RedactingFilter(logging.Filter):
    """For handlers that are not ours: redacts a record's message, extras and exception in place."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact *record*; it always passes."""
        record.msg = self._redactor(record.getMessage())
        record.args = None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = self._redactor.traceback(record.exc_info[1])  # formatters reuse it
        for name, value in _extras(record).items():
            if not isinstance(value, bool | int | float | None):
                setattr(record, name, self._redactor(str(value)))
        return True


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {k: v for k, v in vars(record).items() if k not in _STANDARD}


class _Formatter(logging.Formatter):
    """One redacted line a record (and its traceback below, in text)."""

    def __init__(self, redactor: Redactor, write: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._redactor = redactor
        self._write = write

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redactor(_message(record)),
        }
        for name, value in _extras(record).items():
            plain = isinstance(value, bool | int | float | None)
            # Named as in the text that is read later: an extra called "token" is hidden by name.
            fields[name] = value if plain else self._hide(name, str(value))
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = self._redactor.traceback(record.exc_info[1])
        elif record.exc_text:
            fields["exception"] = self._redactor(record.exc_text)
        if record.stack_info:
            fields["stack"] = self._redactor(record.stack_info)
        return self._write(fields)

    def _hide(self, name: str, value: str) -> str:
        named = f"{name}={value}"
        kept = self._redactor(named)
        return kept[len(name) + 1 :] if kept.startswith(f"{name}=") else HIDDEN


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # A wrong format string must lose neither the line nor the process.
        return f"{record.msg!s} {record.args!r}"


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=True, default=str)


def _text(fields: dict[str, Any]) -> str:
    blocks = [fields.pop(name) for name in ("exception", "stack") if name in fields]
    time, level, logger, message = (fields.pop(k) for k in ("time", "level", "logger", "message"))
    extras = "".join(f" {k}={v}" for k, v in fields.items())
    # One line each, so that a provider's text cannot forge a second record.
    line = f"{time} {level.upper():<7} {logger}: {one_line(message + extras)}"
    return "\n".join([line, *(block.rstrip() for block in blocks)])


_OURS = "_gpucost"


def setup_logging(
    level: str = "warning",
    log_format: Literal["text", "json"] = "text",
    *,
    redactor: Redactor,
    stream: TextIO | None = None,
) -> logging.Handler:
    """Send log records of *level* and above to *stream* (stderr), redacted, as text or JSON lines.

    Called again, it replaces its earlier handler and leaves those of others alone. ``level`` is
    one of debug, info, warning, error, in any case; raises ValueError for another.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r}: use debug, info, warning or error")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(redactor, _json if log_format == "json" else _text))
    setattr(handler, _OURS, True)
    root = logging.getLogger()
    for old in [h for h in root.handlers if hasattr(h, _OURS)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    # These write whole request URLs (and, at debug level, headers) of their own accord, and each
    # step that a new database takes.
    for name in ("httpx", "httpcore", "alembic"):
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    return handler
