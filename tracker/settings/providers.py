"""A provider's configuration: ``[providers.NAME]``, variables, its conventional key variable."""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from tracker.settings.errors import explain
from tracker.settings.model import Settings
from tracker.settings.sources import SettingsError, from_file_twin, secret_from_env

M = TypeVar("M", bound=BaseModel)
M_co = TypeVar("M_co", bound=BaseModel, covariant=True)

_KEY_FIELD = "api_key"
_PRICE_BOOK = "pricebook"
_COLLECTIONS = (list, tuple, set, frozenset)


class _Facts(Protocol):
    @property
    def key_variable(self) -> str | None: ...


class Configurable(Protocol[M_co]):
    """What of a provider matters here (``tracker.provider`` is a layer beside this one)."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> type[M_co]: ...
    @property
    def facts(self) -> _Facts: ...


def provider_config(
    settings: Settings, provider: Configurable[M], env: Mapping[str, str] | None = None
) -> M:
    """The checked configuration of *provider*.

    Its key is, in this order, ``api_key`` or ``api_key_file`` of ``[providers.NAME]`` or of
    ``GPUCOST_PROVIDERS__NAME__…``, else the conventional variable (``RUNPOD_API_KEY``) or its
    ``_FILE`` twin. Any ``<field>_file`` names a file that holds ``<field>``. The price book reads
    ``pricebook_paths`` unless its own table says otherwise.
    Raises SettingsError with one line.
    """
    env = os.environ if env is None else env
    table = f"[providers.{provider.name}]"
    fields = provider.config.model_fields
    values = {k: v for k, v in settings.providers.get(provider.name, {}).items() if v != ""}
    if provider.name == _PRICE_BOOK and settings.pricebook_paths:
        # The setting's paths are absolute already: relative ones from the configuration file.
        values.setdefault("paths", settings.pricebook_paths)
    for twin in [k for k in values if k.endswith("_file") and k not in fields]:
        name = twin.removesuffix("_file")
        if name in fields:
            file = values.pop(twin)
            values[name] = from_file_twin(f"{table} {name}", values.get(name), file)
    variable = provider.facts.key_variable
    if variable and _KEY_FIELD in fields and values.get(_KEY_FIELD) is None:
        secret = secret_from_env(variable, env)
        if secret is not None:
            values[_KEY_FIELD] = secret
    for name, value in values.items():
        if isinstance(value, str) and name in fields:
            values[name] = _decode(value, fields[name].annotation, f"{table} {name}")
    try:
        return provider.config.model_validate(values)
    except ValidationError as error:
        raise SettingsError(explain(error, provider.config, table, {})) from None


def _decode(value: str, annotation: Any, name: str) -> Any:
    """A variable's text as the collection that the field wants: JSON, or separated by commas."""
    wanted = {typing.get_origin(a) or a for a in (annotation, *typing.get_args(annotation))}
    if str in wanted and not wanted & {*_COLLECTIONS, dict}:
        return value
    if wanted & {*_COLLECTIONS, dict} and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            raise SettingsError(f"{name}: not valid JSON") from None
    if wanted & {*_COLLECTIONS}:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value
