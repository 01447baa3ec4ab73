"""Reading a body: decompressed under a cap, checked for completeness, whole or line by line."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping
from contextlib import aclosing

from tracker.http.limits import MAX_LINE_BYTES, Stats
from tracker.http.retry import Retryable
from tracker.provider import FetchError

_PIECE_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"

Source = AsyncIterable[bytes]


class Decoder:
    """Undoes the content encoding in pieces of bounded size, so that no bomb ever unfolds.

    (httpx's own decoder unfolds a whole chunk at once and takes a truncated stream for complete.)
    """

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip"):
            raise FetchError(f"content encoding {name[:30]!r}, which was not asked for")
        self._inflate = None if name in ("", "identity") else self._new()
        self._begun = False
        self._start = b""  # of what follows a member, while too short to tell what it is
        self._padding = False

    @staticmethod
    def _new() -> zlib._Decompress:
        return zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded pieces of *data*. Raises Retryable when it is corrupt."""
        if self._inflate is None:
            if data:
                yield data
            return
        try:
            while data and not self._padding:
                if self._inflate.eof:
                    data = self._next_member(data)
                    continue
                self._begun = True
                piece = self._inflate.decompress(data, _PIECE_BYTES)
                data = self._inflate.unconsumed_tail or self._inflate.unused_data
                if piece:
                    yield piece
        except zlib.error:
            raise Retryable("corrupt gzip data") from None

    def _next_member(self, data: bytes) -> bytes:
        """What to inflate after the end of a member: another member, or nothing (padding)."""
        data, self._start = self._start + data, b""
        if data.startswith(_GZIP_MAGIC):
            self._inflate = self._new()
            return data
        if len(data) < len(_GZIP_MAGIC) and _GZIP_MAGIC.startswith(data):
            self._start = data
        else:
            self._padding = True
        return b""

    def finish(self) -> None:
        """Raises Retryable when the compressed stream is not at its end."""
        if self._inflate is not None and self._begun and (self._start or not self._inflate.eof):
            raise Retryable("truncated gzip data")


async def pieces(
    raw: Source, headers: Mapping[str, str], max_bytes: int, stats: Stats
) -> AsyncGenerator[bytes, None]:
    """The decoded body in pieces.

    *headers* have names in small letters. Raises FetchError once more than *max_bytes* came (as
    sent or decoded), Retryable when fewer bytes came than were announced.
    """
    announced = headers.get("content-length", "")
    expected = int(announced) if announced.isdecimal() else None
    if expected is not None and expected > max_bytes:
        raise _too_large(max_bytes)
    decoder = Decoder(headers.get("content-encoding", ""))
    sent = decoded = 0
    async for data in raw:
        sent += len(data)
        stats.bytes += len(data)
        if sent > max_bytes:
            raise _too_large(max_bytes)
        for piece in decoder.feed(data):
            decoded += len(piece)
            if decoded > max_bytes:
                raise _too_large(max_bytes)
            yield piece
    if expected is not None and sent != expected:
        raise Retryable(f"truncated answer: {sent} of {expected} bytes")
    decoder.finish()


def _too_large(max_bytes: int) -> FetchError:
    size = f"{max_bytes / 2**20:.3g} MiB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
    return FetchError(f"answer larger than {size}")


async def read_whole(source: Source) -> bytes:
    """The whole body."""
    return b"".join([piece async for piece in source])


async def read_head(raw: Source, headers: Mapping[str, str], limit: int) -> bytes:
    """The first *limit* bytes of an error's body, or what of them could be read."""
    head = b""
    source = pieces(raw, {**headers, "content-length": ""}, 2**20, Stats())
    try:
        async with aclosing(source):
            async for piece in source:
                head += piece
                if len(head) >= limit:
                    break
    except FetchError:
        pass
    return head[:limit]


class LineFilter:
    """Keeps the lines that *keep* accepts; a line may come in any number of pieces.

    Lines are shown to *keep* and kept without their line end. Raises FetchError when the kept
    lines exceed *max_kept_bytes*, or one line exceeds MAX_LINE_BYTES.
    """

    def __init__(self, keep: Callable[[bytes], bool], max_kept_bytes: int) -> None:
        self._keep = keep
        self._room = max_kept_bytes
        self._max_kept_bytes = max_kept_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._kept: list[bytes] = []

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the file."""
        first, newline, tail = piece.partition(b"\n")
        self._rest.append(first)
        self._rest_bytes += len(first)
        if self._rest_bytes > MAX_LINE_BYTES:
            raise FetchError(f"a line longer than {MAX_LINE_BYTES // 2**20} MiB: not a text file")
        if not newline:
            return
        lines = tail.split(b"\n")
        self._take(b"".join(self._rest))
        self._rest = [lines.pop()]
        self._rest_bytes = len(self._rest[0])
        for line in lines:
            self._take(line)

    def finish(self) -> bytes:
        """The kept lines, each ended by a line feed."""
        last = b"".join(self._rest)
        if last:
            self._take(last)
        self._rest = []
        return b"".join(self._kept)

    def _take(self, line: bytes) -> None:
        line = line.removesuffix(b"\r")
        if not self._keep(line):
            return
        self._room -= len(line) + 1
        if self._room < 0:
            raise FetchError(f"more than {self._max_kept_bytes} bytes of matching lines")
        self._kept.append(line + b"\n")
