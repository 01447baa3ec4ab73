"""A validation error as one line that names the setting where the user wrote it."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from tracker.settings.service import DAEMON_SECRETS, DaemonSettings
from tracker.settings.sources import DELIMITER, PREFIX, unknown_key

# What the library says in the words of Python, in those of TOML.
_PLAIN = {
    "dict_type": "must be a table, such as [section] or [section.name], not [[section]]",
    "tuple_type": 'must be a list, such as ["one", "two"]',
    "list_type": 'must be a list, such as ["one", "two"]',
    "model_type": "must be a table",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}


def explain(
    error: ValidationError, model: type[BaseModel], origin: str, from_env: Mapping[str, Any]
) -> str:
    """The first problem of *error*, by its variable when it came from one, else by key in *origin*.

    Never shows the value: it may be a secret.
    """
    first, more = error.errors(include_url=False, include_input=False)[0], error.error_count() - 1
    where = [part for part in first["loc"] if isinstance(part, str)]
    if first["type"] == "extra_forbidden":
        *parents, key = where
        known = _field_names(model, parents)
        problem = unknown_key(key, known) + (f" in [{'.'.join(parents)}]" if parents else "")
    else:
        text = (
            _PLAIN.get(first["type"])
            or str(first["msg"]).removeprefix("Value error, ").partition(" for <class")[0]
        )
        problem = f"{'.'.join(where)}: {text[:1].lower()}{text[1:]}"
    if _holds(from_env, where):
        origin = PREFIX + DELIMITER.join(where).upper()
        problem = problem.removeprefix(f"{'.'.join(where)}: ")
    rest = f" (and {more} more)" if more else ""
    return f"{origin}: {problem}{rest}"


def _holds(layer: Mapping[str, Any], where: Sequence[str]) -> bool:
    here: Any = layer
    for part in where:
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return bool(where)


def _field_names(model: type[BaseModel], parents: Sequence[str]) -> list[str]:
    for part in parents:
        field = model.model_fields.get(part)
        inner = None if field is None else _model_in(field.annotation)
        if inner is None:
            return []
        model = inner
    secret = DAEMON_SECRETS if model is DaemonSettings else ()
    return [*model.model_fields, *(f"{name}_file" for name in secret)]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *typing.get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
