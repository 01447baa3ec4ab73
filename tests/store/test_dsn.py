"""The database's URL: what is understood, what is refused, and that no password is ever shown."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import product
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from tracker.store.dsn import libpq_url, public_url
from tracker.store.engine import connect, make_engine, translated
from tracker.store.errors import InvalidUrl, StoreError, scrub, translate

# No letter or digit of these is in any message, so that a window of four can only come from here.
PASSWORD = st.text(alphabet="QXZ@:/?#%[]&='\"(,; \\é\t", min_size=4, max_size=14).filter(
    lambda text: any(c in "QXZ" for c in text)
)
SHAPES = (
    "postgresql://me:{}@{}/name",
    "postgresql+psycopg://me:{}@{}",
    "postgres://:{}@{}/name?sslmode=disable",
    "postgresql://{1}/name?password={0}&user=me",
    "postgresql://{1}/name?sslmode=disable&sslpassword={0}",
    "postgresql://me:{0}@{1},{1}/name",
)


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    """Host and port where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def said(url: str) -> Iterator[str]:
    """All that is said of *url* by whatever uses it."""
    for use in (lambda: connect(url), lambda: make_engine(url).connect()):
        with pytest.raises(StoreError) as caught, translated():
            use()
        yield str(caught.value)
    for read in (conninfo_to_dict, sqlalchemy.make_url):
        try:
            read(url)
        except (psycopg.Error, sqlalchemy.exc.ArgumentError) as error:
            yield str(translate(error))
        except ValueError:
            pass  # nobody would take it for an error of the database
    try:
        yield public_url(url)
    except InvalidUrl as error:
        yield str(error)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    PASSWORD, st.sampled_from(SHAPES), st.sampled_from([str, quote, lambda p: quote(p, safe="")])
)
@example("QXZQ@ZXQX", SHAPES[0], str)
@example("QXZQ%ZXQX", SHAPES[0], str)
@example("QXZQ%Z", SHAPES[3], str)
@example("QXZQ&ZXQX", SHAPES[3], str)
@example("QXZQ,ZXQX", SHAPES[4], str)
@example("QXZQ ZXQX", SHAPES[0], str)
@example("XXXX/ZXQX", SHAPES[0], str)
def test_no_part_of_a_password_is_ever_shown(
    nobody: str, password: str, shape: str, spell: object
) -> None:
    assert callable(spell)
    url = shape.format(spell(password), nobody)
    for message, secret in product(said(url), {password, spell(password)}):
        windows = {secret[i : i + 4] for i in range(len(secret) - 3)}
        # What a URL has anyway says nothing of the password.
        shown = [w for w in windows if w in message and any(c in "QXZ" for c in w)]
        assert not shown, message


@given(PASSWORD)
def test_a_percent_encoded_password_is_taken_as_it_is(password: str) -> None:
    assume("\t" not in password)
    url = libpq_url(f"postgres://me:{quote(password, safe='')}@db.example:5432/name")
    assert conninfo_to_dict(url) == {
        "user": "me", "password": password, "host": "db.example", "port": "5432", "dbname": "name",
    }  # fmt: skip


@given(st.text(alphabet="aQ1@:/?#%[],= ", max_size=16), st.sampled_from(["", "h", "me@h"]))
def test_what_is_taken_is_read_by_all_alike(rest: str, end: str) -> None:
    """libpq, SQLAlchemy and this module agree on where the password ends, or it is refused."""
    try:
        url = libpq_url(f"postgresql://{rest}{end}")
        ours = public_url(url)
        theirs = conninfo_to_dict(url)
        other = sqlalchemy.make_url(url)
    except (InvalidUrl, psycopg.Error, sqlalchemy.exc.ArgumentError, ValueError):
        return
    assert (theirs.get("password") or None) == (other.password or None)
    assert (theirs.get("user") or None) == (other.username or None)
    if theirs.get("password"):
        assert ours.count(":***@") == (1 if "@" in ours else 0)


@pytest.mark.parametrize(
    ("rest", "advice"),
    [
        ("me:a@b@h/d", "percent-encode the password in database_url"),
        ("me:a/b@h/d", "percent-encode the password in database_url"),
        ("me:a?b@h/d", "percent-encode the password in database_url"),
        ("me:a%zz@h/d", "percent-encode the password in database_url"),
        ("me:a%@h/d", "percent-encode the password in database_url"),
        ("me:a%00b@h/d", "percent-encode the password in database_url"),
        ("me:a%ffb@h/d", "percent-encode the password in database_url"),
        ("me:a b@h/d", "percent-encode the password in database_url"),
        ("me:\ud800@h/d", "percent-encode the password in database_url"),
        ("h:port/d", "check host, port and options"),
        ("h:65536/d", "check host, port and options"),
        ("h1:1,h2:port/d", "check host, port and options"),
        ("[::1/d", "check host, port and options"),
    ],
)
def test_a_url_with_two_readings_is_refused(rest: str, advice: str) -> None:
    with pytest.raises(InvalidUrl, match="the database URL is not valid") as caught:
        libpq_url(f"postgresql://{rest}")
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "rest",
    ["h/d", "me@h", "/d?host=%2Ftmp%2Fx", "[::1]:5432/d", "me:p%40@h1:1,h2:2,[::1]:3/d", "me:@h:/d",
     "?host=/tmp", "%2Ftmp/d"],
)  # fmt: skip
def test_usual_urls_are_taken(rest: str) -> None:
    assert libpq_url(f"postgresql://{rest}") == f"postgresql://{rest}"
    conninfo_to_dict(f"postgresql://{rest}")


def test_url_keeps_everything_behind_the_scheme() -> None:
    assert libpq_url(" postgres://u@h:1/d?x=%2F ") == "postgresql://u@h:1/d?x=%2F"


def test_what_is_shown_of_a_url() -> None:
    assert public_url("postgres://me@h:1/d") == "postgresql://me@h:1/d"
    assert public_url("postgres://me:pw@h1,h2:2/d?sslmode=require&sslpassword=a,b&user=x") == (
        "postgresql://me:***@h1,h2:2/d?sslmode=require&user=x"
    )


@pytest.mark.parametrize(
    "text",
    [
        "at postgresql://u:QXZQ@ZX:w/rd@h/db",
        "at postgresql://u:QX ZQ@h/db",
        "host=x password='QX\\'Q ZX' user=b",
        'host=x password=QX"ZQ user=b',
        "host=x password='QXZ",
        "x?sslpassword=QX'ZQ",
    ],
)
def test_a_password_is_scrubbed_to_its_end(text: str) -> None:
    assert not set("QXZ") & set(scrub(text))
