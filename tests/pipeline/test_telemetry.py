"""Redaction: a planted secret never comes out again. And the log set-up of the command line."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tracker.telemetry import HIDDEN, RedactingFilter, Redactor, one_line, setup_logging

SECRET = "s3cr3t-Zq9_value"
TEXT = st.text(max_size=40)
# What secrets are made of, with the characters that URLs, JSON and regular expressions care about.
SECRETS = st.text(
    alphabet="abcXYZ019-_.~+/=@:%$^*()[]{}|\\\"'#? é\n", min_size=4, max_size=24
).filter(lambda s: len(s.strip()) >= 4)
TOKENS = st.text(
    alphabet="abcdefghijkmnopqrstuvwxyzABCDEFGH0123456789-_", min_size=8, max_size=40
).map(lambda t: f"Zq{t}")


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    others = [logging.getLogger(name) for name in ("httpx", "httpcore", "alembic")]
    kept = root.level, list(root.handlers), [o.level for o in others]
    yield root
    root.setLevel(kept[0])
    root.handlers[:] = kept[1]
    for other, level in zip(others, kept[2], strict=True):
        other.setLevel(level)


# -- registered values -----------------------------------------------------------------------------


@settings(deadline=None)
@given(secret=SECRETS, before=TEXT, after=TEXT, others=st.lists(SECRETS, max_size=3))
def test_a_registered_secret_never_survives(
    secret: str, before: str, after: str, others: list[str]
) -> None:
    redact = Redactor([*others, secret])
    for text in (
        before + secret + after,
        secret * 2,
        f"{before}{json.dumps({'x': secret})}{after}",
        f"{before}{secret!r}{after}",
        f"{before}{ {'x': secret}!r}{after}",
        f"https://a.example/?x={quote(secret)}&y={quote(secret, safe='')}{after}",
    ):
        out = redact(text)
        assert secret not in out
        assert all(other not in out for other in others)
    for spelling in (json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe="")):
        assert spelling not in redact(before + spelling + after)


@settings(deadline=None)
@given(secret=SECRETS, cut=st.integers(1, 23), before=TEXT, after=TEXT)
def test_a_secret_within_another_leaves_no_tail(
    secret: str, cut: int, before: str, after: str
) -> None:
    part = secret[:cut]
    assume(len(part.strip()) >= 4)
    out = Redactor([part, secret])(before + secret + after)
    assert secret not in out
    assert part not in out


def test_text_without_secrets_is_untouched() -> None:
    redact = Redactor([SECRET, "", "abc"])
    for text in (
        "",
        "12 of 3,214 offers; abc is too short to hide",
        "postgresql://me@db.example/gpucost",
        "https://api.example/v1/gpus?page=2&sort=price",
        "password authentication failed for user me",
        "H100: basic rate",
    ):
        assert redact(text) == text


@settings(deadline=None)
@given(secret=TOKENS, text=TEXT)
def test_data_is_changed_only_at_registered_values(secret: str, text: str) -> None:
    assume(secret not in text)
    redact = Redactor([secret])
    assert redact.exact(f"{text}|{secret}", "REDACTED") == f"{text}|REDACTED"
    assert Redactor().exact(text, "REDACTED") == text


def test_the_password_of_a_url_is_registered_in_both_spellings() -> None:
    redact = Redactor()
    redact.register_url("postgresql://me:p%40ss%2Fword@db/x")
    redact.register_url(None)
    redact.register_url("http://[broken")
    assert redact("tried p@ss/word and p%40ss%2Fword") == f"tried {HIDDEN} and {HIDDEN}"


# -- patterns: secrets that nobody registered ------------------------------------------------------


@settings(deadline=None)
@given(secret=TOKENS, before=TEXT, after=TEXT)
@pytest.mark.parametrize(
    "shape",
    [
        " postgresql://me:{}@db.example:5432/gpucost ",
        " postgresql://me:{}@ss@db.example/gpucost ",
        " postgresql+psycopg://:{}@/gpucost ",
        " https://{}@api.example/v1 ",
        " https://api.example/?api_key={}&x=1 ",
        " https://api.example/?x=1&key={} ",
        " https://api.example/?Access_Token={}#f ",
        " X-API-KEY: {} ",
        " api_key='{}' ",
        ' {{"api_key": "{}", "x": 1}} ',
        " {{'password': '{}', 'x': 1}} ",
        " host=db password={} dbname=x ",
        " Authorization: Bearer {}\n",
        " Authorization: Basic {}\n",
        " {{'authorization': 'Token {}'}} ",
        " Bearer {} ",
        " sig={}&se=2026 ",
        " Cookie: session={}; other=1\n",
    ],
)
def test_a_known_pattern_hides_its_secret(shape: str, secret: str, before: str, after: str) -> None:
    assume(secret not in before + after)
    assert secret not in Redactor()(before + shape.format(secret) + after)


def test_what_a_pattern_leaves() -> None:
    redact = Redactor()
    assert redact("postgresql://me:pw@db.example/x") == f"postgresql://me:{HIDDEN}@db.example/x"
    assert redact("GET /?api_key=abc&page=2") == f"GET /?api_key={HIDDEN}&page=2"
    assert redact("token eyJhbGciOi123.eyJzdWIi.c2ln") == f"token {HIDDEN}"


def test_long_hostile_text_takes_no_time() -> None:
    redact = Redactor([SECRET])
    for unit in ("a.", "a://", "a://b:", "key=", "password: '", "Bearer ", "://:@"):
        assert SECRET not in redact(unit * 4000 + SECRET)


# -- exceptions ------------------------------------------------------------------------------------


def test_exceptions_with_their_causes() -> None:
    redact = Redactor([SECRET])
    try:
        try:
            raise ValueError(f"inner {SECRET}")
        except ValueError as inner:
            raise RuntimeError(f"outer\n{SECRET}") from inner
    except RuntimeError as error:
        assert redact.error(error) == f"outer {HIDDEN}"
        whole = redact.traceback(error)
        assert SECRET not in whole
        assert "inner ***" in whole
    assert redact.error(KeyError()) == "KeyError"
    assert redact.error(ValueError("x" * 500), limit=20) == "x" * 19 + "…"


@settings(deadline=None)
@given(st.text(), st.integers(0, 20))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line.splitlines()) <= 1
    assert len(line) <= max(limit, 1)
    assert all(c.isprintable() for c in one_line(text))


# -- logging ---------------------------------------------------------------------------------------


def test_text_records(root_logger: logging.Logger) -> None:
    out = io.StringIO()
    setup_logging("info", redactor=Redactor([SECRET]), stream=out)
    log = logging.getLogger("tracker.test")
    log.debug("not this")
    log.info("polled %s\nFORGED line", SECRET, extra={"offers": 3, "api_key": "plain-one"})
    line = out.getvalue()
    assert line.count("\n") == 1
    assert line.endswith("INFO    tracker.test: polled *** FORGED line offers=3 api_key=***\n")
    assert line[10] == "T"


def test_json_records_with_a_traceback(root_logger: logging.Logger) -> None:
    out = io.StringIO()
    setup_logging("warning", "json", redactor=Redactor([SECRET]), stream=out)
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger("tracker.test").exception(
            "failed: %s", SECRET, stack_info=True, extra={"url": f"https://u:{SECRET}@h", "n": None}
        )
    assert SECRET not in out.getvalue()
    record = json.loads(out.getvalue())
    assert (record["level"], record["message"]) == ("error", "failed: ***")
    assert (record["url"], record["n"]) == ("https://u:***@h", None)
    assert "ValueError: ***" in record["exception"]
    assert "stack" in record


@settings(deadline=None)
@given(secret=SECRETS, where=st.integers(0, 4))
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_record_shows_a_secret(log_format: str, secret: str, where: int) -> None:
    handler = setup_logging("debug", log_format, redactor=Redactor([secret]))  # type: ignore[arg-type]
    logging.getLogger().removeHandler(handler)
    record = logging.makeLogRecord({"msg": "%s", "args": ("x",), "name": "n", "levelname": "INFO"})
    if where == 0:
        record.msg = f"a{secret}b %s"
    elif where == 1:
        record.args = ({"k": secret},)
    elif where == 2:
        record.extra_field = [secret]
    elif where == 3:
        record.exc_info = (ValueError, ValueError(secret), None)
    else:
        record.stack_info = f"Stack\n{secret}"
    line = handler.format(record)
    fields = json.loads(line).values() if log_format == "json" else [line]
    assert all(secret not in str(field) for field in fields)


def test_set_up_again_replaces_only_its_own_handler(root_logger: logging.Logger) -> None:
    other = logging.NullHandler()
    root_logger.addHandler(other)
    first = setup_logging(redactor=Redactor())
    second = setup_logging("ERROR", redactor=Redactor())
    assert first not in root_logger.handlers
    assert other in root_logger.handlers
    assert second in root_logger.handlers
    assert root_logger.level == logging.ERROR
    with pytest.raises(ValueError, match="log level 'loud': use debug"):
        setup_logging("loud", redactor=Redactor())


def test_the_http_libraries_do_not_log_urls(root_logger: logging.Logger) -> None:
    out = io.StringIO()
    setup_logging("debug", redactor=Redactor(), stream=out)
    logging.getLogger("httpx").info("HTTP Request: GET https://h/?k=v")
    logging.getLogger("httpcore.http11").debug("send_request_headers")
    assert out.getvalue() == ""


def test_a_new_database_does_not_tell_its_steps(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    setup_logging("info", redactor=Redactor(), stream=stream)
    logging.getLogger("alembic.runtime.migration").info("Running upgrade -> 0001")
    assert stream.getvalue() == ""


def test_a_wrong_format_string_is_still_a_line(root_logger: logging.Logger) -> None:
    handler = setup_logging(redactor=Redactor([SECRET]))
    record = logging.makeLogRecord({"msg": "%d", "args": (SECRET,), "name": "n"})
    assert "%d ('***',)" in handler.format(record)


def test_the_filter_for_foreign_handlers() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(message)s %(note)s"))
    handler.addFilter(RedactingFilter(Redactor([SECRET])))
    log = logging.Logger("foreign")
    log.addHandler(handler)
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception("saw %s", SECRET, extra={"note": [SECRET]})
    assert SECRET not in out.getvalue()
    assert out.getvalue().startswith("saw *** ['***']")


def test_standard_library_only() -> None:
    heavy = "{'structlog', 'pydantic', 'httpx'}"
    code = f"import sys, tracker.telemetry; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_password_of_a_client_key_is_one_too() -> None:
    assert "hunter22" not in Redactor()("host=db sslpassword=hunter22 sslmode=require")
