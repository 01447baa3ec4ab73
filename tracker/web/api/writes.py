"""What changes something: silences, acknowledgements and measurements. The token opens it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from tracker.alert.silences import check_pattern
from tracker.app import App, asked, measuring
from tracker.app.asked import BadQuestion
from tracker.app.standing import Configured
from tracker.domain.gpu import UnknownGpu
from tracker.report.shapes.texts import SCHEMA_VERSION, json_text, plain
from tracker.web.api import described, models, models_alerts
from tracker.web.api.problems import Refused

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from tracker.web.api.app import Service

Body = TypeVar("Body", bound=models.Shape)
LONGEST = timedelta(days=366)
MOST_TOLD = 10  # mistakes of one body
_MATCHERS = ("rule", "job", "provider", "gpu")


def add(router: APIRouter, service: Service) -> None:
    """The addresses that change something, on *router*."""
    _add(router, service, "/alerts/silences", "silence", "Keep notices back for a while",
         models_alerts.SilenceAsked, models_alerts.SilenceMade, _silence)  # fmt: skip
    _add_end(router, service)
    _add(router, service, "/alerts/{rule}/ack", "acknowledge", "Take note of a firing",
         models_alerts.AckAsked, models_alerts.Acked, _acknowledge)  # fmt: skip
    _add(router, service, "/jobs/{name}/measurements", "measure", "Record a run of a job",
         models_alerts.MeasurementAsked, models_alerts.MeasurementMade, _measure)  # fmt: skip


def _add_end(router: APIRouter, service: Service) -> None:
    """``DELETE /alerts/silences/{silence}``."""

    async def end(request: Request) -> Response:
        if request.query_params:
            raise BadQuestion(None, "what changes something takes no parameters")
        number = request.path_params["silence"]
        made = await service.work(lambda: _end_silence(service, number))
        text = json_text({"schema_version": SCHEMA_VERSION, **plain(made)}, indent=1) + "\n"
        return Response(text, media_type="application/json",
                        headers={"cache-control": "no-store"})  # fmt: skip

    schema = {"$ref": f"#/components/schemas/{models_alerts.SilenceEnded.__name__}"}
    router.add_api_route(
        "/alerts/silences/{silence}", end, methods=["DELETE"], operation_id="end_silence",
        summary="End a silence now", response_class=Response, status_code=200,
        description="Needs the token: Authorization: Bearer ...",
        responses={
            200: {"description": "Ended", "content": {"application/json": {"schema": schema}}},
            **described.refusals(403),
        },
        openapi_extra={"parameters": [described.in_path("silence", described.NUMBER)],
                       "security": [{"token": []}]},
    )  # fmt: skip


def _end_silence(service: Service, text: str) -> dict[str, Any]:
    from tracker.store import alerts
    from tracker.store.engine import transaction

    app, now = service.answers().app, service.utc_now()
    known = text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31
    if known:
        with _writing(app) as engine, transaction(engine) as cursor:
            known = alerts.end_silence(cursor, int(text), now)
    if not known:
        raise Refused(404, "no-such-silence", f"no silence {text[:20]!r} is in force")
    return {"silence": int(text), "until": now}


def _add(
    router: APIRouter, service: Service, path: str, name: str, title: str, body: type[Body],
    answer: type[models.Answer],
    do: Callable[[Service, dict[str, str], Body], dict[str, Any]],
) -> None:  # fmt: skip
    async def change(request: Request) -> Response:
        if request.query_params:
            raise BadQuestion(None, "what changes something takes a body and no parameters")
        given = await _read(request, body)
        path_values = {key: str(value) for key, value in request.path_params.items()}
        made = await service.work(lambda: do(service, path_values, given))
        text = json_text({"schema_version": SCHEMA_VERSION, **plain(made)}, indent=1) + "\n"
        return Response(text, 201, media_type="application/json",
                        headers={"cache-control": "no-store"})  # fmt: skip

    def schema(kind: type[BaseModel]) -> dict[str, Any]:
        ref = {"$ref": f"#/components/schemas/{kind.__name__}"}
        return {"content": {"application/json": {"schema": ref}}}

    in_path = [described.in_path(part[1:-1]) for part in path.split("/") if part.startswith("{")]
    router.add_api_route(
        path, change, methods=["POST"], operation_id=name, summary=title, response_class=Response,
        description="Needs the token: Authorization: Bearer ...", status_code=201,
        responses={201: {"description": "Done", **schema(answer)},
                   **described.refusals(403, 409, 415)},
        openapi_extra={"requestBody": {"required": True, **schema(body)}, "parameters": in_path,
                       "security": [{"token": []}]},
    )  # fmt: skip


async def _read(request: Request, kind: type[Body]) -> Body:
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != "application/json":
        raise Refused(415, "media-type", "send the body as application/json")
    try:
        return kind.model_validate(json.loads(await request.body(), parse_float=Decimal))
    except (ValueError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            raise BadQuestion(None, "the body is not JSON") from None
        raise _mistakes(error) from None


def _mistakes(error: ValidationError) -> BadQuestion:
    """What is wrong with a body: all of it at once."""
    found = [
        (".".join(str(part) for part in one["loc"])[:60] or None, str(one["msg"])[:200])
        for one in error.errors(include_url=False, include_input=False)[:MOST_TOLD]
    ]
    if len(found) == 1:
        return BadQuestion(*found[0])
    return BadQuestion(None, "; ".join(f"{where}: {text}" if where else text
                                       for where, text in found))  # fmt: skip


@contextmanager
def _writing(app: App) -> Iterator[Engine]:
    from tracker.store import migrate
    from tracker.store.engine import make_engine

    with app.database() as url:
        migrate.check(url)
        engine = make_engine(url, statement_timeout_s=10)
        try:
            yield engine
        finally:
            engine.dispose()


def _silence(
    service: Service, _path: dict[str, str], given: models_alerts.SilenceAsked
) -> dict[str, Any]:
    from tracker.report.health import check_providers
    from tracker.store import alerts
    from tracker.store.engine import transaction

    app, now = service.answers().app, service.utc_now()
    named = {name: _text(getattr(given, name), name) for name in _MATCHERS}
    if not any(named.values()):
        raise BadQuestion("rule", "name a rule (* for all of them), a job, a provider or a GPU")
    until = _until(given.length, now)
    if named["rule"] is not None:
        named["rule"] = _rule(app, named["rule"].lower())
    if named["job"] is not None:
        named["job"] = service.answers().job(named["job"]).name
    if named["gpu"] is not None:
        named["gpu"] = _gpu(app, named["gpu"])
    if named["provider"] is not None:
        named["provider"] = named["provider"].lower()
    with _writing(app) as engine, transaction(engine) as cursor:
        check_providers(cursor.connection, [named["provider"]] if named["provider"] else [])
        made = alerts.add_silence(
            cursor, starts_at=now, until=until, author=_required(given.author, "author"),
            comment=_required(given.comment, "comment"), **named,
        )  # fmt: skip
    return {"silence": made, "until": until}


def _until(text: str, now: datetime) -> datetime:
    try:
        length = asked.duration(text)
    except ValueError as error:
        raise BadQuestion("length", str(error)) from None
    if length > LONGEST:
        raise BadQuestion("length", "a silence lasts a year at most; turn the rule off instead")
    return now + length


def _rule(app: App, name: str) -> str:
    if any(sign in name for sign in "*?["):
        try:
            check_pattern(name)
        except ValueError as error:
            raise BadQuestion("rule", str(error)) from None
    elif name not in Configured.of(app).names:
        raise Refused(404, "no-such-rule", f"no rule is called {name[:60]!r}")
    return name


def _gpu(app: App, name: str) -> str:
    """A family or one GPU, as offers name it; else as it was sent."""
    keys = app.catalogue.select(name)
    families = {gpu.family for key in keys if (gpu := app.catalogue.gpu(key))}
    if len(families) == 1 and app.catalogue.select(*families) == keys:
        return families.pop()
    return next(iter(keys)) if len(keys) == 1 else name


def _acknowledge(
    service: Service, path: dict[str, str], given: models_alerts.AckAsked
) -> dict[str, Any]:
    from tracker.alert.engine import AlertEngine, UnknownRule
    from tracker.store import alerts

    app, rule = service.answers().app, _required(path["rule"], "rule")
    author = _required(given.author, "author")
    with _writing(app) as engine:
        try:
            noted = AlertEngine(engine, (), app.catalogue).acknowledge(
                rule, service.utc_now(), author
            )
        except UnknownRule:
            raise Refused(  # nor will there be one before the daemon evaluates it
                404, "no-such-rule", f"no rule called {rule[:60]!r} was evaluated yet"
            ) from None
    if not noted:
        with app.reading() as connection:
            row = alerts.rule(connection, rule)
        if row is None or row.phase not in ("firing", "recovering"):
            raise Refused(409, "not-firing", f"{rule} is not firing")
    return {"rule": rule, "noted": noted}


def _measure(
    service: Service, path: dict[str, str], given: models_alerts.MeasurementAsked
) -> dict[str, Any]:
    from tracker.domain.measurement import UTILISATIONS

    answers = service.answers()
    try:
        job = answers.job(_required(path["name"], "name"))
    except BadQuestion as error:
        raise Refused(404, "no-such-job", error.said(str)) from None
    options: dict[str, Any] = dict.fromkeys(UTILISATIONS)
    options |= {"gpu": _required(given.gpu, "gpu"), "gpus": given.gpus,
                "note": _text(given.note, "note")}  # fmt: skip
    for name in ("hours", *measuring.RATES):
        options[name] = _number(getattr(given, name), name)
    try:
        one = measuring.measurement(answers.app, job, options)
    except UnknownGpu as error:
        raise BadQuestion("gpu", str(error)) from None
    version = measuring.record(answers.app, one)
    hours = f"{one.hours:f} h on {one.gpus} x {one.gpu}"
    return {"remark": f"{job.name}: {hours}, version {version}"}


def _number(text: str | None, name: str) -> Decimal | None:
    if text is None:
        return None
    try:
        return asked.positive(text)
    except ValueError as error:
        raise BadQuestion(name, str(error)) from None


def _text(text: str | None, name: str) -> str | None:
    return None if text is None else _required(text, name)


def _required(text: str, name: str) -> str:
    """A line of text that the database can hold."""
    stripped = text.strip()
    if not stripped:
        raise BadQuestion(name, "is empty")
    if any(ord(letter) < 32 or "\ud800" <= letter <= "\udfff" for letter in stripped):
        raise BadQuestion(name, "is not one line of text")
    return stripped
