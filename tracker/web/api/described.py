"""What the OpenAPI document says of parameters and answers, from the questions themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker.app.answers import QUESTIONS
from tracker.app.asked import MAX_TEXT, Parameter
from tracker.web.api import models, models_alerts, models_offers, models_past
from tracker.web.api.problems import MEDIA_TYPE
from tracker.web.api.views import FORMATS, MOST_ROWS

ANSWERS: Mapping[str, tuple[type[models.Answer], str, str]] = {
    "cheapest": (
        models.CheapestAnswer, "The cheapest way to run a job",
        "Ranked bills for whole machines and the hours billed, with what was left out and why. "
        "Nothing that matches is an answer without rows, not an error.",
    ),
    "compare": (
        models.CompareAnswer, "One GPU against another for a job",
        "Which is the cheaper one, why, and until what price.",
    ),
    "versus": (
        models_past.VersusAnswer, "Two GPUs over time",
        "When which was the cheaper one for a job, and the break-even price at each time.",
    ),
    "history": (
        models_past.HistoryAnswer, "What a job cost over time",
        "Buckets of each GPU's or provider's cheapest bill; a gap is never filled.",
    ),
    "when": (
        models_past.WhenAnswer, "Start a job now, or wait for a lower price",
        "By what waiting was worth in the job's own cost history; deadline must be given.",
    ),
    "estimate": (
        models.EstimateAnswer, "How long a job takes on each GPU",
        "The fastest first, with the way to the hours.",
    ),
    "offers": (
        models_offers.OffersAnswer, "What can be rented",
        "The cheapest per GPU-hour first, or by sort; every price is of a whole machine. With "
        "group_by a row for each group: what is in stock, and between which prices.",
    ),
    "quarantined": (
        models.QuarantinedAnswer, "What the quality gates hold back",
        "Suspect offers with the reason; they are never ranked, and fire no alert.",
    ),
    "providers": (
        models.ProvidersAnswer, "How each provider stands", "Its last good poll, age and counts.",
    ),
    "jobs": (models.JobsAnswer, "The jobs known by name", "The built-in ones and those kept."),
    "alerts": (
        models_alerts.AlertsAnswer, "How every alert rule stands", "Phase, health and value.",
    ),
    "silences": (
        models_alerts.SilencesAnswer, "The silences in force", "Which notices are kept back.",
    ),
}  # fmt: skip
PAGED = ("cheapest", "offers", "quarantined")
PATHS = {"quarantined": "offers/quarantined", "silences": "alerts/silences"}

_REFUSALS = {
    400: "The question makes no sense", 401: "Another machine asks without the token",
    404: "Nothing of that name, or no database was begun yet", 406: "No such format",
    414: "The address is too long",
    413: "The body is too large", 421: "The server is not called so",
    429: "Too many requests", 503: "The database does not answer, or too many ask at once",
}  # fmt: skip


# What stands in an address: the name of a job or of a rule.
NAME = {
    "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
}  # fmt: skip


NUMBER = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}


def path_of(name: str) -> str:
    """The address of a question, behind the version."""
    return PATHS.get(name, name)


def in_path(name: str, schema: Mapping[str, Any] = NAME) -> dict[str, Any]:
    """A parameter that is a part of the address."""
    return {"name": name, "in": "path", "required": True, "schema": dict(schema)}


def problem(status: int, text: str) -> dict[int | str, dict[str, Any]]:
    """A refusal, as FastAPI's ``responses`` have it."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {status: {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}}


def refusals(*more: int) -> dict[int | str, dict[str, Any]]:
    """What every address may refuse with, and *more*."""
    texts = _REFUSALS | {
        403: "The server was started without a token", 409: "It stands otherwise",
        415: "The body is no JSON",
    }  # fmt: skip
    out: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*_REFUSALS, *more}):
        out |= problem(status, texts[status])
    return out


def answered(name: str) -> dict[int | str, dict[str, Any]]:
    """The answers of one question in each format."""
    model = ANSWERS[name][0]
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    text = {"schema": {"type": "string"}}
    content = {kind.partition(";")[0]: text for kind in FORMATS.values()}
    tag = {"description": "Changes when the answer does.", "schema": {"type": "string"}}
    left = {"description": "What was left out, and why.", "schema": {"type": "string"}}
    return {
        200: {
            "description": ANSWERS[name][1],
            "content": content | {"application/json": {"schema": schema}},
            "headers": {"etag": tag, "x-gpucost-left-out": left},
        },
        304: {"description": "The answer is still the one of If-None-Match"},
        **refusals(),
    }


def parameters(name: str) -> list[dict[str, Any]]:
    """The parameters of one question, as OpenAPI has them."""
    found = dict(QUESTIONS[name])
    out = [_described(key, parameter) for key, parameter in found.items()]
    if name in PAGED:
        out.append(_parameter("offset", "Rows to skip: the next page.",
                              {"type": "integer", "minimum": 0, "maximum": 100_000,
                               "default": 0}))  # fmt: skip
    formats = {"type": "string", "enum": list(FORMATS)}
    out.append(_parameter("format", "Goes before the Accept header.", formats))
    return out


def _described(name: str, parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.kind == "string":
        schema |= {"minLength": 1, "maxLength": MAX_TEXT}
    if parameter.choices:
        schema = {"type": "string", "enum": list(parameter.choices)}
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    if parameter.most is not None:
        schema["maximum"] = MOST_ROWS if name == "top" else parameter.most
    if parameter.many:
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 100}
    elif parameter.default is not None:
        schema["default"] = parameter.default
    return _parameter(name, parameter.help, schema, many=parameter.many)


def _parameter(
    name: str, help_: str, schema: Mapping[str, Any], *, many: bool = False
) -> dict[str, Any]:
    out = {"name": name, "in": "query", "required": False, "description": help_, "schema": schema}
    return out | ({"style": "form", "explode": False} if many else {})
