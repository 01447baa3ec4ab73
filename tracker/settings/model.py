"""The settings models, and loading them with pydantic-settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic_settings
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from tracker.domain.bounds import bounded
from tracker.domain.owned import Owned, Site, owned_from_tables, site_from_table
from tracker.settings import sources
from tracker.settings.errors import explain
from tracker.settings.service import (
    DAEMON_SECRETS,
    AlertSettings,
    DaemonSettings,
    RetentionSettings,
)
from tracker.settings.sources import PREFIX, SettingsError

_TABLES = ("alerts", "aliases", "daemon", "energy", "http", "providers", "quality", "retention")
_SECRET_WORDS = ("key", "token", "secret", "password")


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _paths(value: object) -> object:
    """A list, JSON or separated like PATH: the two ways to give several paths in a variable."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        import json

        return json.loads(value)
    return [part for part in value.split(os.pathsep) if part]


def _own(value: object) -> tuple[Owned, ...]:
    """The tables, or what a variable holds as JSON."""
    if not isinstance(value, str):
        return owned_from_tables(value)
    import json

    try:
        tables = json.loads(value)
    except ValueError:
        raise ValueError("must be a JSON list of objects") from None
    return owned_from_tables(tables)


LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
LogFormat = Annotated[Literal["text", "json"], BeforeValidator(_lower)]
Fraction = Annotated[Decimal, Field(ge=0, le=1), AfterValidator(bounded)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Price = Annotated[Decimal, Field(ge=0, le=10**9), AfterValidator(bounded)]


class HttpSettings(BaseModel):
    """``[http]``: how gpucost behaves towards providers' servers. Times in seconds.

    ``user_agent_contact`` (a URL or mail address) is sent with every request, so that a provider
    can reach whoever polls it; some providers block requests without an honest User-Agent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    user_agent_contact: str | None = Field(default=None, pattern=r"^[\x21-\x7e]+$", max_length=200)
    connect_seconds: Seconds = 5
    read_seconds: Seconds = 20
    total_seconds: Seconds = 60  # one answer, from first byte sent to last byte read
    stream_total_seconds: Seconds = 900  # one streamed price file (hundreds of MB)
    max_retry_after_seconds: Seconds = 90  # a provider that asks for more fails this poll
    attempts: int = Field(default=3, ge=1, le=10)
    concurrency_per_host: int = Field(default=4, ge=1, le=64)


class QualitySettings(BaseModel):
    """``[quality]``: overrides of the gates that a price passes before it is believed.

    ``bands``: family -> market -> (lowest, highest) plausible USD per GPU-hour.
    ``confirmations``: polls in a row after which a quarantined price is believed after all.
    ``shrink_fraction``: a poll with less than this part of the offers before is not taken as truth.
    ``retired_after_days``: without a good poll for so long a provider is called retired.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bands: dict[str, dict[str, tuple[Price, Price]]] = Field(default_factory=dict)
    confirmations: int = Field(default=3, ge=1, le=1000)
    shrink_fraction: Fraction = Decimal("0.5")
    retired_after_days: int = Field(default=30, ge=1, le=3660)

    @field_validator("bands", mode="after")
    @classmethod
    def _ordered(
        cls, bands: dict[str, dict[str, tuple[Decimal, Decimal]]]
    ) -> dict[str, dict[str, tuple[Decimal, Decimal]]]:
        out: dict[str, dict[str, tuple[Decimal, Decimal]]] = {}
        for family, markets in bands.items():
            if any(low > high for low, high in markets.values()):
                raise ValueError("the lower bound of a band is above its upper bound")
            # Families are in capitals; a variable's come in small letters, and last, so they win.
            out.setdefault(family.upper(), {}).update(markets)
        return out


class Settings(BaseSettings):
    """Everything that can be set, frozen. Made by ``load_settings``; reads nothing by itself.

    ``database_url`` None means the embedded PostgreSQL in ``data_dir``; ``postgres_user`` is the
    account it runs as when gpucost runs as root (None: chosen). ``providers`` holds the raw tables
    of ``[providers.NAME]``, checked by ``provider_config``. ``poll_deadline_seconds`` bounds each
    provider's poll (None: the provider's own deadline). ``own`` are the GPUs that one has.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=sources.DELIMITER,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: SecretStr | None = None
    data_dir: Path
    postgres_bindir: Path | None = None
    postgres_user: str | None = None
    providers: dict[str, dict[str, Any]] = Field(default_factory=dict, repr=False)
    aliases: dict[str, str] = Field(default_factory=dict)
    archive_retention_days: int = Field(default=30, ge=1, le=36_500)
    pricebook_paths: Annotated[tuple[Path, ...], NoDecode] = ()
    poll_deadline_seconds: Seconds | None = None
    http: HttpSettings = HttpSettings()
    quality: QualitySettings = QualitySettings()
    own: Annotated[tuple[Owned, ...], NoDecode, PlainValidator(_own)] = ()
    energy: dict[str, Any] = Field(default_factory=dict)
    daemon: DaemonSettings = DaemonSettings()
    retention: RetentionSettings = RetentionSettings()
    alerts: AlertSettings = AlertSettings()
    log_level: LogLevel = "warning"
    log_format: LogFormat = "text"

    _config_path: Path | None = PrivateAttr(default=None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: pydantic_settings.PydanticBaseSettingsSource,
        *others: pydantic_settings.PydanticBaseSettingsSource,
        **named: pydantic_settings.PydanticBaseSettingsSource,
    ) -> tuple[pydantic_settings.PydanticBaseSettingsSource, ...]:
        """Only what ``load_settings`` passes in: building a Settings has no hidden inputs."""
        return (init_settings,)

    @field_validator("database_url", mode="after")
    @classmethod
    def _postgres(cls, url: SecretStr | None) -> SecretStr | None:
        return None if url is None else SecretStr(sources.database_url(url.get_secret_value()))

    @field_validator("energy", mode="after")
    @classmethod
    def _energy(cls, table: dict[str, Any]) -> dict[str, Any]:
        site_from_table(table)
        return table

    @property
    def site(self) -> Site:
        """What ``[energy]`` says of the place where jobs run."""
        return site_from_table(self.energy)

    @property
    def config_path(self) -> Path | None:
        """The file that was read, if any."""
        return self._config_path

    def secret_values(self) -> tuple[str, ...]:
        """Every secret held here, for the redactor."""
        urls = (
            self.database_url, self.daemon.lock_database_url, self.daemon.heartbeat_url,
            self.daemon.api_token,
        )  # fmt: skip
        found = [url.get_secret_value() for url in urls if url is not None]
        return tuple(found + list(_secrets_in(self.providers)))


def _secrets_in(table: Mapping[str, Any]) -> Iterable[str]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _secrets_in(value)
        elif isinstance(value, str) and any(word in name.lower() for word in _SECRET_WORDS):
            yield value


class _Environment(EnvSettingsSource):
    """pydantic-settings' reader of variables, over a given mapping."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._env.items() if value}


def _env_layer(env: Mapping[str, str]) -> dict[str, Any]:
    try:
        layer = dict(_Environment(env)())
        if "pricebook_paths" in layer:
            layer["pricebook_paths"] = _paths(layer["pricebook_paths"])
    except (pydantic_settings.SettingsError, ValueError) as error:
        field = str(error).partition('"')[2].partition('"')[0] or "pricebook_paths"
        raise SettingsError(f"{PREFIX}{field.upper()}: must be JSON") from None
    for name, value in env.items():
        field = name.upper().removeprefix(PREFIX).lower()
        # pydantic-settings takes null for "not set", and then passes over GPUCOST_X__Y as well.
        if name.upper().startswith(PREFIX) and field in _TABLES and value.strip() == "null":
            raise SettingsError(f"{name.upper()}: must be a JSON object")
    for twin in sources.FILE_TWINS:
        named = [v for k, v in env.items() if k.upper() == f"{PREFIX}{twin.upper()}" and v]
        if named:
            layer[twin] = named[-1]
    return sources.tidy(layer, Path.cwd(), env, f"{PREFIX}DATABASE_URL")


def _read_secret_files(
    layer: dict[str, Any], base: Path, env: Mapping[str, str], spell: Callable[[str, str], str]
) -> dict[str, Any]:
    """One source's values with the file twins of ``[daemon]``'s secrets read.

    *spell* gives the name that this source has for a key of a table. Raises SettingsError.
    """
    table = layer.get("daemon")
    if not isinstance(table, Mapping):
        return layer
    out = {key: value for key, value in table.items() if value != "" or key not in DAEMON_SECRETS}
    for name in DAEMON_SECRETS:
        if (file := out.pop(f"{name}_file", "")) == "":
            continue
        path = str(sources.absolute(file, base, env)) if isinstance(file, str) else file
        out[name] = sources.from_file_twin(spell("daemon", name), out.get(name), path)
    return {**layer, "daemon": out}


def load(path: str | Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """See ``tracker.settings.load_settings``."""
    env = os.environ if env is None else env
    sources.refuse_deep_variables(env)
    file = sources.config_file(path, env)
    from_file = _read_secret_files(
        sources.toml_layer(file, env), file.parent if file else Path.cwd(), env,
        lambda table, key: f"{file}: {table}.{key}",
    )  # fmt: skip
    from_env = _read_secret_files(
        _env_layer(env), Path.cwd(), env,
        lambda table, key: f"{PREFIX}{table}{sources.DELIMITER}{key}".upper(),
    )  # fmt: skip
    merged = sources.deep_merge(
        {"data_dir": str(sources.default_data_dir(env))}, sources.deep_merge(from_file, from_env)
    )
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(explain(error, Settings, str(file), from_env)) from None
    settings._config_path = file
    return settings
