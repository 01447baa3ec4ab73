"""Write docs/api.md and docs/openapi.json from the programming interface itself.

``python -m tools.api_page`` rewrites both; a test compares them with what this would write.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tracker.web.api.app import Service, document, make_api
from tracker.web.api.guard import MAX_BODY, MAX_QUERY, Limits
from tracker.web.api.kept import HOLDS_S
from tracker.web.api.page import operations
from tracker.web.api.views import MOST_ROWS
from tracker.web.patience import ASK_S, DRAIN_S, MOST_CONNECTIONS, READ_S

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, DOCUMENT = DOCS / "api.md", DOCS / "openapi.json"

_HEAD = f"""\
# The programming interface

Written by `make docs` from the code; do not edit it here.

`gpucost serve` answers on http://127.0.0.1:9754, `gpucost daemon` on its own port (`[daemon]
listen` and `port`, by default http://127.0.0.1:9753). The document for programs is
[openapi.json](openapi.json), served at `/api/openapi.json`; `/api/docs` shows this in a browser.
Nothing is loaded from any other host.

<!-- not run: it needs a server beside it; tests/web/api asks the same -->
```sh
gpucost serve
curl 'http://127.0.0.1:9754/api/v1/cheapest?job=bert-large&gpu=H100,A100'
curl 'http://127.0.0.1:9754/api/v1/offers.csv?gpu=H100&market=any&top=1000'
curl 'http://127.0.0.1:9754/api/v1/offers?gpu=H100&group_by=provider,region&sort=-in_stock'
```

Questions have the names of the [command line's options](cli.md) and its answers: the same keys as
`-o json`, money as text in USD, `null` for what is not known and never 0, times in UTC. A list is
separated by commas. Nothing that matches is an answer without rows (200), which says what was left
out.

## Formats, pages, caches

Every list comes as JSON, CSV and NDJSON: by the address (`/api/v1/cheapest.csv`), by `format=`, or
by the `Accept` header. CSV and NDJSON hold the rows alone; what was left out, and why, stands in
the header `x-gpucost-left-out`. `cheapest` and `offers` come in pages of `top` rows (at most
{MOST_ROWS:,}): `next` in JSON and the `Link` header name the next one. Between two pages a poll may
move rows; `as_of` tells. `sort` of `offers` goes before pages are cut: it sorts all that matches.
`HEAD` answers as `GET` does, without the body.

An answer has an `ETag`; with `If-None-Match` it is not sent again while it stays the same (304). It
is made anew at most a second after a poll has been recorded, and every {HOLDS_S:.0f} seconds, since
ages go on.

## Refusals

`application/problem+json` with one line that says what to do in `detail`, the `parameter` at fault
where there is one, and a `type` for programs (`urn:gpucost:problem:bad-question`).

| status | why |
| --- | --- |
| 400 | the question makes no sense; a parameter names a job, GPU or provider that nobody knows |
| 401 | the token is missing or wrong |
| 403 | the server was started without a token, and changes nothing |
| 404 | no such address; no job, rule or silence of the name in it; no database was begun yet |
| 405 | the address does not take that method |
| 406, 415 | a format that there is not |
| 409 | it stands otherwise: the rule to take note of is not firing |
| 413, 414 | a body of more than {MAX_BODY >> 10} KiB, more than {MAX_QUERY >> 10} KiB of query |
| 421 | the server is not called so: see `allow_hosts` |
| 429 | more than {Limits().per_second:g} requests a second from one address |
| 503 | the database does not answer in time, or too many ask at once |

A request must have come within {ASK_S:.0f} seconds, its body included, and an answer is ended when
nothing of it is read for {READ_S:.0f}, or a portion of 64 KiB not within {DRAIN_S:.0f}. There are
{MOST_CONNECTIONS} connections at most: one that leaves an answer unread, else the one that has
been silent for longest, makes room.

## Who may ask

Both listen on loopback and answer whoever is on this machine, under its own names alone:
a page of another site cannot ask through its visitor's browser. `/metrics`, `/status` and
`/readyz` are told whoever can reach the server, under an IP address, `localhost`, the machine's
own name or one of `allow_hosts`. A proxy on this machine speaks
as this machine: let it ask for a password of its own, and name its host with `allow_hosts` under
`[daemon]` or with `--allow-host` ([web.md](web.md#behind-a-proxy)).

Other machines are only let in when the server is told to listen to them, and then need the token
(`--token-file`, or `api_token` under `[daemon]`): `Authorization: Bearer ...`. `gpucost serve`
refuses to listen to them without one; `--allow-remote` lets everybody read all the same. What
changes something needs the token always. There is no TLS: put a proxy in front.

"""


def page(found: Mapping[str, Any]) -> str:
    """The page."""
    return _HEAD + "## Addresses\n" + "".join(_operation(o) for o in operations(found))


def _operation(o: Mapping[str, Any]) -> str:
    text = f"\n### {o['method']} {o['path']}\n\n{o['title']}. {o['text']}\n"
    if o["parameters"]:
        rows: Iterable[tuple[str, ...]] = [
            (f"`{p['name']}`", p["kind"], p["default"], p["help"].replace("|", "\\|"))
            for p in o["parameters"]
        ]
        lines = [("parameter", "kind", "default", "meaning"), ("---",) * 4, *rows]
        text += "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    if o["body"]:
        fields = [(f"`{f['name']}`", f["kind"], f["needed"], f["help"]) for f in o["body"]]
        lines = [("in the body (JSON)", "kind", "needed", "meaning"), ("---",) * 4, *fields]
        text += "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{text}\nAnswers: {o['statuses']}.\n"


def found() -> dict[str, Any]:
    """The OpenAPI document; no question is asked for it."""
    return document(make_api(Service(_nobody)))


def _nobody() -> Any:
    raise AssertionError("the document needs no answers")


def texts() -> dict[Path, str]:
    """What both files hold."""
    told = found()
    return {PAGE: page(told), DOCUMENT: json.dumps(told, ensure_ascii=False, indent=1) + "\n"}


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
