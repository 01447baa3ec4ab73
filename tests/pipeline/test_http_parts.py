"""The parts of the HTTP client by themselves, with properties: lines, gzip, pauses, pace, URLs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.web import NOW, FakeClock
from tracker.http import HostGate, Limits
from tracker.http.archive import clean_url
from tracker.http.body import Decoder, LineFilter
from tracker.http.guard import redirect_target
from tracker.http.retry import backoff_s, retry_after_s
from tracker.provider import FetchError
from tracker.telemetry import Redactor


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """*data* in pieces, cut at these places (taken modulo its length)."""
    marks = sorted({p % (len(data) + 1) for p in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(marks)]


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.translate(None, b"\r\n")), max_size=12),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_lines_come_out_whole_however_they_are_cut(
    lines: list[bytes], end: bytes, ended: bool, places: list[int]
) -> None:
    data = end.join(lines) + (end if ended and lines else b"")
    sieve = LineFilter(lambda line: b"a" not in line, 10_000)
    for piece in cut(data, places):
        sieve.feed(piece)
    expected = [line for line in lines if b"a" not in line]
    if not ended and lines and lines[-1] == b"":
        expected = [line for line in lines[:-1] if b"a" not in line]  # no line begins after an end
    assert sieve.finish() == b"".join(line + b"\n" for line in expected)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=500), min_size=1, max_size=4), st.lists(st.integers(0, 3000)))
def test_gzip_however_it_is_cut(members: list[bytes], places: list[int]) -> None:
    packed = b"".join(gzip.compress(member) for member in members)
    decoder = Decoder("gzip")
    out = b"".join(part for piece in cut(packed, places) for part in decoder.feed(piece))
    decoder.finish()
    assert out == b"".join(members)


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=500), st.integers(1, 400))
def test_a_cut_gzip_stream_is_noticed(content: bytes, missing: int) -> None:
    packed = gzip.compress(content)
    short = packed[: max(len(packed) - missing, 1)]
    decoder = Decoder("gzip")
    for _ in decoder.feed(short):
        pass
    with pytest.raises(FetchError, match="truncated gzip data"):
        decoder.finish()


def test_decoded_pieces_are_small() -> None:
    decoder = Decoder("gzip")
    sizes = [len(piece) for piece in decoder.feed(gzip.compress(bytes(2_000_000)))]
    assert sum(sizes) == 2_000_000
    assert max(sizes) <= 256 * 1024


@settings(deadline=None)
@given(st.integers(-3600, 10**7))
def test_retry_after_as_seconds_and_as_date_agree(seconds: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    expected = max(float(seconds), 0.0)
    assert retry_after_s({"Retry-After": str(seconds)}, NOW) == expected
    assert retry_after_s({"retry-after": date}, NOW) == expected


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["Retry-After", "Date"]), st.text(max_size=30)))
def test_no_header_breaks_retry_after(headers: dict[str, str]) -> None:
    asked = retry_after_s(headers, datetime(2026, 1, 1, tzinfo=UTC))
    assert asked is None or asked >= 0


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**32))
def test_backoff_is_full_jitter_under_a_bound(attempt: int, seed: int) -> None:
    limits = Limits(backoff_s=1, max_backoff_s=20)
    pause = backoff_s(attempt, limits, random.Random(seed))  # noqa: S311
    assert 0 <= pause <= min(20, 2 ** (attempt - 1))


def test_backoff_spreads_over_its_whole_range() -> None:
    rng = random.Random(1)  # noqa: S311
    pauses = [backoff_s(3, Limits(backoff_s=1), rng) for _ in range(500)]
    assert min(pauses) < 0.2
    assert max(pauses) > 3.8


@settings(deadline=None)
@given(st.integers(1, 12), st.floats(0.5, 10), st.integers(1, 5))
def test_the_gap_holds_for_any_number_of_tasks(tasks: int, gap_s: float, concurrency: int) -> None:
    clock = FakeClock()
    gate = HostGate(gap_s, concurrency=concurrency, clock=clock)
    starts: list[float] = []
    inside = most = 0

    async def one() -> None:
        nonlocal inside, most
        async with gate.slot("h", 60):
            starts.append(clock.monotonic())
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async def run() -> None:
        await asyncio.gather(*(one() for _ in range(tasks)))

    asyncio.run(run())
    assert len(starts) == tasks
    assert most <= concurrency
    assert all(b - a >= gap_s - 1e-9 for a, b in pairwise(starts))


def test_a_pause_holds_all_requests_of_that_host_and_no_other() -> None:
    clock = FakeClock()
    gate = HostGate(clock=clock)

    async def run() -> None:
        gate.pause("h", 30)
        async with gate.slot("other", 60):
            assert clock.slept == []
        with pytest.raises(FetchError, match="h: asks to wait another 30 s") as caught:
            async with gate.slot("h", 20):
                pass
        assert caught.value.retry_after_s == 30
        async with gate.slot("h", 60):
            assert clock.slept == [30]

    asyncio.run(run())


SECRET = st.text(alphabet="abcXYZ019-_.~+/=%&# é", min_size=4, max_size=20).filter(
    lambda s: len(s.strip()) >= 4
)


@settings(deadline=None)
@given(
    SECRET,
    st.sampled_from(["key", "API_KEY", "Token", "access_token", "Signature", "sig", "password"]),
    st.lists(st.tuples(st.sampled_from(["page", "q", "x"]), st.text(max_size=5)), max_size=3),
    st.integers(0, 3),
)
def test_no_url_keeps_its_secret(
    secret: str, name: str, others: list[tuple[str, str]], place: int
) -> None:
    shown = quote(secret, safe="")
    pairs = [f"{k}={quote(v, safe='')}" for k, v in others]
    pairs.insert(place, f"{name}={shown}")
    url = f"https://me:{shown}@api.example:8443/a/b?{'&'.join(pairs)}#{shown}"
    cleaned = clean_url(url, Redactor())
    pairs[pairs.index(f"{name}={shown}")] = f"{name}=REDACTED"
    assert cleaned == f"https://api.example:8443/a/b?{'&'.join(pairs)}"


@settings(deadline=None)
@given(SECRET, st.integers(0, 2))
def test_a_configured_secret_is_found_anywhere_in_a_url(secret: str, place: int) -> None:
    parts = ["p", "q", "r"]
    parts[place] = quote(secret, safe="")
    url = f"https://api.example/{parts[0]}/x?{parts[1]}={parts[2]}"
    assert parts[place] not in clean_url(url, Redactor([secret]))


def test_urls_without_secrets_are_untouched() -> None:
    for url in (
        "https://api.example/v1?page=2&$filter=armRegionName%20eq%20'x'&keys=1",
        "https://api.example/",
        "https://api.example/x?key",
    ):
        assert clean_url(url, Redactor(["secret-value"])) == url
    assert clean_url("http://[", Redactor()) == "REDACTED"


# -- redirects into private networks ---------------------------------------------------------------


def refused(host: str, base: str = "https://api.example/x") -> bool:
    try:
        redirect_target(base, f"http://{host}:8080/y", "GET", 302)
    except FetchError as error:
        assert "redirected into a private network" in str(error)
        return True
    return False


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1.", "127.1", "2130706433", "0x7f.1", "0x7F000001", "0177.0.0.1", "0",
     "017700000001", "\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1",
     "127\u30020\u30020\u30021", "127.0.0.%31", "169.254.169.254", "10.1", "192.168.257",
     "100.64.0.1", "0.0", "0.0.0.1", "224.0.0.1", "255.255.255.255", "localhost", "localhost.",
     "LOCALHOST", "a.localhost", "local\u00adhost", "\uff4c\uff4fcalhost", "ip6-loopback",
     "intranet", "metadata.google.internal", "metadata.google.internal.", "nas.local", "[::1]",
     "[::]",
     "[::127.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]",
     "[64:ff9b:1::a00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]", "[fd00::1]", "[ff02::1]"],
)  # fmt: skip
def test_no_spelling_of_a_private_host_is_redirected_to(host: str) -> None:
    assert refused(host)
    assert not refused(host, "http://127.0.0.1:9/x"), "a local base URL may lead to its like"


@pytest.mark.parametrize(
    "host",
    ["other.example", "8.8.8.8", "134744072", "0x08.0x8.2056", "[2001:4860:4860::8888]",
     "[::ffff:8.8.8.8]", "[64:ff9b::808:808]", "10.example", "b\u00fccher.example",
     "localhost.example", "internal.example", "0x7f.1.example"],
)  # fmt: skip
def test_public_hosts_may_be_redirected_to(host: str) -> None:
    assert not refused(host)


@settings(deadline=None)
@given(
    st.ip_addresses(v=4),
    st.integers(1, 4),
    st.lists(st.sampled_from(["{}", "0x{:x}", "0{:o}"]), min_size=4, max_size=4),
    st.sampled_from(["", "."]),
)
def test_an_address_is_judged_alike_in_every_spelling(
    address: ipaddress.IPv4Address, parts: int, bases: list[str], dot: str
) -> None:
    octets = list(address.packed)
    numbers = [*octets[: parts - 1], int.from_bytes(octets[parts - 1 :])]
    spelled = ".".join(base.format(number) for base, number in zip(bases, numbers, strict=False))
    public = address.is_global and not address.is_multicast
    assert refused(spelled + dot) is not public
    for prefix in ("::ffff:", "64:ff9b::"):
        assert refused(f"[{prefix}{address}]") is not public


@settings(deadline=None)
@given(st.text(max_size=20))
def test_no_host_breaks_the_judgement(host: str) -> None:
    with contextlib.suppress(FetchError):
        redirect_target("https://api.example/x", f"http://{host}/", "GET", 302)
