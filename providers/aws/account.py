"""Asks EC2 for spot prices by zone, with the credentials that boto3 finds.

Which those are is boto3's business: variables, a profile, a role (``gpucost[aws]`` brings boto3).
They are not read here, and of an answer only prices and error codes are kept: AWS's error messages
name accounts and users. The permission needed is ``ec2:DescribeSpotPriceHistory``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from providers.aws.instances import instance_types
from providers.aws.zones import ACTION, SYSTEM, url_of
from tracker.provider import Payload

PAGE = 1000  # rows, the most that EC2 gives at once; all GPU types of a region are about 400
MAX_PAGES = 10  # per region
TOTAL_SECONDS = 120.0  # for all regions; a region that is down must not hold up the poll
_AT_ONCE = 6
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 5, 20, 2
_FIELDS = ("AvailabilityZone", "AvailabilityZoneId", "InstanceType", "ProductDescription",
           "SpotPrice")  # fmt: skip

# Error codes of our own, beside those of AWS.
NOT_INSTALLED, NO_CREDENTIALS, TIMED_OUT = "NotInstalled", "NoCredentials", "TimedOut"

# What says that credentials may be found, of all that boto3 looks at:
# https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html
_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
_MACHINE = ("sys_vendor", "bios_vendor", "bios_version")  # "Amazon EC2", or "4.11.amazon" on Xen

# AWS's codes are words ("AuthFailure", "Client.InternalError"), or the HTTP status where the answer
# has none. What else stands there may be a credential that was sent back, and is not repeated.
_CODE = re.compile(r"[A-Z]+[a-z][A-Za-z.]{1,56}|[1-5]\d\d")

Clients = Callable[[str], Any]


class NoCredentials(Exception):
    """boto3 found none."""


def installed() -> bool:
    """Whether boto3 is there (it is not imported: that takes half a second)."""
    return importlib.util.find_spec("boto3") is not None


def credentials_likely(
    env: Mapping[str, str] | None = None, dmi: Path = Path("/sys/class/dmi/id")
) -> bool:
    """Whether boto3 may find credentials: by variables, files, or a role of this EC2 machine.

    Asks nobody, and reads no credentials. *env* are the variables, *dmi* tells whose machine it is.
    """
    env = os.environ if env is None else env
    if any(env.get(name) for name in _VARIABLES):
        return True
    if any(Path(env.get(name, usual)).expanduser().is_file() for name, usual in _FILES.items()):
        return True
    if env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return False
    return any("amazon" in _text_of(dmi / name).lower() for name in _MACHINE)


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


async def spot_by_zone(
    regions: Sequence[str], clients: Clients | None = None, total_seconds: float = TOTAL_SECONDS
) -> list[Payload]:
    """One payload for each region: its prices, or the code of the error (NOT_INSTALLED and others).

    *clients* makes an EC2 client for a region; it is called in threads, never in two at once.
    """
    regions = list(dict.fromkeys(regions))
    if clients is None and not installed():
        return [_failed(region, NOT_INSTALLED) for region in regions]
    make, lock = clients or _Clients(), threading.Lock()
    ends_at = time.monotonic() + total_seconds
    found = await _side_by_side(
        lambda region: _ask(region, make, lock, ends_at), regions, total_seconds
    )
    return [found.get(region) or _failed(region, TIMED_OUT) for region in regions]


async def _side_by_side(
    work: Callable[[str], Payload], regions: Sequence[str], seconds: float
) -> dict[str, Payload]:
    """What *work* gives for each region, as far as it is done within *seconds*.

    In daemon threads: a request that hangs keeps neither the poll nor the program from ending.
    """
    loop = asyncio.get_running_loop()
    found: dict[str, Payload] = {}
    finished = asyncio.Event()
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for region in regions:
        waiting.put(region)

    def take(region: str, payload: Payload) -> None:
        found[region] = payload
        if len(found) == len(regions):
            finished.set()

    def run() -> None:
        with contextlib.suppress(queue.Empty, RuntimeError):  # all done, or nobody waits any more
            while True:
                region = waiting.get_nowait()
                loop.call_soon_threadsafe(take, region, work(region))

    for _ in range(min(_AT_ONCE, len(regions))):
        threading.Thread(target=run, name="aws-spot", daemon=True).start()
    try:
        async with asyncio.timeout(seconds if regions else 0):
            await finished.wait()
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
    return found


class _Clients:
    """EC2 clients of one session, with what boto3 finds; what it does not find is looked for once.

    Raises NoCredentials, or what boto3 raises.
    """

    def __init__(self) -> None:
        self._session: Any = None
        self._bounds: Any = None
        self._error: Exception | None = None

    def __call__(self, region: str) -> Any:
        if self._error is not None:
            raise self._error
        if self._session is None:
            try:
                self._begin()
            except Exception as error:  # a profile that is not there, a file that is not one
                self._error = error
                raise
        return self._session.client("ec2", region_name=region, config=self._bounds)

    def _begin(self) -> None:
        # At debug level botocore logs what it signs, a session's token included.
        for name in ("botocore", "boto3", "urllib3"):
            if logging.getLogger(name).getEffectiveLevel() < logging.WARNING:
                logging.getLogger(name).setLevel(logging.WARNING)
        import boto3
        from botocore.config import Config

        session = boto3.Session()
        if session.get_credentials() is None:
            raise NoCredentials
        self._session = session
        self._bounds = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        )


def _ask(region: str, clients: Clients, lock: threading.Lock, ends_at: float) -> Payload:
    """All pages of a region in one payload. Runs in a thread."""
    now = datetime.now(UTC).replace(microsecond=0)
    asked: dict[str, Any] = {
        "StartTime": now,  # as of now: the prices in force, and no history
        "ProductDescriptions": [SYSTEM],
        # A filter, not the parameter InstanceTypes: that refuses types that a region has not.
        "Filters": [{"Name": "instance-type", "Values": sorted(instance_types())}],
        "MaxResults": PAGE,
    }
    rows: dict[str, dict[str, str]] = {}
    token = ""
    try:
        with lock:  # a session's clients may be used side by side, but not made so
            client = clients(region)
        for _ in range(MAX_PAGES):
            more = {"NextToken": token} if token else {}
            page = client.describe_spot_price_history(**asked, **more)
            known = len(rows)
            rows |= {json.dumps(row): row for row in map(_row, page["SpotPriceHistory"])}
            token = page.get("NextToken") or ""
            if token and page["SpotPriceHistory"] and len(rows) == known:
                token = ""  # it has been seen to repeat itself for ever
            if not token or time.monotonic() > ends_at:
                break
    except Exception as error:  # whatever boto3 raises is one region's trouble
        return _failed(region, *_code_of(error))
    return Payload(
        url=url_of(region),
        body=json.dumps({"SpotPriceHistory": list(rows.values()), "NextToken": token}).encode(),
        fetched_at=now,
        method="POST",
        request_body=json.dumps({"Action": ACTION, **asked, "StartTime": now.isoformat()}).encode(),
    )


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    """What of a row is kept, as JSON."""
    kept = {name: str(row[name]) for name in _FIELDS if row.get(name) is not None}
    since = row.get("Timestamp")
    return {**kept, "Timestamp": since.isoformat()} if isinstance(since, datetime) else kept


def _code_of(error: Exception) -> tuple[str, int]:
    """The error's code, or its kind, and the HTTP status (0: no answer). Never its message."""
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return type(error).__name__, 0
    code = str(answer.get("Error", {}).get("Code") or "")
    if not _CODE.fullmatch(code):
        code = type(error).__name__
    return code, int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def _failed(region: str, code: str, status: int = 0) -> Payload:
    """The payload that stands for a request without an answer of use."""
    return Payload(
        url=url_of(region),
        body=json.dumps({"Error": {"Code": code}}).encode(),
        fetched_at=datetime.now(UTC),
        method="POST",
        status=status if status >= 400 else 0,
    )
