"""The archive of answers: what a provider said, word for word, and for how long it is kept.

Bodies are kept once and compressed, however often they come. The same bodies serve conditional
requests (``http_cache``). Functions take a psycopg connection; those that write commit, save
``archive_payloads``, which is part of the recorder's transaction.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from tracker.provider import Payload

Connection = psycopg.Connection[Any]

_LEVEL = 4  # JSON shrinks to a tenth; higher levels take twice as long for another few percent
_SMALL = 200  # bytes under which compression is not worth a try
_MAX_KEY = 1000  # characters: an index entry has room for about 2,700 bytes


class CachedAnswer(NamedTuple):
    """An answer kept for a conditional request."""

    etag: str | None
    last_modified: str | None
    headers: dict[str, str]
    body: bytes
    stored_at: datetime


class Deleted(NamedTuple):
    """What a retention run removed."""

    payloads: int
    bodies: int
    answers: int = 0  # that were kept for conditional requests


def archive_payloads(
    cursor: psycopg.Cursor[Any], poll_id: int, payloads: Sequence[Payload]
) -> None:
    """Keep the answers of a poll, in their order, within the caller's transaction."""
    if not payloads:
        return
    digests = _store_bodies(cursor, [payload.body for payload in payloads])
    cursor.executemany(
        "INSERT INTO payload (poll_id, ordinal, url, method, request_body, status, headers,"
        " fetched_at, body_sha256) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            (
                poll_id, ordinal, _text(p.url), _text(p.method), p.request_body, p.status,
                _headers(p.headers), p.fetched_at, digest,
            )
            for ordinal, (p, digest) in enumerate(zip(payloads, digests, strict=True))
        ],
    )  # fmt: skip


def _store_bodies(cursor: psycopg.Cursor[Any], bodies: Sequence[bytes]) -> list[bytes]:
    """Keep what is not kept yet; return the SHA-256 of each."""
    digests = [hashlib.sha256(body).digest() for body in bodies]
    # The lock keeps a retention run from removing a body between this look and our reference.
    cursor.execute(
        "SELECT sha256 FROM payload_body WHERE sha256 = ANY (%s) ORDER BY sha256 FOR KEY SHARE",
        (digests,),
    )
    present = {digest for (digest,) in cursor}
    missing = {d: b for d, b in zip(digests, bodies, strict=True) if d not in present}
    for digest, body in sorted(missing.items()):  # one order for all: no two wait for each other
        cursor.execute(
            "INSERT INTO payload_body (sha256, codec, body, bytes_raw) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (sha256) DO NOTHING",
            (digest, *_pack(body), len(body)),
        )
    return digests


def _pack(body: bytes) -> tuple[str, bytes]:
    packed = zlib.compress(body, _LEVEL) if len(body) >= _SMALL else body
    return ("zlib", packed) if len(packed) < len(body) else ("none", body)


def _unpack(codec: str, body: bytes) -> bytes:
    return zlib.decompress(body) if codec == "zlib" else body


def _text(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _headers(headers: Mapping[str, str]) -> Jsonb:
    return Jsonb({_text(name): _text(value) for name, value in headers.items()})


def payloads_of_poll(connection: Connection, poll_id: int) -> list[Payload]:
    """The archived answers of a poll in their order; empty when there were none or they aged out.

    Parsing them again is the same call as parsing a live answer.
    """
    from tracker.provider import Payload  # here: it costs time that other reads need not spend

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.url, p.method, p.request_body, p.status, p.headers, p.fetched_at, b.codec,"
            " b.body FROM payload p JOIN payload_body b ON b.sha256 = p.body_sha256"
            " WHERE p.poll_id = %s ORDER BY p.ordinal",
            (poll_id,),
        )
        return [
            Payload(url, _unpack(codec, body), at, method, bytes(request), status, headers)
            for url, method, request, status, headers, at, codec, body in cursor
        ]


def delete_payloads_before(connection: Connection, cutoff: datetime) -> Deleted:
    """Remove the answers fetched before *cutoff*, and the bodies that nothing refers to then.

    The answers of each provider's latest accepted poll stay: they explain the current prices.
    Those for conditional requests go like the others: what has not changed is fetched once more.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM payload WHERE fetched_at < %s AND poll_id <> ALL (ARRAY("
            " SELECT (SELECT l.id FROM poll l WHERE l.provider_id = p.id"
            "         AND l.status IN ('complete', 'partial') ORDER BY l.polled_at DESC LIMIT 1)"
            " FROM provider p WHERE p.last_ok_at IS NOT NULL))",
            (cutoff,),
        )
        payloads = cursor.rowcount
        cursor.execute("DELETE FROM http_cache WHERE stored_at < %s", (cutoff,))
        answers = cursor.rowcount
    return Deleted(payloads, _delete_unused_bodies(connection), answers)


def _delete_unused_bodies(connection: Connection) -> int:
    try:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                "WITH unused AS (SELECT b.sha256 FROM payload_body b"
                " WHERE NOT EXISTS (SELECT FROM payload p WHERE p.body_sha256 = b.sha256)"
                " AND NOT EXISTS (SELECT FROM http_cache h WHERE h.body_sha256 = b.sha256)"
                " FOR UPDATE SKIP LOCKED)"
                " DELETE FROM payload_body b USING unused u WHERE b.sha256 = u.sha256"
            )
            return cursor.rowcount
    except psycopg.errors.ForeignKeyViolation:
        return 0  # a poll has just begun to use one of them: the next run finds the others


def cached_answer(connection: Connection, url_key: str) -> CachedAnswer | None:
    """The answer kept for a request, or None. *url_key* is whatever tells requests apart."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.etag, h.last_modified, h.headers, b.codec, b.body, h.stored_at"
            " FROM http_cache h JOIN payload_body b ON b.sha256 = h.body_sha256"
            " WHERE h.url_key = %s",
            (_key(url_key),),
        )
        row = cursor.fetchone()
    if row is None:
        return None
    etag, last_modified, headers, codec, body, stored_at = row
    return CachedAnswer(etag, last_modified, headers, _unpack(codec, body), stored_at)


def remember_answer(
    connection: Connection,
    url_key: str,
    *,
    body: bytes,
    stored_at: datetime,
    etag: str | None = None,
    last_modified: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Keep an answer for the next conditional request, in place of the previous one."""
    with connection.transaction(), connection.cursor() as cursor:
        [digest] = _store_bodies(cursor, [body])
        cursor.execute(
            "INSERT INTO http_cache (url_key, etag, last_modified, headers, stored_at,"
            " body_sha256) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (url_key) DO UPDATE SET"
            " etag = excluded.etag, last_modified = excluded.last_modified,"
            " headers = excluded.headers, stored_at = excluded.stored_at,"
            " body_sha256 = excluded.body_sha256",
            (
                _key(url_key), etag, last_modified, _headers(headers or {}), stored_at, digest,
            ),
        )  # fmt: skip


def forget_answers(connection: Connection, url_keys: Iterable[str] | None = None) -> int:
    """Drop kept answers (all of them when *url_keys* is None); return how many."""
    with connection.transaction(), connection.cursor() as cursor:
        if url_keys is None:
            cursor.execute("DELETE FROM http_cache")
        else:
            keys = [_key(key) for key in url_keys]
            cursor.execute("DELETE FROM http_cache WHERE url_key = ANY (%s)", (keys,))
        return cursor.rowcount


def _key(url_key: str) -> str:
    clean = _text(url_key)
    if len(clean) <= _MAX_KEY:
        return clean
    return f"sha256:{hashlib.sha256(clean.encode()).hexdigest()}"
